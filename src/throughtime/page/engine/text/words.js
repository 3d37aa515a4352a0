// How a tagger reads words: their ids, their letters, and what its language models read.

import { tensor } from "../tensor.js";
import { openCharacters } from "./characters.js";
import { openCodec } from "./codec.js";
import { NOTHING } from "./framing.js";
import { openRule } from "./rules.js";
import { readVocabulary } from "./vocabulary.js";
import { InputWarnings } from "./warnings.js";

/** The words, letters, tags and labels of a tagger; `settings` are those of its export. */
export function openTagWords(files, settings) {
  const characters = openCharacters(files);
  const read = (name) => readVocabulary(files[`${name}.txt`]);
  const words = read("words"), letters = read("characters");
  const warnings = new InputWarnings(openRule("char", {}, characters), letters, characters);
  return {
    tags: read("tags").list,
    labels: settings.labelled ? read("labels").list : [],
    /** The id of a word; 0 if it has no vector of its own. */
    wordId(form) {
      const id = words.id(settings.lowercase ? characters.lower(form) : form);
      return id < settings.vectors ? id : 0;
    },
    /** The ids of a word's letters; the middle of a long word is left out. */
    letterIds(form) {
      const all = [...form], most = settings.max_characters, start = Math.floor(most / 2);
      if (all.length > most) all.splice(start, all.length - most);
      return all.map((one) => letters.id(one));
    },
    /** Split a text into words by a tokenizer without training, such as "space" or "unicode". */
    split: (text, tokenize = "space") => openRule(tokenize, {}, characters).tokenize(text),
    /** A tagger reads unknown words by their letters, so only unknown letters count. */
    warnings: (texts, options) => warnings.of(texts, options),
    indicators: settings.indicators ? openIndicators(read("indicators"), characters) : null,
    languages: settings.languages.map((reader, number) =>
      openReader(openCodec(files, `language-${number}/`), reader)),
  };
}

/** What a language model reads of a sentence: (words) => [ids in its direction, the place of each word's last id]. */
function openReader(codec, { begin_id, backward, between }) {
  return (words) => {
    const ids = [begin_id ?? NOTHING], places = [];
    (backward ? [...words].reverse() : words).forEach((word, number) => {
      const own = codec.encode(word);
      ids.push(...(number ? between : []), ...(backward ? own.reverse() : own));
      places.push(ids.length - 1);
    });
    return [ids, backward ? places.reverse() : places];
  };
}

/** The distinct words of some sentences, and the sentences as numbers of these. */
export function numberForms(sentences) {
  const forms = new Map();
  const number = (word) => forms.get(word) ?? forms.set(word, forms.size).get(word);
  const numbered = sentences.map((words) => words.map(number));
  return [[...forms.keys()], numbered];
}

const REPEATED = /(.)\1+/gsu;
const LONGEST = 4, NEIGHBOURS = [-2, -1, 1, 2], NEAR = 2;

/** What is said of a word itself; it begins with what is said of a neighbour. */
function describe(form, { lower, isAlpha, isDecimal }) {
  const shape = [...form].map((one) =>
    one !== lower(one) ? "X" : isAlpha(one) ? "x" : isDecimal(one) ? "0" : one).join("");
  const small = lower(form), letters = [...small];
  const sizes = Array.from({ length: LONGEST }, (_, number) => number + 1);
  const beginnings = sizes.map((size) => letters.slice(0, size).join(""));
  const ends = sizes.map((size) => letters.slice(-size).join(""));
  return [small, shape.replace(REPEATED, "$1"), shape, form, ...beginnings, ...ends];
}

/** The indicators of each word of a sentence; those of a kind begin with its number. */
function indicate(words, characters) {
  const described = words.map((word) => describe(word, characters));
  return described.map((values, place) => {
    const sides = NEIGHBOURS.map((at) => described[place + at]?.slice(0, NEAR) ?? Array(NEAR).fill(""));
    return [...values, ...sides.flat()].map((value, number) => `${number}=${value}`);
  });
}

/** The ids of the indicators of all words as a tensor [T, B, K], 0 for unknown ones and past the end. */
function openIndicators(vocabulary, characters) {
  return (sentences) => {
    const rows = sentences.map((words) => indicate(words, characters).map((row) => row.map((one) => vocabulary.id(one))));
    const longest = Math.max(1, ...rows.map((row) => row.length)), size = rows[0][0].length;
    const ids = tensor("int64", [longest, rows.length, size]);
    rows.forEach((row, column) => row.forEach((one, step) => ids.data.set(one, (step * rows.length + column) * size)));
    return ids;
  };
}
