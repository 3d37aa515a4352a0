// Fills blanks with the likeliest words, several blanks together: the path "fill".

import { readNumber, warn } from "../asked.js";
import { likeliest, normalise, pad, readTexts } from "../batches.js";
import { tensor } from "../tensor.js";
import { fillBlanks, readBlanks, tokenText } from "../text/blanks.js";
import { strip } from "../text/characters.js";
import { openCodec } from "../text/codec.js";
import { watchText } from "../watching.js";

const [ROWS_AT_ONCE, BLANKS_AT_ONCE] = [256, 1024];
const BLANKS = /_{2,}|\[MASK\]/g;
const BEAMS = 10;
const [MAX_RESULTS, MAX_BEAMS] = [100, 1000];

export function openFill(model) {
  const filler = new Filler(model);
  const gates = watchText(model, filler.codec, { warnings: (texts) => filler.codec.warnings(texts.map(dropBlanks)) });
  return { fill: (body, context) => filler.answer(body, context), ...gates };
}

/** The part of a text that the model reads, without what it is to fill in. */
const dropBlanks = (text) => text.replace(BLANKS, " ");

class Filler {
  constructor(model) {
    Object.assign(this, { model, codec: openCodec(model.files) });
  }

  async answer(body, context) {
    const texts = readTexts(body);
    const k = readNumber(body, "k", 5, 1, MAX_RESULTS);
    const width = Math.max(k, readNumber(body, "num_beams", BEAMS, 1, MAX_BEAMS));
    const results = [];
    for (const text of texts) {
      if (strip(text)) results.push(await this.fill(text, k, width, context));
      else results.push({ text, tokens: [], probability: 1, alternatives: [] });
    }
    return { model: this.model.name, results, ...warn(this.codec, texts.map(dropBlanks)) };
  }

  /** The best filling of a text, with k - 1 alternatives, of `width` partial fillings at each step. */
  async fill(text, k, width, context) {
    const blanks = readBlanks(text, this.codec);
    const start = { ids: blanks.ids, blanks: blanks.places, logProb: 0 };
    const found = await this.search(start, width, context);
    const fillings = found.slice(0, k).map(({ ids, logProb }) => {
      const words = blanks.places.map((place) => ids[place]);
      const tokens = words.map((word) => tokenText(word, this.codec).replace(/^ +| +$/g, ""));
      return { text: fillBlanks(text, words, this.codec), tokens, probability: Math.exp(logProb) };
    });
    const [best, ...alternatives] = fillings.length ? fillings : [{ text, tokens: [], probability: 0 }];
    return { ...best, alternatives };
  }

  /** The likeliest fillings, best first: each step fills the most certain blank of each partial filling. */
  async search(start, width, context) {
    let beam = [start];
    while (beam.length && beam[0].blanks.length) {
      const most = Math.max(1, Math.min(ROWS_AT_ONCE, Math.floor(BLANKS_AT_ONCE / beam[0].blanks.length)));
      const candidates = [];
      for (let first = 0; first < beam.length; first += most) {
        await context.pause();
        candidates.push(...this.fillSurest(beam.slice(first, first + most), width));
      }
      const order = likeliest(candidates.map((one) => one.logProb), width);
      beam = order.map((place) => candidates[place]);
    }
    return beam;
  }

  /** Fill the most certain blank of each partial filling with each of its `width` best words. */
  fillSurest(partials, width) {
    const guesses = this.guess(partials, width);
    let row = 0;
    return partials.flatMap(({ ids, blanks, logProb }) => {
      const own = guesses.slice(row, (row += blanks.length));
      const surest = own.reduce((best, guess, number) => (guess.values[0] > own[best].values[0] ? number : best), 0);
      const place = blanks[surest];
      const rest = blanks.filter((blank) => blank !== place);
      return own[surest].words.flatMap((word, number) => {
        const value = own[surest].values[number];
        return value === -Infinity ? [] : [{ ids: ids.with(place, word), blanks: rest, logProb: logProb + value }];
      });
    });
  }

  /** The likeliest words at each blank, and their ln P. */
  guess(partials, width) {
    const places = partials.flatMap(({ blanks }, row) => blanks.map((step) => step * partials.length + row));
    const given = { ...pad(partials.map((one) => one.ids)), places: tensor("int64", [places.length], places) };
    const { data, dims } = this.model.graphs.model.run(given, ["log_probs"]).log_probs;
    return places.map((_, number) => {
      const own = Float64Array.from(data.subarray(number * dims[1], (number + 1) * dims[1]));
      for (const word of this.model.settings.never) own[word] = -Infinity;
      const logProbs = normalise(own);
      const words = likeliest(logProbs, width);
      return { words, values: words.map((word) => logProbs[word]) };
    });
  }
}
