// Attention between tokens as attention between words.

import { END } from "./text/codec.js";
import { strip } from "./text/characters.js";
import { openUnicode } from "./text/unicode.js";

// Turns rows of attention, one for each target token, into an alignment of words. Weights are summed over the tokens
// of a source word and averaged over those of a target word. The last column belongs to the source's end mark; if
// there is a row more than target tokens, it belongs to that of the translation.
export function alignWords(codecs, rows, sourceTokens, targetTokens) {
  const source = groupIntoWords(sourceTokens, codecs.source);
  const target = groupIntoWords(targetTokens, codecs.target);
  addEnd(source);
  if (rows.length > targetTokens.length) {
    addEnd(target);
  }
  const weights = target.words.map(() => Array(source.words.length).fill(0));
  const counts = target.words.map((_, word) => target.owner.filter((owner) => owner === word).length);
  rows.forEach((row, place) => {
    const own = weights[target.owner[place]];
    source.owner.forEach((word, column) => (own[word] += row[column]));
  });
  weights.forEach((row, word) => row.forEach((sum, column) => (row[column] = sum / counts[word])));
  return { source: source.words, target: target.words, weights };
}

function addEnd({ words, owner }) {
  owner.push(words.length);
  words.push(END);
}

// The words that tokens spell, and for each token the number of its word: that in which it ends, so that the bytes of
// one character stay together.
function groupIntoWords(tokens, { tokenizer, characters }) {
  const text = tokenizer.detokenize(tokens);
  const ends = wordEnds(text, characters);
  const reached = [];
  tokens.forEach((_, place) => {
    const last = tokenizer.detokenize(tokens.slice(0, place + 1)).length;
    let word = reached.at(-1) ?? 0;
    while (word + 1 < ends.length && last > ends[word]) {
      word += 1;
    }
    reached.push(word);
  });
  const owned = [...new Set(reached)];
  const bounds = [0, ...owned.slice(0, -1).map((word) => ends[word]), text.length];
  const words = owned.map((_, place) => strip(text.slice(bounds[place], bounds[place + 1])));
  return { words, owner: reached.map((word) => owned.indexOf(word)) };
}

// The position after each word, punctuation mark or ideograph of a text.
function wordEnds(text, characters) {
  const ends = [];
  let place = 0;
  for (const word of openUnicode({}, characters).tokenize(text)) {
    const found = text.indexOf(word, place);
    if (found >= 0) {
      place = found + word.length;
      ends.push(place);
    }
  }
  return ends.length ? ends : [text.length];
}

// The alignments of the parts of a text as one; words of different parts have weight 0.
export function joinAlignments(parts) {
  const join = (side) => parts.flatMap((part) => part[side]);
  const width = join("source").length;
  let before = 0;
  const weights = parts.flatMap((part) => {
    const rows = part.weights.map((row) => {
      const whole = Array(width).fill(0);
      row.forEach((weight, column) => (whole[before + column] = weight));
      return whole;
    });
    before += part.source.length;
    return rows;
  });
  return { source: join("source"), target: join("target"), weights };
}
