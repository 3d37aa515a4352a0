// Recurrent language models: they continue texts, and say what comes next and which units remember.

import { openWriter } from "../completions.js";
import { openGates } from "../gates.js";
import { ids as vector, takeRows, tensor } from "../tensor.js";
import { openCodec } from "../text/codec.js";
import { Framing } from "../text/framing.js";
import { followContexts, openTables } from "./ngram.js";

/** The id before the first token of a text without a beginning mark; it does not change the state. */
const NOTHING = -1;
const [STEPS_AT_ONCE, STEPS_KEPT] = [128, 16];

export function openLanguage(model) {
  const { settings } = model;
  const graph = model.graphs.model;
  const codec = openCodec(model.files);
  const marked = settings.begin_id !== null;
  const framing = new Framing(codec, { marked, backward: settings.backward, running: true });
  const numbers = settings.initial_state.map((_, number) => number);
  const pair = settings.counted ? openPair(model.graphs.counted, settings.counted, codec.size) : null;
  const first = settings.initial_state.map((part) => tensor("float32", [1, part.length], part));

  /** Reads ids [steps, rows] from a state: the next state, and ln P after each id or what is watched. */
  function read(ids, rows, state, shown = ["log_probs"], watch = false) {
    const steps = ids.length / rows;
    const given = { ids: tensor("int64", [steps, rows], ids), lengths: vector(Array(rows).fill(steps)) };
    for (const number of numbers) given[`state_${number}`] = state[number];
    const found = graph.run(given, [...shown, ...numbers.map((number) => `next_${number}`)], watch);
    return { ...found, state: numbers.map((number) => found[`next_${number}`]) };
  }

  /** Reads ids up to the last one from a place on; `tell(found, at, piece)` is told about each piece. */
  function readOn(ids, from, state, size, shown, tell) {
    for (let at = from; at < ids.length - 1; at += size) {
      const piece = ids.slice(at, Math.min(at + size, ids.length - 1));
      const found = read(piece, 1, state, shown);
      ({ state } = found);
      tell?.(found, at, piece);
    }
    return state;
  }

  // The last text that was scored, and the state after every few of its ids: who types on changes only its end.
  let seen = { ids: [], scores: [], states: [first] };

  /** ln P of every id, and the state before the last one. */
  function score(ids) {
    const differs = ids.findIndex((id, place) => id !== seen.ids[place]);
    const same = differs < 0 ? ids.length : differs;
    const known = Math.max(0, Math.floor((same - 1) / STEPS_KEPT));
    const [at, states] = [known * STEPS_KEPT, seen.states.slice(0, known + 1)];
    const scores = same ? seen.scores.slice(0, at + 1) : [read([NOTHING], 1, first).log_probs.data[ids[0]]];
    const state = readOn(ids, at, states[known], STEPS_KEPT, ["log_probs"], (found, place, piece) => {
      const { data } = found.log_probs;
      piece.forEach((_, step) => scores.push(data[step * codec.size + ids[place + step + 1]]));
      if (piece.length === STEPS_KEPT) states.push(found.state);
    });
    seen = { ids, scores, states };
    return { scores, state };
  }

  /** Reads a prompt up to its last id, with ln P of every id if they are `scored`. */
  function open(ids, scored = false) {
    const begun = scored && ids.length ? score(ids) : { scores: [], state: readOn(ids, 0, first, STEPS_AT_ONCE, []) };
    const scores = pair ? begun.scores.map((logProb, place) => pair.score(logProb, ids, place)) : begun.scores;
    const mix = pair?.follow(ids.slice(0, -1));
    let { state } = begun;
    const run = (from, tokens) => {
      state = state.map((part) => takeRows(part, from));
      const found = read(tokens, tokens.length, state);
      if (tokens[0] !== NOTHING) ({ state } = found);
      const { data } = found.log_probs;
      return { logProbs: mix ? mix(data, from, tokens) : data, size: codec.size };
    };
    return { begin: ids.length ? ids.at(-1) : NOTHING, run, scores };
  }

  const gates = openGates(model, codec, (text) => {
    const ids = framing.ids(text, false);
    const look = () => [{ tokens: codec.labels(codec.pieces(ids)), watched: read(ids, 1, first, [], true).watched }];
    return { size: ids.length, look };
  });
  return { ...openWriter(model, framing, open), ...gates };
}

/** The counted model beside the network: P = share P_network + (1 - share) P_counted, as in models/paired.py. */
function openPair(graph, { order, never, network_share: share }, size) {
  const tables = openTables(graph, { order, shortened_to_nothing: false, replaces: true });
  const mixed = (logProb, p) => Math.log(share * Math.exp(logProb) + (1 - share) * p);
  return {
    /** ln P of an id of a text by both, from that of the network. */
    score(logProb, ids, place) {
      const before = ids.slice(Math.max(0, place + 1 - order), place);
      return mixed(logProb, never.includes(ids[place]) ? 1 : tables.probability(before, ids[place]));
    },
    /** Mixes ln P of the next ids of rows that begin after a context. */
    follow(context) {
      const next = followContexts(tables, context, order - 1, size);
      return (data, from, tokens) => next(from, tokens).map((p, place) => mixed(data[place], p));
    },
  };
}
