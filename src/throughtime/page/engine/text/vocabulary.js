// Vocabularies: the tokens that a model knows and their ids.

import { Problem } from "../problem.js";
import { quote } from "./characters.js";

const ROLES = {
  unkId: ["<unk>", "[UNK]"],
  padId: ["<pad>", "[PAD]"],
  bosId: ["<bos>", "[CLS]", "<s>", "<|endoftext|>"],
  eosId: ["<eos>", "[SEP]", "</s>", "<|endoftext|>"],
  maskId: ["<mask>", "[MASK]"],
};
const NAMED = { "\\\\": "\\", "\\t": "\t", "\\n": "\n", "\\r": "\r" };

/** Tokens and their ids, which count from 0: `unkId`, `bosId` and so on are null if there is no such token. */
export class Vocabulary {
  constructor(tokens, reserved = [], counts = null) {
    this.list = tokens;
    this.counts = counts;
    this.numbers = new Map(tokens.map((token, number) => [token, number]));
    this.reserved = new Set([...Object.values(ROLES).flat(), ...reserved].filter((name) => this.has(name)));
    for (const [role, names] of Object.entries(ROLES)) {
      const name = names.find((one) => this.has(one));
      this[role] = name === undefined ? null : this.numbers.get(name);
    }
  }

  get size() {
    return this.list.length;
  }

  has(token) {
    return this.numbers.has(token);
  }

  /** The id of a token; of one that is not in the vocabulary, the id of unknown tokens. */
  id(token) {
    const number = this.numbers.get(token) ?? this.unkId;
    if (number === null) {
      throw new Problem(`token ${quote(token)}: is not in the vocabulary, and the vocabulary has no <unk>`);
    }
    return number;
  }

  token(number) {
    if (!(number >= 0 && number < this.size)) {
      throw new Problem(`id ${number}: is not in the vocabulary, whose ids are 0 to ${this.size - 1}`);
    }
    return this.list[number];
  }
}

/** Read a vocabulary from its file: one token per line, then its count and "reserved" if these apply. */
export function readVocabulary(text) {
  const lines = text.replace(/^\ufeff/, "").split("\n");
  if (lines.at(-1) === "") lines.pop();
  const tokens = [], reserved = [], counts = new Map();
  for (const line of lines) {
    const [written, count, mark] = line.replace(/\r+$/, "").split("\t");
    const token = written.replace(/\\(?:u[0-9a-f]{4}|[^])/g, (escaped) =>
      escaped.length === 6 ? String.fromCharCode(parseInt(escaped.slice(2), 16)) : NAMED[escaped]);
    tokens.push(token);
    if (count) counts.set(token, Number(count));
    if (mark) reserved.push(token);
  }
  return new Vocabulary(tokens, reserved, counts.size ? counts : null);
}
