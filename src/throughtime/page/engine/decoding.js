// The encoder and decoder of a translator during the search for one sentence.

import { barTokens, pathOf, searchBeam } from "./beam.js";
import { takeRows, tensor } from "./tensor.js";

const LENGTH_STEP = 16;

// The maximum number of tokens of a translation, which depends on the length of the source alone.
export function mostTokens(prompt) {
  return LENGTH_STEP * (2 * Math.ceil(prompt.length / LENGTH_STEP) + 1);
}

// The names stem_0, stem_1 and so on among the inputs or outputs of a graph, in order.
function numbered(stem, values) {
  const number = (name) => Number(name.slice(stem.length + 1));
  const names = values.map(({ name }) => name).filter((name) => name.startsWith(`${stem}_`));
  return names.sort((a, b) => number(a) - number(b));
}

export class Decoding {
  // `candidates` are the ids of the target tokens that may be used, rising; null allows all. With `attends` the
  // attention of each step is kept.
  constructor({ encoder, decoder }, prompt, candidates = null, attends = false) {
    Object.assign(this, { decoder, steps: [] });
    this.names = numbered("state", encoder.outputs);
    const kept = numbered("kept", encoder.outputs);
    const { length } = prompt;
    const source = { source: tensor("int64", [length, 1], prompt), lengths: tensor("int64", [1], [length]) };
    const found = encoder.run(source, [...this.names, ...kept]);
    this.state = this.names.map((name) => found[name]);
    this.given = Object.fromEntries(kept.map((name) => [name, found[name]]));
    this.ids = candidates;
    this.places = new Map(Array.from(candidates ?? [], (id, place) => [id, place]));
    this.enough = Infinity;
    const has = (name, values) => values.some((one) => one.name === name);
    if (has("candidates", decoder.inputs)) {
      const size = candidates?.length ?? 0;
      this.given.candidates = tensor("int64", [size], candidates ?? []);
      this.given.allowed = tensor("bool", [1, size], new Uint8Array(size).fill(1));
    }
    this.following = numbered("next", decoder.outputs);
    this.shown = ["attention", "attention_scores"].filter((name) => attends && has(name, decoder.outputs));
  }

  // One step of the decoder for rows of a search: ln P of each token.
  step(rows) {
    const from = rows.map((row) => (row.length ? row.from : 0));
    const given = { ...this.given, last: tensor("int64", [rows.length], rows.map((row) => row.token)) };
    this.names.forEach((name, number) => (given[name] = takeRows(this.state[number], from)));
    given.k = tensor("int64", [1], [Math.min(this.enough, this.ids?.length ?? 1)]);
    const own = this.ids ? ["candidate_log_probs", "candidate_ids"] : ["log_probs"];
    const found = this.decoder.run(given, [...own, ...this.following, ...this.shown]);
    this.state = this.following.map((name) => found[name]);
    this.steps.push(this.shown.map((name) => found[name]));
    const { data, dims } = found[own[0]];
    if (!this.ids) {
      return { logProbs: data.slice(), size: dims[1], ids: null };
    }
    // The likeliest candidates come sorted by their probability; here all are in the order of their ids.
    const size = this.ids.length;
    const logProbs = new Float32Array(rows.length * size).fill(-Infinity);
    const ids = found.candidate_ids.data;
    data.forEach((value, at) => (logProbs[Math.floor(at / dims[1]) * size + this.places.get(ids[at])] = value));
    return { logProbs, size, ids: this.ids };
  }

  // Search with the options of `searchBeam`, without the tokens that `bars` names.
  search(options, bars, context, watch) {
    const { end, width, groups = 1 } = options;
    const { barred, forbidden, prefix } = bars;
    // Only so many of the likeliest candidates can be chosen, or be barred or taken by other groups before; who watches
    // sees more of them.
    this.enough = prefix.length || watch ? Infinity : width * (groups + 1) + barred.length + forbidden.length;
    return searchBeam((rows) => this.step(rows), options, {
      bar: barTokens({ ...bars, end }),
      watch,
      pause: () => context.pause(),
    });
  }

  // The weights of a result and the scores before the softmax, one row for each token; null without attention.
  attention({ row }) {
    if (!this.shown.length) {
      return null;
    }
    const read = (kind) =>
      pathOf(row).map(({ from }, step) => {
        const { data, dims } = this.steps[step][kind];
        return data.subarray(from * dims[1], (from + 1) * dims[1]);
      });
    return { weights: read(0), scores: this.shown.length > 1 ? read(1) : null };
  }
}
