// Recurrent language models: they continue texts, and say what comes next and which units remember.

import { openWriter } from "../completions.js";
import { openGates } from "../gates.js";
import { ids as vector, takeRows, tensor } from "../tensor.js";
import { openCodec } from "../text/codec.js";
import { Framing } from "../text/framing.js";

/** The id before the first token of a text without a beginning mark; it does not change the state. */
const NOTHING = -1;
const STEPS_AT_ONCE = 128;

export function openLanguage(model) {
  const { settings } = model;
  const graph = model.graphs.model;
  const codec = openCodec(model.files);
  const marked = settings.begin_id !== null;
  const framing = new Framing(codec, { marked, backward: settings.backward, running: true });
  const numbers = settings.initial_state.map((_, number) => number);
  const first = settings.initial_state.map((part) => tensor("float32", [1, part.length], part));

  /** Reads ids [steps, rows] from a state: the next state, and ln P after each id or what is watched. */
  function read(ids, rows, state, shown = ["log_probs"], watch = false) {
    const steps = ids.length / rows;
    const given = { ids: tensor("int64", [steps, rows], ids), lengths: vector(Array(rows).fill(steps)) };
    for (const number of numbers) given[`state_${number}`] = state[number];
    const found = graph.run(given, [...shown, ...numbers.map((number) => `next_${number}`)], watch);
    return { ...found, state: numbers.map((number) => found[`next_${number}`]) };
  }

  /** Reads a prompt up to its last id, with ln P of every id if they are `scored`. */
  function open(ids, scored = false) {
    const scores = scored && ids.length ? [read([NOTHING], 1, first).log_probs.data[ids[0]]] : [];
    let state = first;
    for (let at = 0; at < ids.length - 1; at += STEPS_AT_ONCE) {
      const piece = ids.slice(at, Math.min(at + STEPS_AT_ONCE, ids.length - 1));
      const found = read(piece, 1, state, scored ? ["log_probs"] : []);
      ({ state } = found);
      const look = (_, step) => scores.push(found.log_probs.data[step * codec.size + ids[at + step + 1]]);
      if (scored) piece.forEach(look);
    }
    const run = (from, tokens) => {
      state = state.map((part) => takeRows(part, from));
      const found = read(tokens, tokens.length, state);
      if (tokens[0] !== NOTHING) ({ state } = found);
      return { logProbs: found.log_probs.data, size: codec.size };
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
