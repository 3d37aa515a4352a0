// Checks of texts, and long texts in parts.

import { Problem } from "../problem.js";
import { PYTHON_SPACE, strip } from "./characters.js";

const SENTENCE = new RegExp(`(?<=[.!?…])${PYTHON_SPACE}+|(?<=[。！？])${PYTHON_SPACE}*`, "gu");
// After a clause, a word, or anywhere.
const CUTS = [
  new RegExp(`(?<=[,;:])${PYTHON_SPACE}+|(?<=[，；：、])${PYTHON_SPACE}*`, "gu"),
  new RegExp(`${PYTHON_SPACE}+`, "gu"),
  /(?<=[^])(?=[^])/gu,
];
const NO_SPACE_AFTER = /[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]$/;
const HALF = /[\ud800-\udfff]/u;

/** Return the text; refuse what is not one. */
export function checkText(text, where) {
  if (typeof text !== "string") throw new Problem(`${where}: is of type ${typeof text}, expected a text`);
  if (HALF.test(text)) throw new Problem(`${where}: is not valid text: it has half a surrogate pair`);
  return text;
}

/** Return texts as a list, a single text as a list of one. */
export function checkTexts(texts, where = "texts") {
  const list = typeof texts === "string" ? [texts] : texts;
  if (!Array.isArray(list)) throw new Problem(`${where}: is of type ${typeof texts}; give a text or a list of texts`);
  return list.map((text, number) => checkText(text, `${where}[${number}]`));
}

/** Split a text of more than `limit` tokens into sentences, and sentences of twice the limit into parts. */
export function splitText(text, limit, count) {
  if (count(text) <= limit) return [text];
  return cutPieces(text, SENTENCE).flatMap((sentence) =>
    (count(sentence) <= 2 * limit ? [strip(sentence)] : cutLong(sentence, limit, count, 0)));
}

function cutPieces(text, cut) {
  const pieces = [];
  let start = 0;
  for (const end of [...Array.from(text.matchAll(cut), (match) => match.index + match[0].length), text.length]) {
    if (!strip(text.slice(start, end))) continue;
    pieces.push(text.slice(start, end));
    start = end;
  }
  return pieces;
}

/** Split a text by one kind of cut, and join neighbouring pieces as long as they fit. */
function cutLong(text, limit, count, kind) {
  const parts = [];
  let held = "", size = 0;
  const release = () => {
    if (held) parts.push(strip(held));
    held = "";
    size = 0;
  };
  for (const piece of cutPieces(text, CUTS[kind])) {
    const tokens = count(piece);
    if (size + tokens > limit) release();
    if (tokens > limit && kind + 1 < CUTS.length) parts.push(...cutLong(piece, limit, count, kind + 1));
    else {
      held += piece;
      size += tokens;
    }
  }
  release();
  return parts;
}

/** Join translated parts to one text; Chinese and Japanese have no spaces between sentences. */
export function joinTexts(texts) {
  return texts.filter(Boolean).reduce((whole, text) =>
    whole + (!whole || NO_SPACE_AFTER.test(whole) ? text : ` ${text}`), "");
}
