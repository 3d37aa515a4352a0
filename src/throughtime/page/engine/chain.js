// The tags of one sentence from the scores of its words: independent tags, or a chain with scores for successive tags.

const argmax = (values) => values.reduce((best, value, place) => (value > values[best] ? place : best), 0);
const indices = (size) => Array.from({ length: size }, (_, place) => place);

function logSumExp(values) {
  const most = Math.max(...values);
  return Math.log(values.reduce((sum, value) => sum + Math.exp(value - most), 0)) + most;
}

/** The probabilities that are proportional to exp(score). */
export function softmax(scores) {
  const most = Math.max(...scores);
  const raised = Array.from(scores, (score) => Math.exp(score - most));
  const sum = raised.reduce((total, one) => total + one, 0);
  return raised.map((one) => one / sum);
}

/** The scores [T][S] with those of tags at either end. */
function addEnds(scores, { first, last }) {
  return scores.map((row, place) =>
    row.map((score, tag) => {
      const begun = place === 0 ? Math.fround(score + first[tag]) : score;
      return place === scores.length - 1 ? Math.fround(begun + last[tag]) : begun;
    }),
  );
}

/** The likeliest tags [T] for scores [T][S]; the weights of the chain are null for independent tags. */
export function bestTags(scores, weights) {
  if (!weights) return scores.map(argmax);
  const [start, ...rest] = addEnds(scores, weights);
  let reached = start;
  const cameFrom = rest.map((row) => {
    const step = (score, before, tag) => Math.fround(score + weights.transitions[before][tag]);
    const reach = row.map((_, tag) => reached.map((score, before) => step(score, before, tag)));
    const best = reach.map(argmax);
    reached = row.map((score, tag) => Math.fround(reach[tag][best[tag]] + score));
    return best;
  });
  const path = [argmax(reached)];
  for (const before of cameFrom.reverse()) path.unshift(before[path[0]]);
  return path;
}

/** P(tag of word t) given the whole sentence, [T][S]. */
export function marginals(scores, weights) {
  if (!weights) return scores.map(softmax);
  const scored = addEnds(scores, weights);
  const { transitions } = weights;
  const tags = indices(scored[0].length);
  const before = [scored[0]];
  for (const row of scored.slice(1)) {
    const reached = before.at(-1);
    before.push(tags.map((tag) => row[tag] + logSumExp(tags.map((from) => reached[from] + transitions[from][tag]))));
  }
  const after = [tags.map(() => 0)];
  for (const row of scored.slice(1).reverse()) {
    const ahead = after[0];
    after.unshift(tags.map((tag) => logSumExp(tags.map((to) => transitions[tag][to] + row[to] + ahead[to]))));
  }
  return before.map((row, place) => softmax(row.map((score, tag) => score + after[place][tag])));
}
