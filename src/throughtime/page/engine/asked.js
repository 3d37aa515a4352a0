// Reading the fields of a request, with a sentence for those that are wrong.

import { Problem } from "./problem.js";

const MAX_CHARACTERS = 2000;

/** A number of a request; `otherwise` if it is left out. Numbers outside their limits are refused. */
export function readNumber(body, name, otherwise, least, most, whole = true) {
  const value = body[name] ?? null;
  if (value === null) return otherwise;
  if (typeof value !== "number" || !(value >= least && value <= most) || (whole && !Number.isInteger(value))) {
    const kind = whole ? "a whole number" : "a number";
    const limits = most < Infinity ? `from ${least} to ${most.toLocaleString("en")}` : `of ${least} or more`;
    throw new Problem(`${name}: is ${JSON.stringify(value)}, expected ${kind} ${limits}`);
  }
  return value;
}

/** The text of a request that is to be looked at token by token. */
export function readText(body, otherwise) {
  const text = body.q ?? otherwise;
  if (typeof text !== "string") throw new Problem("q: is missing; give a text");
  const size = [...text].length;
  if (size > MAX_CHARACTERS) {
    throw new Problem(`q: has ${size.toLocaleString("en")} characters, expected at most 2,000`);
  }
  return text;
}

/** Warnings about texts as a field of an answer; an empty object if there are none. */
export function warn(codec, texts, options) {
  const sentences = Object.values(codec.warnings(texts, options));
  return sentences.length ? { warnings: sentences } : {};
}
