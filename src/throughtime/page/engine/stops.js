// The strings at which a text stops.

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
