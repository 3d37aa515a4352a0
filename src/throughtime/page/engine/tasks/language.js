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

  /** Reads ids [steps, rows] from a state: ln P after each, and the next state; watched, also marks. */
  function read(ids, rows, state, watch = false) {
    const steps = ids.length / rows;
    const given = { ids: tensor("int64", [steps, rows], ids), lengths: vector(Array(rows).fill(steps)) };
    for (const number of numbers) given[`state_${number}`] = state[number];
    const names = [...(watch ? [] : ["log_probs"]), ...numbers.map((number) => `next_${number}`)];
    const found = graph.run(given, names, watch);
    return { ...found, state: numbers.map((number) => found[`next_${number}`]) };
  }

  /** The state after all these ids. */
  function readAll(ids) {
    let state = first;
    for (let at = 0; at < ids.length; at += STEPS_AT_ONCE) {
      ({ state } = read(ids.slice(at, at + STEPS_AT_ONCE), 1, state));
    }
    return state;
  }

  const reader = {
    open(ids) {
      let state = readAll(ids.slice(0, -1));
      return {
        begin: ids.length ? ids.at(-1) : NOTHING,
        run(from, tokens) {
          state = state.map((part) => takeRows(part, from));
          const found = read(tokens, tokens.length, state);
          if (tokens[0] !== NOTHING) ({ state } = found);
          return { logProbs: found.log_probs.data, size: codec.size };
        },
      };
    },
    score(ids) {
      if (!ids.length) return [];
      const scores = [read([NOTHING], 1, first).log_probs.data[ids[0]]];
      let state = first;
      for (let at = 0; at < ids.length - 1; at += STEPS_AT_ONCE) {
        const piece = ids.slice(at, Math.min(at + STEPS_AT_ONCE, ids.length - 1));
        const found = read(piece, 1, state);
        ({ state } = found);
        piece.forEach((_, step) => scores.push(found.log_probs.data[step * codec.size + ids[at + step + 1]]));
      }
      return scores;
    },
  };
  const gates = openGates(model, codec, (text) => {
    const ids = framing.ids(text, false);
    const look = () => [{ tokens: codec.labels(codec.pieces(ids)), watched: read(ids, 1, first, true).watched }];
    return { size: ids.length, look };
  });
  return { ...openWriter(model, framing, reader), ...gates };
}
