// What the tasks that read texts have in common: the texts of a request, batches of ids, the likeliest first.

import { Problem } from "./problem.js";
import { tensor } from "./tensor.js";
import { checkTexts } from "./text/texts.js";

/** The texts of a request, whose field q is a text or a list of texts. */
export function readTexts({ q }) {
  if (typeof q !== "string" && !Array.isArray(q)) throw new Problem("q: is missing; give a text or a list of texts");
  return checkTexts(q);
}

/** A whole number of a request within bounds, or the default if it is left out. */
export function readCount(name, value, otherwise, most = Infinity) {
  if (value === undefined || value === null) return otherwise;
  if (!Number.isInteger(value) || value < 1)
    throw new Problem(`${name}: is ${value}, expected a whole number of 1 or more`);
  if (value > most) throw new Problem(`${name}: is ${value}, expected at most ${most}`);
  return value;
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
  return Float64Array.from(logProbs, (value) => value - total);
}

/** The places of the `k` highest values, the highest first; of equal ones, the first. */
export function likeliest(values, k) {
  const order = Array.from(values, (_, place) => place);
  return order.sort((one, other) => values[other] - values[one] || one - other).slice(0, k);
}

/** The answer to a request: the results and, if there are any, the warnings about its texts. */
export function answerTexts(model, results, warnings) {
  const sentences = Object.values(warnings);
  return { model: model.name, results, ...(sentences.length ? { warnings: sentences } : {}) };
}
