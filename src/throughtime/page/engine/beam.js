// Beam search, also in groups that avoid each other's tokens: the same results, scores and order of equals as
// throughtime/search/beam.py and beam_variants.py find for one sentence.

import { Problem } from "./problem.js";

/** The logarithm of the smallest positive probability, for an end that a model finds impossible. */
const MIN_LOG_PROBABILITY = Math.log(5e-324);
/** The penalty on a hypothesis that as many groups continue as there are results left that begin with it. */
const CROWDED = 1e4;

// Searches for results. `step(rows)` runs the model for rows, hypotheses {parent, token, logProb, length, from,
// group}, and returns {logProbs, size, ids}: ln P of `size` tokens for each row, which `bar(step, rows)` may change,
// and the ids of these tokens if they are not 0, 1, 2 and so on. The options are
//   begin, end: the ids that a result begins and ends with; most: the maximum number of tokens
//   width: hypotheses of each of the `groups`; count: the best results of each group, `returned` of all
//   alpha: the score is ln P / length^alpha; penalty: on tokens that earlier groups took at the same step
// No group may end with a result that an earlier group has found, nor, where it can choose, continue a hypothesis
// that too few results begin with.
// `watch(moment)` is told what became of each step. A result has tokens without the end token, and its last row.
export async function searchBeam(step, options, { bar, watch, pause }) {
  const { begin, end, most, width, groups = 1, count = 1, alpha, penalty = 0 } = options;
  const range = [...Array(groups).keys()];
  const best = range.map(() => Array(count).fill(-Infinity));
  const found = [];
  let rows = range.map((group) => ({ parent: null, token: begin, logProb: 0, length: 0, from: group, group }));
  for (let length = 1; rows.length; length += 1) {
    await pause();
    const seen = step(rows);
    if (length === 1 && seen.logProbs.some(Number.isNaN)) {
      const why = "its weights are damaged or far too large; train the model again";
      throw new Problem(`the model's answer is not a number (NaN): ${why}`);
    }
    bar?.(seen, rows);
    const taken = new Map();
    const results = new Map(); // for each text, [column, cost] of what later groups must not do, or rather not
    const room = countBelow(seen, options, most - length);
    const begun = {}; // for each text that goes on, the number of groups
    const [ended, going] = [[], []];
    for (const group of range) {
      const own = chooseBest(rows, group, seen, width, { penalty, taken, results });
      const made = own.map(({ from, column, token, logProb }) => {
        return { parent: rows[from], column, token, logProb, length, from, group, score: logProb / length ** alpha };
      });
      const over = made.filter((one) => one.token === end);
      best[group] = [...best[group], ...over.map((one) => one.score)].sort((a, b) => b - a).slice(0, count);
      const least = best[group][count - 1];
      const kept = over.filter((one) => one.score >= least);
      ended.push(...kept);
      // A row can reach at most its present logarithm divided by the power of the maximum length.
      const open = made.filter((one) => one.token !== end);
      const winning = open.filter((one) => one.logProb / most ** alpha > least);
      const staying = groups === 1 ? winning : winning.length ? open : [];
      going.push(...staying);
      const avoid = ({ parent, column }, cost) => {
        const text = tokensOf(parent).join(" ");
        results.set(text, [...(results.get(text) ?? []), [column, cost]]);
      };
      (groups === 1 ? [] : length === most ? [...kept, ...staying] : kept).forEach((one) => avoid(one, Infinity));
      for (const one of room < groups ? staying : []) {
        const text = tokensOf(one).join(" ");
        begun[text] = (begun[text] ?? 0) + 1;
        if (begun[text] === room) {
          avoid(one, CROWDED);
        }
      }
    }
    if (!ended.length && !going.length && !found.length) {
      found.push(finished(rows.reduce((a, b) => (b.logProb > a.logProb ? b : a)), alpha, end));
    }
    found.push(...ended.map((row) => finished(row, alpha, end)));
    watch?.({ length, before: rows, seen, ended, going, found });
    if (length === most) {
      found.push(...going.map((row) => finished(row, alpha, end)));
      break;
    }
    rows = going;
  }
  return groups > 1 ? bestOfGroups(found, options) : rank(found).slice(0, count).slice(0, options.returned);
}

// How many results can begin with a hypothesis that `left` more tokens can follow; Infinity if enough for all groups.
function countBelow({ logProbs, size, ids }, { end, groups = 1 }, left) {
  if (left < 1 || left >= groups - 1) {
    return Infinity; // with two tokens to choose from there are left + 1
  }
  const possible = new Set();
  logProbs.forEach((value, place) => value > -Infinity && possible.add(place % size));
  const ends = possible.has(ids ? ids.indexOf(end) : end) ? 1 : 0;
  let count = 1;
  for (let number = 0; number < left; number += 1) {
    count = Math.min(groups, ends + (possible.size - ends) * count);
  }
  return count;
}

// The best continuations of the rows of a group: their rows by number, tokens and logarithms, best first.
function chooseBest(rows, group, { logProbs, size, ids }, width, { penalty, taken, results }) {
  const lowered = penalty ? [...taken].map(([column, times]) => [column, times * penalty]) : [];
  const all = [];
  rows.forEach((row, from) => {
    if (row.group !== group) {
      return;
    }
    const gained = logProbs.subarray(from * size, (from + 1) * size);
    const barred = results.size ? (results.get(tokensOf(row).join(" ")) ?? []) : [];
    const costs = new Map(lowered);
    barred.forEach(([column, cost]) => costs.set(column, (costs.get(column) ?? 0) + cost));
    const preferred = costs.size ? gained.slice() : gained;
    costs.forEach((cost, column) => (preferred[column] -= cost));
    for (const column of highest(preferred, width).sort((a, b) => a - b)) {
      const logProb = row.logProb + gained[column];
      all.push({ from, column, logProb, worth: logProb - (costs.get(column) ?? 0) });
    }
  });
  const chosen = all.sort((a, b) => b.worth - a.worth).slice(0, width);
  chosen.forEach(({ column }) => taken.set(column, (taken.get(column) ?? 0) + 1));
  return chosen.map((one) => ({ ...one, token: ids ? ids[one.column] : one.column }));
}

// The places of the `count` highest values, highest first and among equals the first; none of them is -Infinity.
export function highest(values, count) {
  const places = [];
  let least = -Infinity;
  for (let place = 0; place < values.length; place += 1) {
    const value = values[place];
    if (value > least) {
      let at = places.length;
      while (at && values[places[at - 1]] < value) {
        at -= 1;
      }
      places.splice(at, 0, place);
      if (places.length > count) {
        places.pop();
      }
      least = places.length === count ? values[places[count - 1]] : -Infinity;
    }
  }
  return places;
}

function finished(row, alpha, end) {
  const tokens = tokensOf(row);
  const ended = row.token === end && row.length > 0;
  const score = row.logProb / Math.max(1, row.length) ** alpha;
  return { tokens: ended ? tokens.slice(0, -1) : tokens, logProb: row.logProb, score, ended, row };
}

// The rows of a hypothesis, one for each of its tokens.
export function pathOf(row) {
  const path = [];
  for (let one = row; one.parent; one = one.parent) {
    path.unshift(one);
  }
  return path;
}

export function tokensOf(row) {
  return pathOf(row).map((one) => one.token);
}

// Results in the order of their scores; among equals the one found first.
function rank(found) {
  return [...found].sort((a, b) => b.score - a.score);
}

// The best results of every group, then others if there are too few; best first.
function bestOfGroups(found, { groups, count, returned }) {
  const own = Array(groups).fill(0);
  const [chosen, others] = [[], []];
  for (const one of rank(found)) {
    own[one.row.group] += 1;
    (own[one.row.group] <= count ? chosen : others).push(one);
  }
  return rank([...chosen, ...others.slice(0, Math.max(0, (returned ?? 0) - chosen.length))]).slice(0, returned);
}

// What bars tokens: `barred` ids always, the last token of each of the `forbidden` lists of ids after its others, and
// all but the next token of the `prefix`. A row that has no token left takes the end token.
export function barTokens({ barred, prefix, forbidden, end }) {
  let columns = null;
  return ({ logProbs, size, ids }, rows) => {
    columns ??= ids && new Map(Array.from(ids, (id, column) => [id, column])); // the same at every step
    const place = (id) => (columns ? columns.get(id) : id);
    rows.forEach((row, number) => {
      const own = logProbs.subarray(number * size, (number + 1) * size);
      const ending = own[place(end)];
      const drop = (id) => place(id) !== undefined && (own[place(id)] = -Infinity);
      barred.forEach(drop);
      if (row.length >= prefix.length && forbidden.length) {
        const tokens = tokensOf(row);
        for (const word of forbidden) {
          const first = tokens.length - word.length + 1;
          if (first >= 0 && word.slice(0, -1).every((id, at) => tokens[first + at] === id)) {
            drop(word.at(-1));
          }
        }
      }
      if (row.length < prefix.length) {
        const next = place(prefix[row.length]);
        const kept = own[next];
        own.fill(-Infinity);
        own[next] = kept;
      }
      if (own.every((value) => value === -Infinity)) {
        own[place(end)] = Math.max(ending, MIN_LOG_PROBABILITY);
      }
    });
  };
}
