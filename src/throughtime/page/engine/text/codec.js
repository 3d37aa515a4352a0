// A tokenizer and a vocabulary together: text to ids and back.

import { Problem } from "../problem.js";
import { openCharacters, length, strip } from "./characters.js";
import { openRule, RULE_NAMES } from "./rules.js";
import { openSubword } from "./subword.js";
import { readVocabulary, Vocabulary } from "./vocabulary.js";
import { InputWarnings } from "./warnings.js";

/** Number of tokens that are decoded again to see what a new one adds. */
export const WINDOW = 24;

/** How the marks around a sequence are displayed, whatever their names in the vocabulary. */
export const BEGIN = "⟨begin⟩";
export const END = "⟨end⟩";

/** What a longer text has after its beginning in common with another one, counted in code points. */
export function cutCommon(text, longer) {
  const [old, all] = [[...text], [...longer]];
  const same = old.findIndex((letter, place) => letter !== all[place]);
  return all.slice(same < 0 ? old.length : same).join("");
}

/** Converts text to ids and back; ids are plain arrays of numbers. */
export class Codec {
  constructor(tokenizer, vocabulary, characters) {
    this.tokenizer = tokenizer;
    this.vocabulary = vocabulary;
    this.characters = characters;
    this.silent = new Set([...vocabulary.reserved].map((name) => vocabulary.id(name)));
    this.silent.delete(vocabulary.unkId);
    this.known = null;
  }

  get size() {
    return this.vocabulary.size;
  }

  get tokens() {
    return this.vocabulary.list;
  }

  /** The ids of a text, optionally with the ids that begin and end a sequence. */
  encode(text, { bos = false, eos = false } = {}) {
    const ids = this.tokenizer.tokenize(text).map((token) => this.vocabulary.id(token));
    if (bos) ids.unshift(require(this.vocabulary.bosId, "<bos>"));
    if (eos) ids.push(require(this.vocabulary.eosId, "<eos>"));
    return ids;
  }

  /** The text of ids, by default without reserved tokens other than the unknown one. */
  decode(ids, skipReserved = true) {
    const kept = skipReserved ? [...ids].filter((number) => !this.silent.has(number)) : [...ids];
    return this.tokenizer.detokenize(kept.map((number) => this.vocabulary.token(number)));
  }

  /** What each id adds to the text, including spaces; the name of a mark such as ⟨end⟩. */
  pieces(ids) {
    return Array.from(ids, (one, place) => this.piece(ids.slice(Math.max(0, place - WINDOW), place), one));
  }

  /** What one id adds to the text of the ids before it. */
  piece(before, one) {
    if (one === this.vocabulary.eosId) return END;
    if (one === this.vocabulary.bosId) return BEGIN;
    const token = this.vocabulary.token(one);
    if (this.vocabulary.reserved.has(token)) return token;
    const near = before.slice(-WINDOW);
    // The last byte of a character adds the character, although the bytes before it were drawn as unknown.
    return cutCommon(this.decode(near), this.decode([...near, one]));
  }

  /** The label of a piece on an axis: without its space, and with a dot if it continues a word. */
  label(piece, before = "") {
    const inner = strip(piece), last = [...before].at(-1);
    if (!inner) return "␣";
    const { isAlnum } = this.characters;
    return isAlnum([...piece][0]) && last !== undefined && isAlnum(last) ? `·${inner}` : inner;
  }

  /** The labels of pieces on an axis; if all are single characters, none has a dot. */
  labels(pieces) {
    const marked = (one) => [..."<[", BEGIN, END].some((mark) => one.startsWith(mark));
    const single = pieces.every((one) => marked(one) || length(one) <= 1);
    return pieces.map((one, place) => this.label(one, single || !place ? "" : pieces[place - 1]));
  }

  /** Sentences about texts unlike the training data, by kind; the options are those of Python's. */
  warnings(texts, options = {}) {
    this.known ??= new InputWarnings(this.tokenizer, this.vocabulary, this.characters);
    return this.known.of(texts, options);
  }
}

function require(number, name) {
  if (number === null) {
    throw new Problem(`vocabulary: has no ${name}; build it with ${name} among its reserved tokens`);
  }
  return number;
}

/** Read the codec in a folder of a model's files, such as "" or "source/". */
export function openCodec(files, folder = "") {
  const characters = openCharacters(files);
  const { tokenizer: name, options } = JSON.parse(files[`${folder}tokenizer_config.json`]);
  if (RULE_NAMES.includes(name)) {
    const vocabulary = readVocabulary(files[`${folder}vocabulary.txt`]);
    return new Codec(openRule(name, options, characters), vocabulary, characters);
  }
  const definition = JSON.parse(files[`${folder}tokenizer.json`]);
  const tokenizer = openSubword(name, definition, characters);
  return new Codec(tokenizer, new Vocabulary(definition.tokens, definition.special), characters);
}
