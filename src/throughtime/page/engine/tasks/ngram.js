// N-gram language models: counted, not trained. Their tables are those of tasks/ngram/export.py.

import { openWriter } from "../completions.js";
import { openCodec } from "../text/codec.js";
import { Framing } from "../text/framing.js";

/** The node of an n-gram that was not counted. */
const MISSING = -1;

export function openNgram(model) {
  const { settings } = model;
  const codec = openCodec(model.files);
  const framing = new Framing(codec, { marked: settings.begin_id !== null, backward: settings.backward });
  const tables = openTables(model.graphs.tables, settings);
  const words = Math.max(0, settings.order - 1);

  /** Begins after a prompt, with ln P of every id if they are `scored`. */
  function open(ids, scored = false) {
    const score = (id, place) => {
      if (settings.never.includes(id)) return 0;
      return Math.log(tables.probability(ids.slice(Math.max(0, place - words), place), id));
    };
    const follow = followContexts(tables, ids.slice(0, -1), words, codec.size);
    const run = (from, tokens) => {
      const logProbs = follow(from, tokens).map(Math.log);
      return { logProbs, size: codec.size };
    };
    return { begin: ids.length ? ids.at(-1) : MISSING, run, scores: scored ? ids.map(score) : [] };
  }
  return openWriter(model, framing, open);
}

/** Follows rows that begin after a context: P of every id after each row, one row behind the other. */
export function followContexts(tables, first, words, size) {
  let contexts = [first];
  return (from, tokens) => {
    contexts = tokens.map((token, row) => {
      const before = contexts[from[row]];
      return (token === MISSING ? before : [...before, token]).slice(Math.max(0, before.length + 1 - words));
    });
    const p = new Float64Array(tokens.length * size);
    contexts.forEach((context, row) => p.set(tables.distribution(context), row * size));
    return p;
  };
}

/** The probabilities of an n-gram model; a context is the list of the ids before, at most `order` - 1 of them. */
export function openTables(graph, { order, shortened_to_nothing: toNothing, replaces }) {
  const names = graph.outputs.map((one) => one.name);
  const found = graph.run({}, names);
  const base = Float64Array.from(found.base.data);
  const levels = [];
  for (let n = 2; n <= order; n += 1) {
    const [size, back, word, own] = ["size", "back", "word", "own"].map((name) => found[`${name}_${n}`].data);
    const first = new Int32Array(size.length + 1);
    size.forEach((count, node) => (first[node + 1] = first[node] + count));
    levels.push({ first, back, word, own });
  }

  /** The node of a context continued by a word, by bisection of its continuations. */
  function find({ first, word }, context, id) {
    if (context === MISSING) return MISSING;
    let [low, high] = [first[context], first[context + 1]];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (word[middle] < id) low = middle + 1;
      else high = middle;
    }
    return low < first[context + 1] && word[low] === id ? low : MISSING;
  }

  /** The node of the last `size` words of a context; they are fewer if the text has just begun. */
  function findContext(context, size) {
    if (context.length < size) return MISSING;
    const [begin, ...others] = context.slice(context.length - size);
    return others.reduce((node, id, place) => find(levels[place], node, id), begin);
  }

  /** Calls `mix(level, node, weight, lower)` for each length whose context was counted and continued. */
  function climb(context, mix) {
    levels.forEach((level, place) => {
      const node = findContext(context, place + 1);
      const weight = node === MISSING ? NaN : level.back[node];
      const single = toNothing && context.length >= place + 1;
      if (!Number.isNaN(weight)) mix(level, node, weight, single);
      else mix(null, MISSING, 1, single);
    });
  }

  return {
    /** P of every id after a context. */
    distribution(context) {
      let p = base.slice();
      climb(context, (level, node, weight, single) => {
        p = single ? base.slice() : p;
        if (level === null) return;
        for (let id = 0; id < p.length; id += 1) p[id] *= weight;
        for (let at = level.first[node]; at < level.first[node + 1]; at += 1) {
          const id = level.word[at];
          p[id] = level.own[at] + (replaces ? 0 : p[id]);
        }
      });
      return p;
    },
    /** P of one id after a context. */
    probability(context, id) {
      let p = base[id];
      climb(context, (level, node, weight, single) => {
        p = single ? base[id] : p;
        if (level === null) return;
        const at = find(level, node, id);
        p = at === MISSING ? weight * p : level.own[at] + (replaces ? 0 : weight * p);
      });
      return p;
    },
  };
}
