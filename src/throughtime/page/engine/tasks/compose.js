// Composers: texts written from a label or from a vector of numbers.

import { readNumber } from "../asked.js";
import { Problem } from "../problem.js";
import { findTexts, readSearch } from "../searching.js";
import { ids as vector, takeRows, tensor } from "../tensor.js";
import { openCodec } from "../text/codec.js";

const MAX_TOKENS = 2000;

export function openCompose(model) {
  const { settings } = model;
  const { encoder, decoder } = model.graphs;
  const codec = openCodec(model.files);
  const numbered = (values, stem) => values.map((one) => one.name).filter((name) => name.startsWith(`${stem}_`));
  const [states, kept] = [numbered(decoder.inputs, "state"), numbered(decoder.inputs, "kept")];
  const reached = states.map((name) => name.replace("state", "next"));

  /** Reads a condition; returns what feeds a token to each row. */
  function open(condition) {
    const source = settings.labels
      ? tensor("int64", [1, 1], [settings.labels.indexOf(condition)])
      : tensor("float32", [1, 1, settings.width], condition);
    const begun = encoder.run({ source }, [...states, ...kept]);
    const memory = Object.fromEntries(kept.map((name) => [name, begun[name]]));
    let state = states.map((name) => begun[name]);
    return (from, tokens) => {
      const given = { last: vector(tokens), ...memory };
      states.forEach((name, number) => (given[name] = takeRows(state[number], from)));
      const found = decoder.run(given, ["log_probs", ...reached]);
      state = reached.map((name) => found[name]);
      return { logProbs: found.log_probs.data, size: codec.size };
    };
  }

  return {
    compose: async (body, { pause }) => {
      const conditions = listConditions(model, body);
      const { begin_id: begin, end_id: end, barred, generation } = settings;
      const asked = chooseSearch(body, generation);
      const most = readNumber(body, "max_new_tokens", generation.max_new_tokens ?? 100, 1, MAX_TOKENS);
      const results = [];
      for (const [sentence, condition] of conditions.entries()) {
        const found = await findTexts(open(condition), asked, { begin, end, most, sentence, barred }, pause);
        const [best, ...others] = found.map(({ tokens, score, logProb, ended }) => {
          return { text: codec.decode(tokens), score, log_prob: logProb, ended };
        });
        results.push({ condition, ...best, alternatives: others });
      }
      return { model: model.name, results };
    },
  };
}

function listConditions({ name, settings: { labels, width } }, { label = null, vector: given = null }) {
  if ((label === null) === (given === null)) throw new Problem("give either label or vector");
  if (label !== null) {
    if (!labels) throw new Problem(`label: ${name} writes from a vector of ${width} numbers`);
    const list = [label].flat();
    const wrong = list.find((one) => !labels.includes(one));
    if (wrong !== undefined) {
      throw new Problem(`label: is ${JSON.stringify(wrong)}, expected one of ${labels.slice(0, 20).join(", ")}`);
    }
    return list;
  }
  if (labels) throw new Problem(`vector: ${name} writes from a label, such as ${labels[0]}`);
  const vectors = Array.isArray(given) && Array.isArray(given[0]) ? given : [given];
  for (const one of vectors) {
    if (!Array.isArray(one) || !one.every(Number.isFinite)) throw new Problem("vector: expected a list of numbers");
    if (one.length !== width) throw new Problem(`vector: has ${one.length} numbers, ${name} writes from ${width}`);
  }
  return vectors;
}

/** How to search: the fields of the request, and the model's defaults for what they leave open. */
function chooseSearch(body, defaults) {
  const [named, beams] = [body.search ?? null, body.num_beams ?? null];
  const cold = body.temperature === 0 && named === null; // then what draws has no effect
  const greedy = body.greedy ?? (cold ? true : null);
  if (greedy && (named ?? beams) !== null) {
    const other = named !== null ? "search" : "num_beams";
    throw new Problem(`greedy: cannot be given together with ${other}; leave one of them out`);
  }
  const drawn = greedy === null ? (defaults.do_sample ?? true) : !greedy;
  const search = named ?? (beams !== null ? "beam" : drawn ? "sampling" : "greedy");
  const asked = cold ? { ...body, top_k: null, top_p: null, seed: null } : body;
  return readSearch(asked, search, "num_return_sequences", defaults);
}
