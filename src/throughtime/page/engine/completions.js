// What every language model of the file does, recurrent or counted: continuing texts and expecting the next token.

import { readNumber, readText, warn } from "./asked.js";
import { highest } from "./beam.js";
import { checkNumbers, Problem } from "./problem.js";
import { drawTexts, readSampling } from "./sampling.js";
import { findTexts, readSearch } from "./searching.js";
import { Stops } from "./stops.js";
import { END, WINDOW } from "./text/codec.js";

const MAX_TOKENS = 2000;
const MAX_STOPS = 4;
const UNSUPPORTED = ["suffix", "stream", "frequency_penalty", "presence_penalty", "logit_bias"];

/** ln P for an answer, where what is impossible has no number. */
const finite = (value) => (Number.isFinite(value) ? value : null);
const hex = (byte) => byte.toString(16).padStart(2, "0");

/**
 * The paths of a language model. `open(ids, scored)` reads a prompt and returns {begin, run, scores}: `begin` and
 * `run` are as `drawTexts` takes them, `scores` are ln P of every id given those before it, if it is to be `scored`.
 */
export function openWriter(model, framing, open) {
  return {
    "v1/completions": (body, context) => complete(model, framing, open, body, context),
    "inspect/next": async (body) => expect(model, framing, open, body),
  };
}

async function complete(model, framing, open, body, { pause }) {
  if (framing.backward) {
    throw new Problem(`model: ${model.name} reads from right to left and cannot continue a prompt`);
  }
  const asked = readRequest(framing, body, model.settings.generation);
  const drafts = [];
  for (const [sentence, prompt] of asked.ids.entries()) {
    const write = asked.searching ? searchDrafts : drawDrafts;
    const opened = open(prompt, asked.echo && asked.logprobs !== null);
    const found = await write(framing, opened, { ...asked, prompt, sentence }, pause);
    const echoed = asked.echo ? asked.echoes[sentence] : "";
    drafts.push(...found.map((draft) => ({ ...draft, text: echoed + draft.text, scores: opened.scores })));
  }
  const choices = drafts.map((draft, index) => {
    const logprobs = asked.logprobs === null ? null : listLogProbs(framing, draft, asked.logprobs);
    return { index, text: draft.text, logprobs, finish_reason: draft.finish };
  });
  const sizes = asked.prompts.map((one, number) => {
    return typeof one === "string" ? asked.ids[number].length - framing.numGiven : one.length;
  });
  const read = sizes.reduce((sum, one) => sum + one, 0);
  const written = drafts.reduce((sum, draft) => sum + draft.tokens.length, 0);
  const texts = asked.prompts.map((one, place) => [one, place + 1]).filter(([one]) => one && typeof one === "string");
  const numbers = asked.prompts.length === 1 ? null : texts.map(([, number]) => number);
  return {
    id: `cmpl-${Array.from(crypto.getRandomValues(new Uint8Array(16)), hex).join("")}`,
    object: "text_completion",
    created: Math.floor(Date.now() / 1000),
    model: model.name,
    choices,
    usage: { prompt_tokens: read, completion_tokens: written, total_tokens: read + written },
    ...warn(framing.codec, texts.map(([one]) => one), { numbers, dropped: true }),
  };
}

/** What a request for completions asks for; see `serve/completion_request.py`. */
function readRequest(framing, body, defaults) {
  for (const name of UNSUPPORTED) {
    if (body[name]) throw new Problem(`${name}: is not supported here; leave it out`);
  }
  const search = body.search ?? null;
  const stops = typeof body.stop === "string" ? [body.stop] : (body.stop ?? []);
  if (!Array.isArray(stops) || stops.length > MAX_STOPS || stops.some((one) => typeof one !== "string")) {
    throw new Problem(`stop: expected a text, or a list of at most ${MAX_STOPS} texts`);
  }
  for (const name of ["logprobs", "stop"]) {
    if (search !== null && body[name] != null) {
      throw new Problem(`${name}: cannot be given together with search; leave one of them out`);
    }
  }
  for (const name of ["num_beams", "length_penalty"]) {
    if (search === null && body[name] != null) {
      throw new Problem(`${name}: is an option of a search; give search too, such as beam`);
    }
  }
  const prompts = listPrompts(body.prompt ?? "");
  const most = readNumber(body, "max_tokens", 16, 0, MAX_TOKENS);
  if (most === 0 && (!body.echo || search !== null)) {
    throw new Problem("max_tokens: is 0, which leaves nothing to answer without echo");
  }
  return {
    ...{ prompts, most, stops },
    ids: prompts.map((one) => readPrompt(framing, one)),
    echoes: prompts.map((one) => (typeof one === "string" ? one : framing.text(one))),
    echo: Boolean(body.echo),
    count: readNumber(body, "n", 1, 1, 16),
    logprobs: readNumber(body, "logprobs", null, 0, 5),
    sampling: search === null ? readSampling(body) : null,
    searching: search === null ? null : readSearch(body, search, "n", defaults),
  };
}

function listPrompts(prompt) {
  const alone = typeof prompt === "string" || typeof prompt?.[0] === "number";
  const list = alone ? [prompt] : prompt;
  const areIds = (one) => Array.isArray(one) && one.length > 0 && one.every(Number.isInteger);
  const good = (one) => typeof one === "string" || areIds(one);
  if (!Array.isArray(list) || !list.length || !list.every(good)) {
    throw new Problem("prompt: expected a text, a list of texts, or token ids");
  }
  return list;
}

function readPrompt(framing, prompt) {
  if (typeof prompt === "string") return framing.ids(prompt, false);
  const { size } = framing.codec;
  const wrong = prompt.find((one) => one < 0 || one >= size);
  if (wrong !== undefined) throw new Problem(`prompt: has the token id ${wrong}, expected 0 to ${size - 1}`);
  return framing.beginId === null || prompt[0] === framing.beginId ? prompt : [framing.beginId, ...prompt];
}

/** Texts that are drawn, each with its own stops. */
async function drawDrafts(framing, { begin, run }, asked, pause) {
  const { prompt, most, stops, count, logprobs, sampling, sentence } = asked;
  const drafts = Array.from({ length: count }, () => {
    const window = prompt.slice(-WINDOW);
    return { prompt, tokens: [], text: "", finish: "length", window, stops: new Stops(stops) };
  });
  const write = (draft, text) => (draft.text += text && draft.stops.add(text));
  const take = (choice, token, logProb, all) => {
    const draft = drafts[choice];
    const ended = token === framing.endId;
    if (!ended) {
      const likely = logprobs ? highest(all, logprobs).map((id) => [id, all[id]]) : [];
      draft.tokens.push({ token, logProb, likely });
      write(draft, framing.addition(draft.window, token));
      draft.window = [...draft.window, token].slice(-WINDOW);
    }
    const full = draft.tokens.length >= most;
    if ((ended || full) && !draft.stops.stopped) draft.text += draft.stops.rest();
    if (ended || draft.stops.stopped) draft.finish = "stop";
    return ended || full || draft.stops.stopped;
  };
  await drawTexts(run, { begin, most, count: most ? count : 0, sentence, sampling, take }, pause);
  return drafts;
}

/** Texts that a named search finds, best first. */
async function searchDrafts(framing, { begin, run }, { prompt, most, searching, sentence }, pause) {
  const found = await findTexts(run, searching, { begin, end: framing.endId, most, sentence }, pause);
  return found.map(({ tokens, ended }) => {
    const text = framing.pieces([...prompt, ...tokens]).slice(prompt.length).join("");
    return { prompt, tokens, text, finish: ended ? "stop" : "length" };
  });
}

/** ln P of every token; those of an echoed prompt come first. */
function listLogProbs(framing, draft, most) {
  const echoed = draft.scores.length;
  const skip = echoed ? framing.numGiven : 0;
  const ids = [...draft.prompt, ...draft.tokens.map((one) => one.token)];
  const first = echoed ? skip : draft.prompt.length;
  const tokens = framing.pieces(ids).slice(first);
  const likely = draft.tokens.map((one, place) => {
    const at = draft.prompt.length + place;
    return listLikely(framing, ids.slice(Math.max(0, at - WINDOW), at), tokens[at - first], one);
  });
  let offset = 0;
  return {
    tokens,
    token_logprobs: [...draft.scores.slice(skip), ...draft.tokens.map((one) => one.logProb)].map(finite),
    top_logprobs: most ? [...Array(echoed - skip).fill(null), ...likely] : null,
    text_offset: tokens.map((one) => (offset += [...one].length) - [...one].length),
  };
}

/** The likeliest tokens, spelled as in `tokens`; by their names if two are spelled alike. */
function listLikely(framing, before, piece, { token, logProb, likely }) {
  const found = {};
  for (const [id, score] of new Map([...likely, [token, logProb]])) {
    let own = id === token ? piece : framing.addition(before, id);
    if (id !== token && (own === "" || own === piece || Object.hasOwn(found, own))) {
      own = framing.codec.vocabulary.token(id);
    }
    found[own] = finite(score);
  }
  return found;
}

/** The likeliest next tokens after a text, and the surprisal of each of its tokens in bits. */
function expect(model, framing, open, body) {
  if (framing.backward) throw new Problem("model: reads from right to left, so nothing comes next");
  const [text, k] = [readText(body, ""), readNumber(body, "k", 10, 1, 50)];
  const ids = framing.ids(text, false);
  const { begin, run, scores } = open(ids, true);
  const read = framing.pieces(ids).map((piece, place) => ({ piece, bits: finite(-scores[place] / Math.LN2) }));
  const row = Float64Array.from(run([0], [begin]).logProbs);
  checkNumbers(row);
  for (const id of framing.neverPredicted) row[id] = -Infinity;
  const top = row.reduce((one, other) => Math.max(one, other));
  const all = top + Math.log(row.reduce((sum, one) => sum + Math.exp(one - top), 0));
  const chances = row.map((one) => Math.exp(one - all));
  const expected = highest(row, k)
    .filter((id) => chances[id] > 0)
    .map((id) => ({
      token: id === framing.endId ? END : framing.codec.vocabulary.token(id),
      piece: framing.addition(ids.slice(-WINDOW), id),
      probability: chances[id],
    }));
  const entropy = -chances.reduce((sum, p, id) => sum + (p > 0 ? p * (row[id] - all) : 0), 0) / Math.LN2;
  const warnings = text ? warn(framing.codec, [text], { dropped: true }) : {};
  return { model: model.name, read: read.slice(framing.numGiven), expected, entropy, ...warnings };
}
