// Greedy search and sampling: how the next token is chosen from the log-probabilities of all.

import { readNumber } from "./asked.js";
import { uniform, wholeSeed } from "./draws.js";
import { Problem } from "./problem.js";

/** The lowest temperature that is used as it is; long before it only the likeliest token is left. */
const COLDEST = 1e-30;

/** The options of sampling in a request; those that are left out come from `defaults`. */
export function readSampling(body, defaults = {}) {
  const topP = readNumber(body, "top_p", defaults.top_p ?? 1, 0, 1, false);
  if (topP === 0) throw new Problem("top_p: is 0, expected a number above 0 and at most 1");
  return {
    temperature: readNumber(body, "temperature", defaults.temperature ?? 1, 0, 2, false),
    topK: readNumber(body, "top_k", defaults.top_k ?? null, 1, Infinity),
    topP,
    seed: readSeed(body.seed ?? null),
  };
}

function readSeed(seed) {
  const whole = typeof seed === "string" ? /^-?\d{1,20}$/.test(seed) : Number.isSafeInteger(seed);
  if (seed !== null && !whole) throw new Problem(`seed: is ${JSON.stringify(seed)}, expected a whole number`);
  return wholeSeed(seed);
}

/** The place of the highest value; of equal ones the first. */
export function findHighest(values) {
  let best = 0;
  for (let place = 1; place < values.length; place += 1) if (values[place] > values[best]) best = place;
  return best;
}

/** P^(1/temperature) of the topK likeliest tokens, and of these of the smallest set that has the mass topP. */
export function temper(logProbs, { temperature = 1, topK = null, topP = 1 }) {
  const p = new Float64Array(logProbs.length);
  const least = topK !== null && topK < p.length ? logProbs.slice().sort()[p.length - topK] : -Infinity;
  const warmth = Math.max(temperature, COLDEST);
  const highest = logProbs[findHighest(logProbs)] / warmth;
  let total = 0;
  for (let id = 0; id < p.length; id += 1) {
    if (logProbs[id] >= least) total += p[id] = Math.exp(logProbs[id] / warmth - highest);
  }
  for (let id = 0; id < p.length; id += 1) p[id] /= total;
  if (topP < 1) {
    let mass = 0;
    for (const id of Array.from(p.keys()).sort((one, other) => p[other] - p[one])) {
      mass += p[id];
      if (mass - p[id] >= topP) p[id] = 0; // the tokens before it have enough mass
    }
  }
  return p;
}

/** The token at which the cumulative probability exceeds a point in [0, 1); at temperature 0 the likeliest. */
export function drawToken(logProbs, point, sampling) {
  if (sampling.temperature === 0) return findHighest(logProbs);
  const p = temper(logProbs, sampling);
  const at = point * p.reduce((sum, one) => sum + one, 0);
  let reached = 0;
  for (let id = 0; id < p.length; id += 1) {
    reached += p[id];
    if (reached > at) return id;
  }
  return p.length - 1;
}

/**
 * Draws `count` texts at once, token by token, and tells `take(choice, token, logProb, logProbs)` about each token,
 * which returns whether this text is over. `run(from, tokens)` feeds a token to each row, where `from` are the
 * numbers that the rows had at the step before, and returns {logProbs, size}, with `size` numbers for each row.
 */
export async function drawTexts(run, { begin, most, count, sentence, sampling, bar, take }, pause) {
  let texts = [...Array(count).keys()];
  let [from, tokens] = [texts.map(() => 0), texts.map(() => begin)];
  for (let step = 0; step < most && texts.length; step += 1) {
    await pause();
    const seen = run(from, tokens);
    checkNumbers(seen.logProbs, step);
    const [staying, rows, taken] = [[], [], []];
    texts.forEach((choice, row) => {
      const own = seen.logProbs.subarray(row * seen.size, (row + 1) * seen.size);
      bar?.(own);
      const token = drawToken(own, uniform(sampling.seed, step, sentence, choice), sampling);
      if (take(choice, token, own[token], own)) return;
      staying.push(choice);
      rows.push(row);
      taken.push(token);
    });
    [texts, from, tokens] = [staying, rows, taken];
  }
}

/** Refuses probabilities that are not numbers; asking once is enough. */
function checkNumbers(logProbs, step) {
  if (step === 0 && logProbs.some(Number.isNaN)) {
    throw new Problem("the model's weights are damaged: its probabilities are not numbers; export it again");
  }
}
