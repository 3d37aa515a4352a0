// Labels of whole texts: the path "classify".

import { readNumber, warn } from "../asked.js";
import { batches, likeliest, normalise, pad, readTexts } from "../batches.js";
import { openCodec } from "../text/codec.js";
import { watchText } from "../watching.js";

const TEXTS_AT_ONCE = 32;

export function openClassify(model) {
  const codec = openCodec(model.files);
  const { labels, max_length: longest } = model.settings;

  async function classify(body, context) {
    const texts = readTexts(body);
    const k = readNumber(body, "k", labels.length, 1, Infinity);
    const sequences = texts.map((text) => codec.encode(text).slice(0, longest));
    const results = [];
    for (const chosen of batches(sequences, TEXTS_AT_ONCE)) {
      await context.pause();
      const given = pad(chosen.map((number) => sequences[number]));
      const { data } = model.graphs.model.run(given, ["log_probs"]).log_probs;
      chosen.forEach((number, row) => {
        const own = normalise(data.subarray(row * labels.length, (row + 1) * labels.length));
        results[number] = buildAnswer(texts[number], likeliest(own, k).map((one) => [labels[one], Math.exp(own[one])]));
      });
    }
    return { model: model.name, results, ...warn(codec, texts) };
  }

  return { classify, ...watchText(model, codec) };
}

function buildAnswer(text, ranked) {
  const [label, probability] = ranked[0];
  return { text, label, probability, probabilities: Object.fromEntries(ranked) };
}
