// The lexical shortlist of a translator: the target tokens that each source token allows.

import { Problem } from "./problem.js";

const [MAX_CANDIDATES, DEFAULT_CANDIDATES, MIN_VOCABULARY] = [100, 30, 2000];

export class Shortlist {
  // The translations of source token s are ids[starts[s]] to ids[starts[s + 1] - 1], best first.
  constructor({ starts, ids, always }) {
    [this.starts, this.ids, this.always] = [starts.data, ids.data, always.data];
  }

  // The target tokens for a sentence, rising: `count` for each source token, and `extra` ones.
  candidates(prompt, count, extra = []) {
    const found = new Set([...this.always, ...extra]);
    for (const token of new Set(prompt)) {
      const first = this.starts[token];
      const last = Math.min(this.starts[token + 1], first + count);
      this.ids.subarray(first, last).forEach((id) => found.add(id));
    }
    return Int32Array.from(found).sort();
  }
}

// The number of candidates for each source token; 0 for the whole vocabulary. By default a model that has a shortlist
// uses it if its vocabulary is large.
export function chooseCount(asked, shortlist, size) {
  if (asked === undefined || asked === null) {
    return shortlist && size >= MIN_VOCABULARY ? DEFAULT_CANDIDATES : 0;
  }
  if (!(asked >= 0 && asked <= MAX_CANDIDATES)) {
    throw new Problem(`shortlist: is ${asked}, expected 0 (the whole vocabulary) to ${MAX_CANDIDATES}`);
  }
  if (asked && !shortlist) {
    throw new Problem(`shortlist: is ${asked}, but this model has none; set it to 0`);
  }
  return asked;
}
