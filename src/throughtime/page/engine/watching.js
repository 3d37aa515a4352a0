// What models of each task read when their gates are shown; see gates.js.

import { Decoding } from "./decoding.js";
import { joinSteps, openGates } from "./gates.js";
import { ids as vector, tensor } from "./tensor.js";
import { splitWords } from "./text/characters.js";

/** Of classifiers and models that fill blanks: one graph reads the tokens of a text. */
export function watchText(model, codec, warner = codec) {
  const graph = model.graphs.model;
  return openGates(model, warner, (text) => {
    const ids = codec.encode(text);
    const look = () => {
      // Models that fill blanks are asked about no place: they would hide it.
      const given = { ids: tensor("int64", [ids.length, 1], ids), lengths: vector([ids.length]), places: vector([]) };
      const { watched } = graph.run(given, ["log_probs"], true);
      return [{ tokens: codec.labels(codec.pieces(ids)), watched }];
    };
    return { size: ids.length, look };
  });
}

/** Of taggers, which read words. `inputs(sentences)` are the inputs of their graph. */
export function watchTags(model, warner, inputs) {
  return openGates(model, warner, (text) => {
    const tokens = splitWords(text);
    const look = () => [{ tokens, watched: model.graphs.model.run(inputs([tokens]), ["tags"], true).watched }];
    return { size: tokens.length, look };
  });
}

/** Of translators: the encoder reads a sentence, the decoder writes its translation, which `translate` finds. */
export function watchTranslation(model, codecs, translate) {
  const { encoder, decoder } = model.graphs;
  return openGates(model, codecs.source, (text) => {
    const prompt = codecs.prompt(text);
    const look = async (context) => {
      const written = [model.settings.begin_id, ...(await translate(prompt, context))];
      const source = { source: tensor("int64", [prompt.length, 1], prompt), lengths: vector([prompt.length]) };
      const read = encoder.run(source, encoder.outputs.map((one) => one.name), true).watched;
      const decoding = new Decoding(model.graphs, prompt, null, false);
      const steps = written.map((token) => {
        const given = { ...decoding.given, last: vector([token]), k: vector([1]) };
        decoding.names.forEach((name, number) => (given[name] = decoding.state[number]));
        const found = decoder.run(given, decoding.following, true);
        decoding.state = decoding.following.map((name) => found[name]);
        return found.watched;
      });
      const label = (codec, ids) => codec.labels(codec.pieces(ids));
      return [
        { tokens: label(codecs.source, prompt), watched: read },
        { tokens: label(codecs.target, written), watched: joinSteps(steps) },
      ];
    };
    return { size: prompt.length, look };
  });
}
