// Texts that a named search finds: greedy search, sampling or beam search.

import { readNumber } from "./asked.js";
import { barTokens, searchBeam } from "./beam.js";
import { Problem } from "./problem.js";
import { drawTexts, readSampling } from "./sampling.js";

const SEARCHES = ["sampling", "greedy", "beam"];
const BEAMS = 5;
const LENGTH_PENALTY = 0.75;

/** The options of a search in a request for as many texts as the field `counted` says; see runtime/search.py. */
export function readSearch(body, search, counted, defaults) {
  if (!SEARCHES.includes(search)) {
    const known = `${SEARCHES.join(", ")}; other searches need the trained model`;
    throw new Problem(`search: is ${JSON.stringify(search)}, expected ${known}`);
  }
  const count = readNumber(body, counted, 1, 1, 16);
  if (search === "greedy") {
    if (count > 1) throw new Problem(`${counted}: is ${count}, but greedy search finds only 1`);
    const names = ["num_beams", "length_penalty", "temperature", "top_k", "top_p", "seed"];
    const strange = names.find((name) => (body[name] ?? null) !== null && !(name === "temperature" && body[name] === 0));
    if (strange) throw new Problem(`${strange}: is not an option of greedy search, which takes none`);
    return { search, count, sampling: { temperature: 0, seed: 0 } };
  }
  if (search === "beam") {
    const strange = ["temperature", "top_k", "top_p", "seed"].find((name) => (body[name] ?? null) !== null);
    if (strange) throw new Problem(`${strange}: is not an option of beam search; sampling has it`);
    const width = readNumber(body, "num_beams", BEAMS, 1, 20);
    if (count > width) throw new Problem(`${counted}: is ${count}, expected 1 to ${width}, the number of beams`);
    return { search, count, width, alpha: readNumber(body, "length_penalty", LENGTH_PENALTY, 0, 10, false) };
  }
  const sampling = readSampling(body, defaults);
  if (sampling.temperature === 0) {
    throw new Problem("temperature: is 0, expected a number above 0; use greedy search for the likeliest tokens");
  }
  return { search, count, sampling };
}

/**
 * The texts that a search finds, best first: {tokens, score, logProb, ended}. `run` is that of `drawTexts`; `limits`
 * are the ids that texts `begin` and `end` with and never contain (`barred`), how many tokens they have at `most`,
 * and the number of their `sentence` among others, on which draws depend.
 */
export async function findTexts(run, { search, count, sampling, width, alpha }, limits, pause) {
  const { begin, end, most, sentence, barred = [] } = limits;
  if (search === "beam") {
    const step = (rows) => run(rows.map((one) => one.from), rows.map((one) => one.token));
    const bar = barred.length ? barTokens({ barred, prefix: [], forbidden: [], end }) : undefined;
    return searchBeam(step, { begin, end, most, width, count, alpha }, { bar, pause });
  }
  const found = Array.from({ length: count }, () => ({ tokens: [], score: 0, logProb: 0, ended: false }));
  const bar = (logProbs) => barred.forEach((id) => (logProbs[id] = -Infinity));
  const take = (choice, token, logProb) => {
    const one = found[choice];
    one.score = one.logProb += logProb;
    one.ended = token === end;
    if (!one.ended) one.tokens.push(token);
    return one.ended;
  };
  await drawTexts(run, { begin, most, count, sentence, sampling, bar, take }, pause);
  return found.sort((one, other) => other.score - one.score);
}
