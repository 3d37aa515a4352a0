// What every text that a model writes must begin with or avoid, as lists of ids.

import { Problem } from "./problem.js";
import { quote, strip } from "./text/characters.js";

// Reads `prefix`, a text, and `forbid`, a list of texts. Words are compared as the tokenizer splits them inside a
// sentence, so a forbidden word excludes all words that begin with its tokens.
export function readConstraints(codec, prefix = "", forbid = []) {
  const words = typeof forbid === "string" ? [forbid] : forbid;
  const texts = [...(prefix ? [["prefix", prefix]] : []), ...words.map((word) => ["forbid", word])];
  for (const [option, text] of texts) {
    if (!strip(text)) {
      throw new Problem(`${option}: is empty; give a word, or leave it out`);
    }
    if (!codec.encode(text).length) {
      throw new Problem(`${option}: is ${quote(text)}, which has no token in the model's vocabulary`);
    }
  }
  const ids = prefix ? codec.encode(prefix) : [];
  if (ids.includes(codec.vocabulary.unkId)) {
    throw new Problem(`prefix: is ${quote(prefix)}, which is not in the model's vocabulary`);
  }
  const forbidden = words.map((word) => encodeBoth(word, codec));
  words.forEach((word, number) => {
    if (forbidden[number].some((own) => occurs(own, ids))) {
      const both = `${quote(prefix)}, which forbid=${quote(word)} rules out`;
      throw new Problem(`prefix: is ${both}; leave one of them out`);
    }
  });
  return { prefix: ids, forbidden: forbidden.flat(), any: texts.length > 0 };
}

// A word at the beginning of a sentence and inside one, where byte pairs include the space before it.
function encodeBoth(word, codec) {
  const [before, both, alone] = [codec.encode("a"), codec.encode(`a ${word}`), codec.encode(word)];
  const inside = before.every((id, place) => both[place] === id) ? both.slice(before.length) : alone;
  return [alone, inside].filter((ids) => ids.length);
}

function occurs(ids, among) {
  return among.some((_, at) => at + ids.length <= among.length && ids.every((id, place) => among[at + place] === id));
}
