// Reads texts with the page's codecs, for test_text.py: `readTexts(asked)` in node and in browsers.

import { fillBlanks, readBlanks, tokenText } from "../../src/throughtime/page/engine/text/blanks.js";
import { openCodec } from "../../src/throughtime/page/engine/text/codec.js";
import { openCodecs } from "../../src/throughtime/page/engine/text/codecs.js";
import { Framing } from "../../src/throughtime/page/engine/text/framing.js";

function read(codec, text) {
  const ids = codec.encode(text), pieces = codec.pieces(ids.slice(0, 12));
  return {
    ids,
    text: codec.decode(ids),
    normal: codec.tokenizer.normalise(text),
    pieces,
    labels: codec.labels(pieces),
    additions: new Framing(codec, { marked: false, backward: true }).pieces(ids.slice(0, 12)),
    warnings: codec.warnings([text], { dropped: true }),
  };
}

function answer({ kind, files, texts, limit }) {
  if (kind === "codec") {
    const codec = openCodec(files);
    return texts.map((text) => read(codec, text));
  }
  if (kind === "blanks") {
    const codec = openCodec(files);
    return texts.map((text) => {
      const { ids, places } = readBlanks(text, codec);
      const words = places.map((place) => (place * 7 + 5) % codec.size);
      return { ids, places, filled: fillBlanks(text, words, codec), words: words.map((one) => tokenText(one, codec)) };
    });
  }
  const codecs = openCodecs(files);
  return texts.map((text) => {
    const source = codecs.source.encode(text).map((id) => codecs.source.tokens[id]).slice(0, 30);
    const target = codecs.target.encode(text).map((id) => codecs.target.tokens[id]).slice(0, 30);
    const attention = [...target, ""].map((_, row) => [...source, ""].map((_, column) => (row * 3 + column * 7) % 11));
    return { parts: codecs.splitTexts([text], limit)[0], ...codecs.alignWords(attention, source, target) };
  });
}

globalThis.readTexts = (asked) => asked.map(answer);
