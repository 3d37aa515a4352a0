// Warnings about texts that a model knows too little about.

import { length, splitWords, strip } from "./characters.js";
import { BYTE_OF_SIGN } from "./subword.js";

const KNOWN_SCRIPT = 0.0005, TOO_MUCH = 0.5, SHOWN = 8;
const LITTLE = "so the answer means little";
const CALLED = { CJK: "Chinese characters", HIRAGANA: "Japanese kana", KATAKANA: "Japanese kana" };
const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });

const add = (counts, key, number = 1) => counts.set(key, (counts.get(key) ?? 0) + number);
const sum = (counts) => [...counts.values()].reduce((total, count) => total + count, 0);

/** A share in percent, rounded as Python does: halves to even numbers. */
function percent(share) {
  const value = share * 100, down = Math.floor(value);
  const half = value - down === 0.5;
  return `${half ? down + (down % 2) : Math.round(value)}%`;
}

/** The text of a byte-level token; an incomplete last letter is completed to one of the same script. */
function spell(token) {
  const raw = Array.from(token, (sign) => BYTE_OF_SIGN.get(sign) ?? 63);
  while (raw.length && raw[0] >= 128 && raw[0] < 192) raw.shift();
  for (let missing = 0; missing < 4; missing++) {
    try {
      return strict.decode(Uint8Array.from([...raw, ...Array(missing).fill(0xbf)]));
    } catch {
      continue;
    }
  }
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(raw)).replaceAll("\ufffd", "");
}

export class InputWarnings {
  constructor(tokenizer, vocabulary, characters) {
    this.tokenizer = tokenizer;
    this.vocabulary = vocabulary;
    this.characters = characters;
    const words = vocabulary.list.filter((token) => !vocabulary.reserved.has(token));
    const longer = words.filter((token) => length(token) > 1);
    this.inBytes = tokenizer.inBytes ?? false;
    this.scripts = this._commonScripts(this.inBytes ? longer.map(spell) : words);
    this.inLongerTokens = new Set(this.inBytes ? longer.join("") : "");
    const { normaliser = "none" } = tokenizer.options;
    this.name = `the tokenizer '${tokenizer.name}'` + (normaliser !== "none" ? ` with '${normaliser}'` : "");
  }

  /**
   * For each kind of problem, a sentence about the first text that has it; `numbers` are those of the texts in
   * messages. With `dropped`, every character that the tokenizer drops is reported; with `blankLines`, empty texts
   * are reported only if all are empty.
   */
  of(texts, { numbers = null, dropped = false, blankLines = false } = {}) {
    const problems = new Map();
    const quiet = blankLines && texts.some((text) => strip(text));
    texts.forEach((text, place) => {
      const found = strip(text) || !quiet ? this._problem(text, dropped) : null;
      if (!found) return;
      const [kind, problem] = found;
      if (!problems.has(kind)) problems.set(kind, []);
      problems.get(kind).push([numbers?.[place] ?? place + 1, problem]);
    });
    const alone = numbers === null && texts.length === 1;
    return Object.fromEntries([...problems].map(([kind, own]) => [kind, sentence(own, alone)]));
  }

  _commonScripts(words) {
    const counts = new Map();
    let total = 0;
    for (const word of words) {
      const scripts = new Set(Array.from(word, this.characters.script));
      scripts.delete("");
      total += scripts.size ? 1 : 0;
      for (const script of scripts) add(counts, script);
    }
    return new Set([...counts].filter(([, count]) => count >= KNOWN_SCRIPT * total).map(([script]) => script));
  }

  _problem(text, dropped) {
    if (!strip(text)) return ["empty", `is empty, ${LITTLE}`];
    const tokens = this.tokenizer.tokenize(text);
    const lost = this.tokenizer.subword ? [] : this._findDropped(text, tokens);
    const problem = this._strange(text, tokens, lost);
    if (problem || !dropped || !lost.length) return problem;
    const hex = (one) => `U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    const names = [...new Set(lost)].map((one) => (this.characters.isPrintable(one) ? one : hex(one)));
    const shown = names.slice(0, SHOWN).join(" ") + (names.length > SHOWN ? " ..." : "");
    return ["dropped", `has characters that ${this.name} drops, so the model does not see them: ${shown}`];
  }

  _strange(text, tokens, lost) {
    const { isAlpha, script } = this.characters, counts = new Map(), letters = new Map();
    for (const one of text) add(counts, one);
    for (const [one, count] of counts) if (script(one)) add(letters, script(one), count);
    const strange = new Map([...letters].filter(([name]) => !this.scripts.has(name)));
    const total = sum(letters);
    if (sum(strange) > TOO_MUCH * total) {
      const [name] = [...strange].reduce((most, one) => (one[1] > most[1] ? one : most));
      return ["script", `is in ${scriptName(name)}, which the model never saw, ${LITTLE}`];
    }
    if (lost.length && !tokens.some((token) => strip(token))) {
      return ["nothing", `is dropped whole by ${this.name}, ${LITTLE}`];
    }
    const lostLetters = lost.filter(isAlpha).length;
    if (lostLetters > TOO_MUCH * total) {
      return ["letters", `loses ${percent(lostLetters / total)} of its letters to ${this.name}, ${LITTLE}`];
    }
    const words = this._words(tokens), unknown = words.filter((word) => this._isUnknown(word)).length;
    if (!(unknown > TOO_MUCH * words.length) || (this.inBytes && unknown < words.length)) return null;
    if (this.inBytes) return ["unknown", `has only characters that are rare in training, ${LITTLE}`];
    const known = unknown < words.length ? `${unknown} of ${words.length} tokens` : "only tokens";
    return ["unknown", `has ${known} that are not in the vocabulary, ${LITTLE}`];
  }

  /** The tokens that count: words and numbers, or punctuation if there is nothing else. */
  _words(tokens) {
    if (this.inBytes) return tokens.filter((token) => (BYTE_OF_SIGN.get(token) ?? 255) > 32);
    const visible = tokens.filter((token) => strip(token));
    const words = visible.filter((token) => [...token].some(this.characters.isAlnum));
    return words.length ? words : visible;
  }

  _isUnknown(token) {
    if (!this.inBytes) return !this.vocabulary.has(token) || this.vocabulary.id(token) === this.vocabulary.unkId;
    if (length(token) !== 1) return false;
    return (BYTE_OF_SIGN.get(token) ?? 0) > 127 ||
      !(this.characters.isAlpha(token) || this.inLongerTokens.has(token));
  }

  /** The visible characters of a text that are in none of its tokens, not even without accents. */
  _findDropped(text, tokens) {
    const { lower, normalize, isCombining } = this.characters;
    const kept = splitWords(tokens.join("")).join(""), visible = splitWords(text).join("");
    if (length(kept) >= length(visible)) return [];
    const left = new Map();
    for (const one of lower(kept)) add(left, one);
    const missing = [];
    for (const one of visible) {
      if (left.get(lower(one))) add(left, lower(one), -1);
      else missing.push(one);
    }
    return missing.filter((one) => {
      const parts = [...normalize("NFKD", lower(one))].filter((part) => !isCombining(part));
      if (parts.some((part) => !left.get(part))) return true;
      for (const part of parts) add(left, part, -1);
      return false;
    });
  }
}

function scriptName(script) {
  const titled = script.toLowerCase().replace(/[a-z]+/g, (word) => word[0].toUpperCase() + word.slice(1));
  return CALLED[script] ?? `${titled} letters`;
}

function sentence(problems, alone) {
  const [number, problem] = problems[0];
  const more = (problems.length - 1).toLocaleString("en-US");
  return `${alone ? "the text" : `text ${number}`} ${problem}${problems.length > 1 ? ` (and ${more} more)` : ""}`;
}
