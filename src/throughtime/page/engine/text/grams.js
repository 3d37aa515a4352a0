// The n-grams of a text, of its words and of its letters, as numbers: those of throughtime/text/grams.py.

import { splitWords } from "./characters.js";

const MAX_LETTERS = 5, BASIS = 2166136261, WORD_BASIS = 84696351, PRIME = 16777619, HASH = 2 ** 31 - 1;
const join = (hash, value) => Math.imul(hash ^ value, PRIME);

/** The n-grams that a model knows, by their hashes; `read` gives the known ones of a text and their weights. */
export class Grams {
  constructor(keys, rarity, characters) {
    this.places = new Map();
    for (let place = keys.length - 1; place >= 0; place -= 1) this.places.set(keys[place], place);
    this.rarity = rarity;
    this.characters = characters;
  }

  read(text) {
    const lower = this.characters.lower(text), columns = [], values = [];
    for (const hashes of [this._words(lower), hashLetters(lower)]) {
      const counts = new Map();
      for (const hash of hashes) {
        const place = this.places.get(hash & HASH);
        if (place !== undefined) counts.set(place, (counts.get(place) ?? 0) + 1);
      }
      const weights = [...counts].map(([place, count]) => (1 + Math.log(count)) * this.rarity[place]);
      const norm = Math.max(1e-9, Math.sqrt(weights.reduce((sum, one) => sum + one * one, 0)));
      columns.push(...counts.keys());
      for (const one of weights) values.push(one / norm);
    }
    return { columns, values };
  }

  /** The hashes of the runs of letters and digits, and of pairs of them. */
  _words(text) {
    const words = [];
    let inside = false;
    for (const one of text) {
      const belongs = this.characters.isAlnum(one);
      if (belongs && !inside) words.push(WORD_BASIS);
      if (belongs) words[words.length - 1] = join(words.at(-1), one.codePointAt(0));
      inside = belongs;
    }
    return [...words, ...words.slice(1).map((word, place) => join(Math.imul(words[place], PRIME), word))];
  }
}

/** The hashes of one to five code points; a space may only be the first or the last of them. */
function hashLetters(text) {
  const points = Array.from(["", ...splitWords(text), ""].join(" "), (one) => one.codePointAt(0)), found = [];
  points.forEach((_, first) => {
    let hash = BASIS;
    for (let size = 1; size <= MAX_LETTERS && first + size <= points.length; size += 1) {
      const last = points[first + size - 1];
      hash = join(hash, last);
      if (size > 1 || last !== 32) found.push(hash);
      if (size > 1 && last === 32) break;
    }
  });
  return found;
}
