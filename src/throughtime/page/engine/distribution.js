// The distribution of a future value, read from what a forecaster says: a point; the centre and the scale of a normal
// distribution or of Student's t distribution; or quantiles, in order.

import { Problem } from "./problem.js";

const MIN_CHANCE = 2 ** -54;
const GRID = 4097;

// P(X < x) of a standard normal variable, for x <= 0: a series near 0, a continued fraction far from it.
function normalBelow(x) {
  const density = Math.exp(-0.5 * x * x) / Math.sqrt(2 * Math.PI);
  if (x < -3) {
    let fraction = -x;
    for (let term = 60; term > 0; term -= 1) fraction = -x + term / fraction;
    return density / fraction;
  }
  let [term, sum] = [x, x];
  for (let odd = 3; Math.abs(term) > 1e-17 * Math.abs(sum); odd += 2) {
    term *= (x * x) / odd;
    sum += term;
  }
  return 0.5 + density * sum;
}

// The quantile of a standard normal variable: a first guess, then Halley's steps.
export function normalQuantile(probability) {
  if (probability === 0.5) return 0;
  const low = Math.min(probability, 1 - probability);
  const root = Math.sqrt(-2 * Math.log(low));
  let x = (2.30753 + 0.27061 * root) / (1 + root * (0.99229 + 0.04481 * root)) - root;
  for (let step = 0; step < 3; step += 1) {
    const away = (normalBelow(x) - low) * Math.sqrt(2 * Math.PI) * Math.exp(0.5 * x * x);
    x -= away / (1 + 0.5 * x * away);
  }
  return probability < 0.5 ? x : -x;
}

// The first place of a sorted list whose value is not below `value`.
function firstNotBelow(sorted, value) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Student's t distribution as a table: with t = sqrt(n) tan(a) the density becomes cos(a)^(n - 1).
function studentTable(degrees) {
  const angle = (place) => (Math.PI * place) / (GRID - 1) - Math.PI / 2;
  const below = new Float64Array(GRID);
  let before = 0;
  for (let place = 1; place < GRID; place += 1) {
    const density = Math.max(0, Math.cos(angle(place))) ** (degrees - 1);
    below[place] = below[place - 1] + (density + before) / 2;
    before = density;
  }
  const whole = below[GRID - 1];
  return (probability) => {
    const above = Math.min(Math.max(firstNotBelow(below, probability * whole), 1), GRID - 1);
    const share = (probability * whole - below[above - 1]) / (below[above] - below[above - 1]);
    return Math.sqrt(degrees) * Math.tan(angle(above - 1 + share));
  };
}

// {probabilistic, mean, quantile, draw} for the settings of a distribution; the last three read `width` outputs at a place.
export function openDistribution({ kind, degrees, probabilities, centre = 0 }) {
  const mean = (outputs, at) => outputs[at + centre];
  if (kind === "point") return { probabilistic: false, mean };
  if (kind === "quantiles") return quantileDistribution(probabilities, centre, mean);
  const standard = kind === "gaussian" ? normalQuantile : studentTable(degrees);
  const quantile = (outputs, at, probability) => outputs[at] + outputs[at + 1] * standard(probability);
  const draw = (outputs, at, chance) => quantile(outputs, at, Math.max(chance, MIN_CHANCE));
  return { probabilistic: true, mean, quantile, draw };
}

function quantileDistribution(known, centre, mean) {
  const last = known.length - 1;
  const between = (outputs, at, probability) => {
    if (!last) return outputs[at];
    const above = Math.min(Math.max(firstNotBelow(known, probability - 1e-9), 1), last);
    const [low, high] = [known[above - 1], known[above]];
    const share = Math.min(Math.max((probability - low) / (high - low), 0), 1);
    return outputs[at + above - 1] * (1 - share) + outputs[at + above] * share;
  };
  const quantile = (outputs, at, probability) => {
    if (probability < known[0] - 1e-6 || probability > known[last] + 1e-6) {
      const range = `${known[0]} to ${known[last]}; ask for another level`;
      throw new Problem(`probabilities: ${probability} is outside the learned range, ${range}`);
    }
    return between(outputs, at, probability);
  };
  return { probabilistic: true, mean, quantile, draw: between };
}
