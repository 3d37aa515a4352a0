// Translations, their alignments, the tree of the search and gates: "translate", "inspect/attention", "inspect/beam"
// and "inspect/gates".

import { readNumber, readText, warn } from "../asked.js";
import { readTexts } from "../batches.js";
import { readConstraints } from "../constraints.js";
import { Decoding, mostTokens } from "../decoding.js";
import { Problem } from "../problem.js";
import { chooseCount, Shortlist } from "../shortlist.js";
import { quote, strip } from "../text/characters.js";
import { joinParts, openCodecs } from "../text/codecs.js";
import { Tree } from "../tree.js";
import { watchTranslation } from "../watching.js";

const [MAX_BEAMS, MAX_ALTERNATIVES, MAX_TOKENS, MAX_WORDS, MAX_LETTERS] = [20, 10, 120, 20, 200];
const [GROUPS, GROUP_WIDTH] = [3, 3]; // of diverse search: groups for a single result, hypotheses of a group
const DIGITS = 1e5; // of scores and weights of single tokens

export function openTranslate(model) {
  const translator = new Translator(model);
  return {
    translate: (body, context) => translator.answer(body, context),
    "inspect/attention": (body, context) => translator.showAttention(body, context),
    "inspect/beam": (body, context) => translator.showBeam(body, context),
    ...watchTranslation(model, translator.codecs, (prompt, context) => translator.findBest(prompt, context)),
  };
}

class Translator {
  constructor(model) {
    const { settings, graphs, files } = model;
    Object.assign(this, { model, settings, graphs, codecs: openCodecs(files) });
    const tables = graphs.shortlist?.run({}, ["starts", "ids", "always"]);
    this.shortlist = tables ? new Shortlist(tables) : null;
  }

  // Translations in the way of LibreTranslate: lists if q is a list.
  async answer(body, context) {
    const texts = readTexts(body);
    const { source, target } = this.model.about;
    if (!["auto", source].includes(body.source) || body.target !== target) {
      throw new Problem(`${this.model.name} translates from ${source} to ${target}, nothing else`);
    }
    if (!["text", undefined, null].includes(body.format)) {
      throw new Problem(`format: is ${quote(String(body.format))}, expected text; pages are translated by a server`);
    }
    const alternatives = readNumber(body, "alternatives", 0, 0, MAX_ALTERNATIVES);
    const results = readNumber(body, "num_return_sequences", 1, 1, MAX_ALTERNATIVES + 1);
    if (alternatives && (body.num_beams || results > 1 || body.search)) {
      const others = "search, num_beams and num_return_sequences";
      throw new Problem(`alternatives: has its own search; leave out ${others}`);
    }
    const asked = alternatives ? diverse(alternatives) : { num_return_sequences: results };
    const search = this.chooseSearch({ ...body, ...asked });
    const found = [];
    for (const text of texts) {
      const parts = await this.translateParts(text, search, { context, shortlist: body.shortlist });
      found.push(this.join(parts).map((one) => one.text));
    }
    const shaped = (list) => (typeof body.q === "string" ? list[0] : list);
    const others = alternatives || results > 1 ? { alternatives: shaped(found.map((own) => own.slice(1))) } : {};
    return { translatedText: shaped(found.map((own) => own[0])), ...others, ...warn(this.codecs.source, texts) };
  }

  async showAttention(body, context) {
    const { text, prefix, forbid } = this.readInspected(body);
    const alternatives = readNumber(body, "alternatives", 0, 0, MAX_ALTERNATIVES);
    const count = this.split(text).length;
    if (prefix && count > 1) {
      const problem = `is for one sentence, but this text is translated in ${count} parts; give one of them`;
      throw new Problem(`prefix: ${problem}`);
    }
    const search = this.chooseSearch(alternatives ? diverse(alternatives) : {});
    const constraints = readConstraints(this.codecs.target, prefix, forbid);
    const parts = await this.translateParts(text, search, { context, constraints, attends: true });
    const translations = parts.length === 1 ? parts[0].translations : this.join(parts);
    return { model: this.model.name, source: text, translations, parts, ...warn(this.codecs.source, [text]) };
  }

  async showBeam(body, context) {
    const { text, prefix, forbid } = this.readInspected(body);
    const { num_beams: usual, length_penalty: alpha } = this.settings.generation;
    const width = readNumber(body, "num_beams", usual, 1, MAX_BEAMS);
    const prompt = this.codecs.prompt(text);
    if (!strip(text) || prompt.length > MAX_TOKENS) {
      const problem = strip(text) ? `has ${prompt.length} tokens, more than ${MAX_TOKENS}` : "is empty";
      throw new Problem(`sentence: ${problem}; give one sentence to translate`);
    }
    const constraints = readConstraints(this.codecs.target, prefix, forbid);
    const options = this.options({ width, alpha }, prompt, constraints);
    const tree = new Tree(options);
    const decoding = new Decoding(this.graphs, prompt, this.listCandidates(prompt, constraints));
    const found = await decoding.search(options, this.bars(constraints), context, (moment) => tree.watch(moment));
    const { target } = this.codecs;
    return {
      model: this.model.name,
      text,
      width,
      alpha,
      nodes: tree.describe(target, found[0].row),
      results: found.map(({ tokens, score, logProb, ended, row }) => {
        return { text: target.decode(tokens), score, log_prob: logProb, ended, node: row.node };
      }),
      steps: Math.max(0, ...tree.nodes.map((node) => node.step)),
      ...warn(this.codecs.source, [text]),
    };
  }

  // The tokens of the best translation of a sentence.
  async findBest(prompt, context) {
    const rules = readConstraints(this.codecs.target);
    const options = this.options(this.chooseSearch({}), prompt, rules);
    const decoding = new Decoding(this.graphs, prompt, this.listCandidates(prompt, rules));
    const [best] = await decoding.search(options, this.bars(rules), context);
    return best.tokens;
  }

  readInspected(body) {
    const [text] = readTexts({ q: readText(body) });
    const { prefix, forbid } = { prefix: body.prefix ?? "", forbid: body.forbid ?? [] };
    if (!Array.isArray(forbid) || forbid.length > MAX_WORDS) {
      throw new Problem(`forbid: is no list of at most ${MAX_WORDS} words; give such a list`);
    }
    for (const [name, word] of [["prefix", prefix], ...forbid.map((word) => ["forbid", word])]) {
      if (typeof word !== "string" || word.length > MAX_LETTERS) {
        throw new Problem(`${name}: is no text of at most ${MAX_LETTERS} characters; give such a text`);
      }
    }
    return { text, prefix, forbid };
  }

  // A strategy and its options, with the model's defaults for those that are left out.
  chooseSearch(body) {
    const { generation } = this.settings;
    const alpha = readNumber(body, "length_penalty", generation.length_penalty, 0, 10, false);
    const asked = readNumber(body, "num_beams", null, 1, MAX_BEAMS);
    const count = body.num_return_sequences ?? 1;
    const name = body.search ?? "beam";
    if (name === "greedy") {
      const wrong = ["num_beams", "length_penalty"].find((one) => (body[one] ?? null) !== null);
      if (wrong) {
        throw new Problem(`${wrong}: is not an option of greedy search, which takes none`);
      }
      checkResults(count, 1);
      return { width: 1, alpha: 0 };
    }
    if (name === "beam") {
      const width = asked ?? Math.max(generation.num_beams, count);
      checkResults(count, width);
      return { width, count, alpha };
    }
    if (name !== "diverse") {
      throw new Problem(`search: is ${quote(String(name))}, but here there are beam, diverse and greedy search`);
    }
    const groups = readNumber(body, "groups", count > 1 ? count : GROUPS, 1, MAX_BEAMS);
    const hypotheses = asked ?? groups * Math.min(GROUP_WIDTH, Math.floor(MAX_BEAMS / groups));
    checkResults(count, hypotheses);
    if (hypotheses % groups) {
      throw new Problem(`groups: is ${groups}, expected a divisor of ${hypotheses}, the number of beams`);
    }
    const width = hypotheses / groups;
    const each = Math.max(readNumber(body, "per_group", 1, 1, width), Math.ceil(count / groups));
    const penalty = readNumber(body, "diversity_penalty", 1, 0, Infinity, false);
    return { width, groups, count: each, alpha, penalty, returned: count };
  }

  options(search, prompt, { prefix }) {
    const { begin_id: begin, end_id: end } = this.settings;
    return { ...search, begin, end, most: mostTokens(prompt) + prefix.length };
  }

  bars({ prefix, forbidden }) {
    return { barred: this.settings.barred, prefix, forbidden };
  }

  // The tokens that a translation may use; null for all of them.
  listCandidates(prompt, { prefix }, shortlist) {
    const count = chooseCount(shortlist, this.shortlist, this.codecs.target.size);
    return count ? this.shortlist.candidates(prompt, count, prefix) : null;
  }

  split(text) {
    return this.codecs.splitTexts([text], this.settings.generation.max_source_tokens)[0];
  }

  // The translations of each part of a text, best first: [{source, translations}].
  async translateParts(text, search, { context, constraints, shortlist, attends = false }) {
    const rules = constraints ?? readConstraints(this.codecs.target);
    const parts = [];
    for (const source of this.split(text)) {
      const prompt = this.codecs.prompt(source);
      const decoding = new Decoding(this.graphs, prompt, this.listCandidates(prompt, rules, shortlist), attends);
      const found = await decoding.search(this.options(search, prompt, rules), this.bars(rules), context);
      const translations = found.map((one) => this.describe(one, decoding, source, prompt, rules.any));
      parts.push({ source, translations });
    }
    return parts;
  }

  describe(result, decoding, source, prompt, bare) {
    const { tokens, score, logProb, ended } = result;
    const { codecs } = this;
    const text = codecs.target.decode(tokens);
    const looks = decoding.attention(result);
    const own = { text: bare ? strip(text) : text, score, log_prob: logProb, ended, alignment: null, steps: null };
    if (looks) {
      const words = tokens.map((id) => codecs.target.vocabulary.token(id));
      own.alignment = codecs.alignWords(looks.weights, codecs.source.tokenizer.tokenize(source), words);
    }
    if (looks?.scores) {
      const round = (rows) => rows.map((row) => Array.from(row, (value) => Math.round(value * DIGITS) / DIGITS));
      own.steps = {
        source: codecs.source.pieces(prompt),
        target: codecs.target.pieces(ended ? [...tokens, this.settings.end_id] : tokens),
        scores: round(looks.scores),
        weights: round(looks.weights),
      };
    }
    return own;
  }

  // The best translations of all parts as one; the second best ones form the first alternative, and so on.
  join(parts) {
    const named = (own) => own.translations.map((one) => ({ ...one, logProb: one.log_prob }));
    const { alternatives, ...best } = joinParts(parts.map(named));
    return [best, ...alternatives].map(({ logProb, ...one }) => ({ ...one, log_prob: logProb, steps: null }));
  }
}

function diverse(alternatives) {
  return { search: "diverse", num_return_sequences: alternatives + 1 };
}

function checkResults(count, beams) {
  if (count > beams) {
    throw new Problem(`num_return_sequences: is ${count}, expected 1 to ${beams}, the number of beams`);
  }
}
