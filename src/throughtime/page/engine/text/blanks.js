// Sentences with blanks, as people write them and as a model reads them.

import { Problem } from "../problem.js";

const BLANK = /_{2,}|\[MASK\]/;
// A separate token before any letter, mark or space.
const NEIGHBOUR = "1";

const trimEnd = (text) => text.replace(/ +$/, "");

/** Read a text with blanks: {text, ids, places}; a blank is [MASK] or two or more underscores. */
export function readBlanks(text, codec) {
  const { subword } = codec.tokenizer, { maskId } = codec.vocabulary;
  if (maskId === null) {
    throw new Problem(`tokenizer '${codec.tokenizer.name}': has no [MASK] token; choose another tokenizer`);
  }
  const [first, ...others] = text.split(BLANK);
  if (!others.length) throw new Problem("text: has no blank; write ___ where a word is missing");
  // A subword holds the space before it, so the space before a blank is part of what is missing.
  const ids = codec.encode(subword ? trimEnd(first) : first), places = [];
  others.forEach((behind, number) => {
    places.push(ids.length);
    ids.push(maskId);
    const last = number === others.length - 1;
    const after = subword ? encodeAfter(last ? behind : trimEnd(behind), codec) : codec.encode(behind);
    for (const id of after) ids.push(id); // too many to be arguments
  });
  return { text, ids, places };
}

/** The text with these tokens in its blanks and the rest unchanged. */
export function fillBlanks(text, words, codec) {
  const [first, ...others] = text.split(BLANK);
  return others.reduce((before, behind, number) => {
    const token = tokenText(words[number], codec);
    if (!codec.tokenizer.subword) return before + token + behind;
    // A subword that does not begin a word is joined to the text before it.
    return (token.startsWith(" ") ? before : trimEnd(before)) + token.replace(/^ +| +$/g, "") + behind;
  }, first);
}

/** The text of a token inside a sentence, with the space before it if that is part of it. */
export function tokenText(word, codec) {
  return codec.tokenizer.subword ? decodeAfter([word], codec) : codec.vocabulary.token(word);
}

function decodeAfter(ids, codec) {
  const before = codec.encode(NEIGHBOUR);
  return [...codec.decode([...before, ...ids])].slice([...codec.decode(before)].length).join("");
}

function encodeAfter(text, codec) {
  const before = codec.encode(NEIGHBOUR), both = codec.encode(NEIGHBOUR + text);
  return before.every((id, place) => both[place] === id) ? both.slice(before.length) : codec.encode(text);
}
