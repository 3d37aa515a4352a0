// What the tasks that read texts have in common: the texts of a request, batches of ids, the likeliest first.

import { checkNumbers, Problem } from "./problem.js";
import { tensor } from "./tensor.js";
import { checkTexts } from "./text/texts.js";

/** The texts of a request, whose field q is a text or a list of texts. */
export function readTexts({ q }) {
  if (typeof q !== "string" && !Array.isArray(q)) throw new Problem("q: is missing; give a text or a list of texts");
  return checkTexts(q);
}

/** Sequences of ids as one column each, padded with zeros: {ids [T, B], lengths [B]}. */
export function pad(sequences) {
  const longest = Math.max(1, ...sequences.map((one) => one.length));
  const ids = tensor("int64", [longest, sequences.length]);
  sequences.forEach((one, column) => {
    one.forEach((id, step) => (ids.data[step * sequences.length + column] = id));
  });
  const lengths = Int32Array.from(sequences, (one) => one.length);
  return { ids, lengths: tensor("int64", [sequences.length], lengths) };
}

/** Numbers of sequences in batches of at most `size`, short sequences first. */
export function batches(sequences, size) {
  const order = sequences.map((_, number) => number);
  order.sort((one, other) => sequences[one].length - sequences[other].length || one - other);
  const found = [];
  for (let first = 0; first < order.length; first += size) found.push(order.slice(first, first + size));
  return found;
}

/** ln P of some words in 64 bits, with probabilities that sum to 1. */
export function normalise(logProbs) {
  let sum = 0;
  for (const value of logProbs) sum += Math.exp(value);
  const total = Math.log(sum);
  checkNumbers([total]);
  return Float64Array.from(logProbs, (value) => value - total);
}

/** The places of the `k` highest values, the highest first; of equal ones, the first. */
export function likeliest(values, k) {
  const best = [];
  for (let place = 0; place < values.length; place += 1) {
    const value = values[place];
    let at = best.length;
    if (at === k && !(value > values[best[k - 1]])) continue;
    while (at > 0 && value > values[best[at - 1]]) at -= 1;
    best.splice(at, 0, place);
    if (best.length > k) best.pop();
  }
  return best;
}
