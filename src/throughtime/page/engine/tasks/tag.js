// Tags of words, and a label of the whole sentence if the model gives one: the path "tag".

import { warn } from "../asked.js";
import { batches, likeliest, pad, readTexts } from "../batches.js";
import { bestTags, marginals, softmax } from "../chain.js";
import { checkNumbers, Problem } from "../problem.js";
import { RULE_NAMES } from "../text/rules.js";
import { numberForms, openTagWords } from "../text/words.js";
import { openVectors } from "../vectors.js";
import { watchTags } from "../watching.js";

const SENTENCES_AT_ONCE = 32;
const LIKELY = 3;
const [STEPS, AROUND] = [512, 64];

export function openTag(model) {
  const tagger = new Tagger(model);
  if (tagger.vectors) return { tag: (body, context) => tagger.tagSteps(body, context) };
  const gates = watchTags(model, tagger.words, (sentences) => tagger.inputs(sentences));
  return { tag: (body, context) => tagger.answer(body, context), ...gates };
}

class Tagger {
  constructor(model) {
    Object.assign(this, { model, settings: model.settings, words: openTagWords(model.files, model.settings) });
    this.vectors = openVectors(model.files);
  }

  /** The answers for sequences of vectors, long ones in pieces that see some steps before and after them. */
  async tagSteps(body, context) {
    const results = [];
    for (const text of readTexts(body)) {
      const steps = this.vectors.read(text);
      const words = [];
      for (let first = 0; first < steps.length; first += STEPS) {
        await context.pause();
        const begin = Math.max(0, first - AROUND);
        const piece = steps.slice(begin, first + STEPS + AROUND);
        const { ids: given, lengths } = this.vectors.pad([piece]);
        const { tags } = this.model.graphs.model.run({ words: given, lengths }, ["tags"]);
        checkNumbers(tags.data);
        const width = tags.dims[2];
        const scores = piece.map((_, step) => Array.from(tags.data.subarray(step * width, (step + 1) * width)));
        const names = piece.map((_, step) => String(begin + step + 1));
        words.push(...this.tagWords(names, scores).slice(first - begin, first - begin + STEPS));
      }
      results.push(buildAnswer(words));
    }
    return { model: this.model.name, results };
  }

  async answer(body, context) {
    const texts = readTexts(body);
    const name = body.tokenize ?? "space";
    if (!RULE_NAMES.includes(name)) {
      const known = [...RULE_NAMES].sort().join(", ");
      throw new Problem(`tokenize: unknown tokenizer '${name}'; known are ${known}`);
    }
    const sentences = texts.map((text) => this.words.split(text, name));
    const results = sentences.map(() => buildAnswer([]));
    for (const batch of batches(sentences, SENTENCES_AT_ONCE)) {
      const chosen = batch.filter((number) => sentences[number].length);
      await context.pause();
      if (!chosen.length) continue;
      const found = this.read(chosen.map((number) => sentences[number]));
      chosen.forEach((number, row) => (results[number] = found[row]));
    }
    return { model: this.model.name, results, ...warn(this.words, texts) };
  }

  /** The answers for some sentences, each a list of words. */
  read(sentences) {
    const names = this.words.labels.length ? ["tags", "labels"] : ["tags"];
    const { tags, labels } = this.model.graphs.model.run(this.inputs(sentences), names);
    checkNumbers(tags.data);
    const width = tags.dims[2];
    return sentences.map((words, row) => {
      const scores = words.map((_, step) => {
        const at = (step * sentences.length + row) * width;
        return Array.from(tags.data.subarray(at, at + width));
      });
      const size = this.words.labels.length;
      const label = labels ? this.label(labels.data.subarray(row * size, (row + 1) * size)) : null;
      return buildAnswer(this.tagWords(words, scores), label);
    });
  }

  tagWords(words, scores) {
    const { chain } = this.settings;
    const shares = marginals(scores, chain);
    const names = this.words.tags;
    return bestTags(scores, chain).map((tag, place) => ({
      word: words[place],
      tag: names[tag],
      probability: shares[place][tag],
      likely: Object.fromEntries(likeliest(shares[place], LIKELY).map((one) => [names[one], shares[place][one]])),
    }));
  }

  label(scores) {
    const [best] = likeliest(scores, 1);
    return { label: this.words.labels[best], label_probability: softmax(scores)[best] };
  }

  /** The inputs of the graph; the letters of each distinct word are given once. */
  inputs(sentences) {
    const [forms, numbered] = numberForms(sentences);
    const ids = forms.map((form) => this.words.wordId(form));
    const { ids: words, lengths } = pad(numbered.map((row) => row.map((form) => ids[form])));
    const given = { words, lengths };
    if (this.settings.spelled) {
      const spelling = pad(forms.map((form) => this.words.letterIds(form)));
      given.spelled = pad(numbered).ids;
      [given.characters, given.character_lengths] = [spelling.ids, spelling.lengths];
    }
    if (this.words.indicators) given.indicators = this.words.indicators(sentences);
    this.words.languages.forEach((read, number) => {
      const found = sentences.map(read);
      given[`read_${number}`] = pad(found.map(([own]) => own)).ids;
      given[`places_${number}`] = pad(found.map(([, places]) => places)).ids;
    });
    return given;
  }
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
    const after = before === "O" || "ES".includes(before) || type !== typeBefore;
    const begins = role !== "O" && ("BS".includes(role) || after);
    if (before !== "O" && (begins || role === "O")) found.push({ type: typeBefore, start, end: place });
    if (begins) start = place;
    [before, typeBefore] = [role, type];
  });
  return found;
}
