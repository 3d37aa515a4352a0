// Tags of words, and a label of the whole sentence if the model gives one: the path "tag".

import { bestTags, marginals, softmax } from "../chain.js";
import { Problem } from "../problem.js";
import { openCharacters } from "../text/characters.js";
import { openCodec } from "../text/codec.js";
import { openRule, RULE_NAMES } from "../text/rules.js";
import { readVocabulary } from "../text/vocabulary.js";
import { InputWarnings } from "../text/warnings.js";
import { answerTexts, batches, likeliest, pad, readTexts } from "../texts.js";

const SENTENCES_AT_ONCE = 32;
const LIKELY = 3;
const NOTHING = -1; // the id before the first token of a text without a beginning mark

export function openTag(model) {
  const tagger = new Tagger(model);
  return { tag: (body, context) => tagger.answer(body, context) };
}

class Tagger {
  constructor(model) {
    const { files, settings } = model;
    Object.assign(this, { model, settings, characters: openCharacters(files) });
    const read = (name) => readVocabulary(files[`${name}.txt`]);
    [this.words, this.letters, this.tags] = ["words", "characters", "tags"].map(read);
    this.labels = settings.labelled ? read("labels").list : [];
    this.languages = settings.languages.map((options, number) => ({
      ...options,
      codec: openCodec(files, `language-${number}/`),
    }));
    this.known = new InputWarnings(openRule("char", {}, this.characters), this.letters, this.characters);
  }

  async answer(body, context) {
    const texts = readTexts(body);
    const name = body.tokenize ?? "space";
    if (!RULE_NAMES.includes(name)) {
      const known = [...RULE_NAMES].sort().join(", ");
      throw new Problem(`tokenize: unknown tokenizer '${name}'; known are ${known}`);
    }
    const rule = openRule(name, {}, this.characters);
    const sentences = texts.map((text) => rule.tokenize(text));
    const results = sentences.map(() => buildAnswer([]));
    for (const batch of batches(sentences, SENTENCES_AT_ONCE)) {
      const chosen = batch.filter((number) => sentences[number].length);
      await context.pause();
      if (!chosen.length) continue;
      const found = this.read(chosen.map((number) => sentences[number]));
      chosen.forEach((number, row) => (results[number] = found[row]));
    }
    return answerTexts(this.model, results, this.known.of(texts));
  }

  /** The answers for some sentences, each a list of words. */
  read(sentences) {
    const names = this.labels.length ? ["tags", "labels"] : ["tags"];
    const { tags, labels } = this.model.graphs.model.run(this.inputs(sentences), names);
    const width = tags.dims[2];
    return sentences.map((words, row) => {
      const scores = words.map((_, step) => {
        const at = (step * sentences.length + row) * width;
        return Array.from(tags.data.subarray(at, at + width));
      });
      const size = this.labels.length;
      const label = labels ? this.label(labels.data.subarray(row * size, (row + 1) * size)) : null;
      return buildAnswer(this.tagWords(words, scores), label);
    });
  }

  tagWords(words, scores) {
    const { chain } = this.settings;
    const shares = marginals(scores, chain);
    const names = this.tags.list;
    return bestTags(scores, chain).map((tag, place) => ({
      word: words[place],
      tag: names[tag],
      probability: shares[place][tag],
      likely: Object.fromEntries(likeliest(shares[place], LIKELY).map((one) => [names[one], shares[place][one]])),
    }));
  }

  label(scores) {
    const [best] = likeliest(scores, 1);
    return { label: this.labels[best], label_probability: softmax(scores)[best] };
  }

  /** The inputs of the graph; the letters of each distinct word are given once. */
  inputs(sentences) {
    const forms = [...new Set(sentences.flat())];
    const numbers = new Map(forms.map((form, number) => [form, number]));
    const ids = forms.map((form) => this.wordId(form));
    const numbered = sentences.map((words) => words.map((word) => numbers.get(word)));
    const { ids: words, lengths } = pad(numbered.map((row) => row.map((form) => ids[form])));
    const given = { words, lengths };
    if (this.settings.spelled) {
      const spelling = pad(forms.map((form) => this.letterIds(form)));
      given.spelled = pad(numbered).ids;
      [given.characters, given.character_lengths] = [spelling.ids, spelling.lengths];
    }
    this.languages.forEach((language, number) => {
      const read = sentences.map((one) => readLanguage(language, one));
      given[`read_${number}`] = pad(read.map((one) => one.ids)).ids;
      given[`places_${number}`] = pad(read.map((one) => one.places)).ids;
    });
    return given;
  }

  wordId(form) {
    const id = this.words.id(this.settings.lowercase ? this.characters.lower(form) : form);
    return id < this.settings.vectors ? id : 0;
  }

  /** The ids of a word's letters; the middle of a long word is left out. */
  letterIds(form) {
    const letters = [...form];
    const most = this.settings.max_characters;
    if (letters.length > most) letters.splice(Math.floor(most / 2), letters.length - most);
    return letters.map((letter) => this.letters.id(letter));
  }
}

/** The ids of a sentence in the direction of a language model, and for each word the place of its last id. */
function readLanguage({ codec, begin_id: begin, backward, between }, words) {
  const ids = [begin ?? NOTHING];
  const ordered = backward ? [...words].reverse() : words;
  const places = ordered.map((word, number) => {
    const own = codec.encode(word);
    ids.push(...(number ? between : []), ...(backward ? own.reverse() : own));
    return ids.length - 1;
  });
  return { ids, places: backward ? places.reverse() : places };
}

function buildAnswer(words, label) {
  const tags = words.map((word) => word.tag);
  const chunks = isChunked(tags) ? findChunks(tags) : [];
  const texts = chunks.map(({ type, start, end }) => {
    const text = words.slice(start, end).map((word) => word.word);
    return { type, text: text.join(" ") };
  });
  return { words, chunks: texts, ...(label?.label ? label : {}) };
}

function isChunked(tags) {
  const marked = tags.filter((tag) => tag !== "O");
  return marked.length > 0 && marked.every((tag) => /^[BIESLU]-./su.test(tag));
}

/** The chunks {type, start, end} of a sentence that is tagged as IOB1, IOB2, IOBES or BILOU. */
function findChunks(tags) {
  const found = [];
  let [start, before, typeBefore] = [0, "O", ""];
  [...tags, "O"].forEach((tag, place) => {
    const cut = tag.indexOf("-");
    const name = cut < 0 ? tag : tag.slice(0, cut);
    const role = { L: "E", U: "S" }[name] ?? name;
    const type = cut < 0 ? "" : tag.slice(cut + 1);
    const begins = role !== "O" && ("BS".includes(role) || before === "O" || "ES".includes(before) || type !== typeBefore);
    if (before !== "O" && (begins || role === "O")) found.push({ type: typeBefore, start, end: place });
    if (begins) start = place;
    [before, typeBefore] = [role, type];
  });
  return found;
}
