// The codecs of both languages of a translator, long texts in parts, and word alignments.

import { Problem } from "../problem.js";
import { strip } from "./characters.js";
import { END, openCodec } from "./codec.js";
import { openRule } from "./rules.js";
import { checkTexts, joinTexts, splitText } from "./texts.js";

/** One codec for each side; the same object for both if they share a vocabulary. */
class Codecs {
  constructor(source, target) {
    this.source = source;
    this.target = target;
    this.shared = source === target;
    this.sourceEndId = mark(source, "eosId");
    this.beginId = mark(target, "bosId");
    this.endId = mark(target, "eosId");
    const { unkId } = target.vocabulary;
    /** The id of <unk>, which translations must not contain; no model learns it for parts of words. */
    this.excludedIds = unkId === null || target.tokenizer.subword ? [] : [unkId];
    this.splitWords = openRule("unicode", {}, source.characters).tokenize;
  }

  /** The ids of a source text as the encoder reads them. */
  prompt(text) {
    return this.source.encode(text, { eos: true });
  }

  /** The parts of each text, of at most `maxTokens` tokens if sentences allow it; none of a blank text. */
  splitTexts(texts, maxTokens) {
    return checkTexts(texts).map(strip).map((text) =>
      (text ? splitText(text, maxTokens, (part) => this.prompt(part).length) : []));
  }

  /**
   * Split texts into parts, translate all parts at once, and join them. `translate` turns the list of parts into lists
   * of {text, score, logProb, ended, alignment}, best first; alignments may be left out.
   */
  async translateInParts(texts, maxTokens, translate) {
    const split = this.splitTexts(texts, maxTokens);
    const found = await translate(split.flat());
    let place = 0;
    return split.map((own) => joinParts(own.map(() => found[place++])));
  }

  /**
   * Turn attention between tokens, [target tokens][source tokens], into attention between words: summed over the tokens
   * of a source word, averaged over those of a target word. The last column, and the last row if the translation ended,
   * belong to the end marks.
   */
  alignWords(attention, source, target) {
    const [sourceWords, sourceOwner] = this.groupIntoWords(source, this.source.tokenizer);
    const [targetWords, targetOwner] = this.groupIntoWords(target, this.target.tokenizer);
    sourceOwner.push(sourceWords.push(END) - 1);
    if (attention.length > target.length) targetOwner.push(targetWords.push(END) - 1);
    const weights = targetWords.map(() => sourceWords.map(() => 0));
    const tokens = targetWords.map((_, word) => targetOwner.filter((own) => own === word).length);
    targetOwner.forEach((row, token) => sourceOwner.forEach((column, place) => {
      weights[row][column] += attention[token][place];
    }));
    return {
      source: sourceWords,
      target: targetWords,
      weights: weights.map((row, word) => row.map((value) => value / tokens[word])),
    };
  }

  /** The words that tokens spell, and for each token the index of the word in which it ends. */
  groupIntoWords(tokens, tokenizer) {
    const text = tokenizer.detokenize(tokens), ends = this._wordEnds(text), reached = [];
    tokens.forEach((_, place) => {
      const last = tokenizer.detokenize(tokens.slice(0, place + 1)).length;
      let word = reached.at(-1) ?? 0;
      while (word + 1 < ends.length && last > ends[word]) word++;
      reached.push(word);
    });
    const owned = [...new Set(reached)];
    const bounds = [0, ...owned.slice(0, -1).map((word) => ends[word]), text.length];
    const words = owned.map((_, place) => strip(text.slice(bounds[place], bounds[place + 1])));
    return [words, reached.map((word) => owned.indexOf(word))];
  }

  /** The position after each word, punctuation mark or ideograph of a text. */
  _wordEnds(text) {
    const ends = [];
    let place = 0;
    for (const word of this.splitWords(text)) {
      const found = text.indexOf(word, place);
      if (found < 0) continue;
      place = found + word.length;
      ends.push(place);
    }
    return ends.length ? ends : [text.length];
  }
}

function mark(codec, role) {
  const number = codec.vocabulary[role];
  if (number !== null) return number;
  const sentence = "has no <bos> or <eos> (or [CLS] and [SEP]); choose another tokenizer";
  throw new Problem(`tokenizer '${codec.tokenizer.name}': ${sentence}`);
}

/** Join the best translations of all parts; the second best ones form the first alternative, and so on. */
export function joinParts(parts) {
  const count = Math.max(1, ...parts.map((own) => own.length));
  const joined = Array.from({ length: parts.length ? count : 1 }, (_, rank) =>
    joinOne(parts.map((own) => own[Math.min(rank, own.length - 1)])));
  return { ...joined[0], alternatives: joined.slice(1) };
}

function joinOne(parts) {
  const sum = (name) => parts.reduce((total, one) => total + one[name], 0);
  return {
    text: joinTexts(parts.map((one) => one.text)),
    score: sum("score"),
    logProb: sum("logProb"),
    ended: parts.every((one) => one.ended),
    alignment: null,
  };
}

/** Read the codecs of a translator from its files. */
export function openCodecs(files) {
  if ("tokenizer_config.json" in files) {
    const shared = openCodec(files);
    return new Codecs(shared, shared);
  }
  return new Codecs(openCodec(files, "source/"), openCodec(files, "target/"));
}
