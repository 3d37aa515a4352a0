// The text that each new token adds, and the strings at which a text stops.

/** The number of tokens that are decoded again to see what a new one adds. */
export const WINDOW = 24;
/** What the first bytes of a character decode to. */
const TORN = "\ufffd";

/** Returns the text that each token adds; characters of several tokens come when they are complete. */
export class Spelling {
  constructor(decode, prompt) {
    this.decode = decode;
    this.ids = prompt.slice(-WINDOW);
    this.spelled = this.ids.length;
  }

  add(token) {
    this.ids.push(token);
    const longer = this.decode(this.ids);
    return longer.endsWith(TORN) ? "" : this.spell(longer);
  }

  /** What was held back, at the end. */
  rest() {
    return this.spelled < this.ids.length ? this.spell(this.decode(this.ids)) : "";
  }

  spell(longer) {
    const [before, after] = [[...this.decode(this.ids.slice(0, this.spelled))], [...longer]];
    this.ids = this.ids.slice(-WINDOW);
    this.spelled = this.ids.length;
    // A token may change what was written before it, such as the space after a quotation mark.
    const place = before.findIndex((old, at) => at < after.length && old !== after[at]);
    return after.slice(place < 0 ? before.length : place).join("");
  }
}

/** Holds text back while it may be the beginning of a stop string. */
export class Stops {
  constructor(stops) {
    this.stops = stops.filter(Boolean);
    this.held = "";
    this.stopped = false;
  }

  /** Adds text and returns what is certain to be written. */
  add(text) {
    const whole = this.held + text;
    const places = this.stops.map((stop) => whole.indexOf(stop)).filter((place) => place >= 0);
    this.stopped = places.length > 0;
    const begun = this.stops.map((stop) => {
      let size = Math.min(whole.length, stop.length - 1);
      while (size > 0 && !whole.endsWith(stop.slice(0, size))) size -= 1;
      return size;
    });
    const sure = this.stopped ? Math.min(...places) : whole.length - Math.max(0, ...begun);
    this.held = this.stopped ? "" : whole.slice(sure);
    return whole.slice(0, sure);
  }

  rest() {
    const { held } = this;
    this.held = "";
    return held;
  }
}
