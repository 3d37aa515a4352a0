// Labels of whole texts: the path "classify".

import { readNumber, warn } from "../asked.js";
import { batches, likeliest, normalise, pad, readTexts } from "../batches.js";
import { tensor } from "../tensor.js";
import { openVectors } from "../vectors.js";
import { openCodec } from "../text/codec.js";
import { Grams } from "../text/grams.js";
import { watchText } from "../watching.js";

const TEXTS_AT_ONCE = 32;

export function openClassify(model) {
  const vectors = openVectors(model.files);
  const codec = vectors ?? openCodec(model.files);
  const { labels, max_length: longest } = model.settings;
  const partner = openPartner(model.graphs, codec);
  const [own, other] = partner?.mixture ?? [1, 0];

  /** The ids of a text in equal parts of at most `longest`. */
  function split(text) {
    if (vectors) return [vectors.encode(text)];
    const ids = codec.encode(text), size = Math.ceil(ids.length / Math.max(1, Math.ceil(ids.length / longest)));
    const parts = [];
    for (let first = 0; first < ids.length; first += size) parts.push(ids.slice(first, first + size));
    return parts.length ? parts : [[]];
  }

  /** The weighted sum of ln P of both, without the parts of the network if they have no weight. */
  async function score(texts, context) {
    const added = (text) => (other ? partner.score(text).map((value) => other * value) : new Float64Array(labels.length));
    const sums = texts.map(added);
    const parts = (own ? texts : []).flatMap((text, owner) =>
      split(text).map((ids, _, all) => ({ ids, owner, share: own / all.length })));
    const sequences = parts.map(({ ids }) => ids);
    for (const chosen of batches(sequences, TEXTS_AT_ONCE)) {
      await context.pause();
      const given = (vectors ?? { pad }).pad(chosen.map((number) => sequences[number]));
      const { data } = model.graphs.model.run(given, ["log_probs"]).log_probs;
      chosen.forEach((number, row) => {
        const { owner, share } = parts[number];
        for (let label = 0; label < labels.length; label += 1) {
          sums[owner][label] += share * data[row * labels.length + label];
        }
      });
    }
    return sums;
  }

  async function classify(body, context) {
    const texts = readTexts(body);
    const k = readNumber(body, "k", labels.length, 1, Infinity);
    const scores = await score(texts, context);
    const results = scores.map((sums, number) => {
      const highest = Math.max(...sums), found = normalise(sums.map((value) => value - highest));
      return buildAnswer(texts[number], likeliest(found, k).map((one) => [labels[one], Math.exp(found[one])]));
    });
    return { model: model.name, results, ...(vectors ? {} : warn(codec, texts)) };
  }

  return { classify, ...(vectors ? {} : watchText(model, codec)) };
}

function buildAnswer(text, ranked) {
  const [label, probability] = ranked[0];
  return { text, label, probability, probabilities: Object.fromEntries(ranked) };
}

/** The weights of the mixture, and a function from a text, or the text of vectors, to ln P of every label. */
function openPartner({ grams: graph, convolutions }, codec) {
  if (convolutions) {
    const run = (frames, name) => {
      const { ids, lengths } = codec.pad([frames]);
      return Float64Array.from(convolutions.run({ frames: ids, lengths }, [name])[name].data);
    };
    const mixture = run([new Array(codec.size).fill(0)], "mixture");
    return { mixture, score: (text) => run(codec.encode(text), "log_probs") };
  }
  if (!graph) return null;
  const run = (columns, values, names) => graph.run({
    columns: tensor("int64", [columns.length], Int32Array.from(columns)),
    values: tensor("float32", [values.length], Float32Array.from(values)),
  }, names);
  const { keys, rarity, mixture } = run([], [], ["keys", "rarity", "mixture"]);
  const grams = new Grams(keys.data, rarity.data, codec.characters);
  const score = (text) => {
    const { columns, values } = grams.read(text);
    return Float64Array.from(run(columns, values, ["log_probs"]).log_probs.data);
  };
  return { mixture: mixture.data, score };
}
