// Interventions in a search: what the translation must begin with and must not contain, and what this changed.

import { make, short } from "./dom.js";
import { say } from "./words.js";

const MAX_FORBIDDEN = 8; // forbidden texts
/** Letters of scripts without spaces between words. */
export const WIDE = /[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]/u;

export class Interventions {
  /** `search` asks again, with `fields()` added to the request. */
  constructor(search) {
    this.search = search;
    this.chips = make("div", { class: "chips", role: "group", "aria-label": say("Interventions") });
    this.changes = make("div", { class: "changes", "aria-live": "polite" });
    this.element = make("div", { class: "interventions" }, this.chips, this.changes);
    this.clear();
  }

  /** Forget everything: for another text or another model. */
  clear() {
    Object.assign(this, { prefix: "", forbidden: [], plain: null });
    this.draw();
  }

  /** Take over those of another section of the same kind. */
  restore({ key, prefix, forbidden, plain }) {
    Object.assign(this, { key, prefix, forbidden, plain });
    this.draw();
  }

  /** Interventions belong to one text and one model; for others they are forgotten. */
  begin(key) {
    if (key !== this.key) this.clear();
    this.key = key;
  }

  get active() {
    return Boolean(this.prefix || this.forbidden.length);
  }

  /** The fields of a request. */
  fields() {
    return {
      ...(this.prefix ? { prefix: this.prefix } : {}),
      ...(this.forbidden.length ? { forbid: this.forbidden } : {}),
    };
  }

  force(prefix) {
    this.change({ prefix });
  }

  forbid(text) {
    if (!this.forbidden.includes(text)) this.change({ forbidden: [...this.forbidden, text].slice(-MAX_FORBIDDEN) });
  }

  change(fields) {
    Object.assign(this, fields);
    this.draw();
    this.search();
  }

  draw() {
    const chip = (words, back) =>
      make(
        "button",
        {
          type: "button",
          class: "chip",
          onclick: () => {
            this.change(back());
            // The chip is gone: the keyboard goes on with the next one, or with the picture.
            (
              this.chips.querySelector("button") ?? this.element.parentElement?.querySelector("[tabindex='0']")
            )?.focus();
          },
        },
        make("span", { class: "unseen" }, say("Take back:"), " "),
        words,
        make("span", { "aria-hidden": "true" }, " ✕"),
      );
    const all = this.forbidden.map((text) =>
      chip(say("without “{text}”", { text }), () => ({
        forbidden: this.forbidden.filter((other) => other !== text),
      })),
    );
    if (this.prefix) {
      const text = this.prefix;
      all.unshift(chip(say("begins with “{text}”", { text }), () => ({ prefix: "" })));
    }
    this.chips.replaceChildren(...all);
    if (!this.active) this.changes.replaceChildren();
  }

  /** Compare the best translation with the one that was found without interventions. */
  compare({ text, score }) {
    if (!this.active) {
      this.plain = { text, score };
      this.changes.replaceChildren();
      return;
    }
    if (!this.plain) return;
    const [before, after] = differences(this.plain.text, text);
    const shown = (parts, tag) => parts.map(([one, stays]) => (stays ? one : make(tag, {}, one)));
    const line = (title, words, value) =>
      make(
        "p",
        {},
        make("span", { class: "title" }, title),
        make("bdi", {}, words),
        make("span", { class: "score" }, short(value, 3)),
      );
    this.changes.replaceChildren(
      line(say("before"), shown(before, "del"), this.plain.score),
      line(say("now"), shown(after, "ins"), score),
      make(
        "p",
        { class: "hint" },
        text === this.plain.text
          ? say("The best translation did not change.")
          : score < this.plain.score
            ? say("The model finds this translation less likely than its own choice.")
            : say("This translation has a better score: the search had missed it."),
      ),
    );
  }
}

/** The words of two texts, each with whether it stays: it belongs to the longest sequence that both have. */
export function differences(one, other) {
  // Scripts without spaces are compared letter by letter.
  const split = (text) =>
    text.match(/\s+|[\p{L}\p{M}\p{N}'’-]+|./gsu)?.flatMap((word) => (WIDE.test(word) ? [...word] : word)) ?? [];
  const [first, second] = [split(one), split(other)];
  const longest = Array.from({ length: first.length + 1 }, () => new Uint16Array(second.length + 1));
  for (let i = first.length - 1; i >= 0; i -= 1)
    for (let j = second.length - 1; j >= 0; j -= 1)
      longest[i][j] =
        first[i] === second[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
  const [before, after] = [[], []];
  for (let i = 0, j = 0; i < first.length || j < second.length;) {
    const both = i < first.length && j < second.length && first[i] === second[j];
    if (both) {
      before.push([first[i++], true]);
      after.push([second[j++], true]);
    } else if (j >= second.length || (i < first.length && longest[i + 1][j] >= longest[i][j + 1]))
      before.push([first[i++], false]);
    else after.push([second[j++], false]);
  }
  return [before, after];
}

/** The buttons for a chosen token: `chosen` is {prefix, forbid}, texts or null. */
export function choiceBar(interventions) {
  const words = make("span", { class: "chosen" });
  const force = make("button", { type: "button" }, say("Begin with this"));
  const forbid = make("button", { type: "button" }, say("Forbid this"));
  const element = make(
    "div",
    { class: "row choice-bar", role: "group", "aria-label": say("Intervene") },
    words,
    force,
    forbid,
  );
  let now = null;
  force.addEventListener("click", () => now?.prefix && interventions.force(now.prefix));
  forbid.addEventListener("click", () => now?.forbid && interventions.forbid(now.forbid));
  function choose(chosen) {
    now = chosen;
    force.disabled = !chosen?.prefix;
    forbid.disabled = !chosen?.forbid;
    words.textContent = chosen
      ? `“${chosen.prefix ?? chosen.forbid ?? chosen.label}”`
      : say("Choose a token to force or forbid it.");
  }
  choose(null);
  return { element, choose };
}
