// Conformal intervals that were saved with a forecaster: the ends lie as far from a forecast as past errors did.

import { counted, quoted } from "./panel.js";
import { Problem } from "./problem.js";
import { applyPower, undoPower } from "./scaling.js";

const RECENT_SEASONS = 4;
const RECENT_ROWS = 32;
const round = (probability) => Number(probability.toFixed(10));
const levelOf = (probability) => Math.abs(2 * probability - 1);
const percentOf = (probability) => Number((100 * levelOf(probability)).toPrecision(6));

// The ceil((n + 1) level)-th smallest of n scores, infinite if there are too few; null is a value not observed.
function conformalQuantile(scores, level) {
  const sorted = scores.filter((score) => score !== null).sort((one, other) => one - other);
  const rank = Math.ceil((sorted.length + 1) * level - 1e-9);
  return rank > sorted.length ? Infinity : sorted[Math.max(rank - 1, 0)];
}

function offset(scores, probability) {
  const side = Math.sign(Number((probability - 0.5).toFixed(9)));
  return side ? side * conformalQuantile(scores, levelOf(probability)) : 0;
}

// The mean change over a season in the last seasons, or in all rows if that is 0; never 0.
function recentChange(y, season) {
  const rows = Math.max(RECENT_SEASONS * season, RECENT_ROWS) + season;
  for (const part of [y.slice(-rows), y]) {
    const changes = part.slice(season).map((value, place) => Math.abs(value - part[place]));
    const observed = changes.filter((change) => !Number.isNaN(change));
    const change = observed.reduce((sum, one) => sum + one, 0) / observed.length;
    if (change > 0) return change;
  }
  return 1;
}

// The measured probabilities around one on its side of the median, and where it lies between them.
function neighbours(measured, probability) {
  const known = measured.map(Number).sort((one, other) => one - other);
  const low = round(Math.min(probability, 1 - probability));
  if (Math.abs(probability - 0.5) < 1e-9 || known.includes(low)) return [probability, probability, 0];
  if (!(known[0] < low && low < known.at(-1))) {
    const range = `range from ${percentOf(known.at(-1))} to ${percentOf(known[0])}`;
    throw new Problem(`level ${percentOf(probability)}: is outside the saved intervals, which ${range}`);
  }
  const above = known.findIndex((one) => one > low);
  const share = (low - known[above - 1]) / (known[above] - known[above - 1]);
  const ends = [known[above - 1], known[above]];
  return [...(probability < 0.5 ? ends : ends.map((one) => round(1 - one))), share];
}

// The quantiles that the model itself has to forecast.
export function requiredQuantiles({ kind, scores }, probabilities) {
  if (kind !== "quantiles") return [];
  const near = probabilities.flatMap((one) => neighbours(Object.keys(scores), one).slice(0, 2));
  return [...new Set(near)].sort((one, other) => one - other);
}

// Replace the quantiles of a forecast {unique_id, mean, quantiles: Map} of a series by conformal ones.
export function addIntervals(intervals, series, { power, low }, forecast, probabilities) {
  const { kind, scores } = intervals;
  const steps = Object.values(scores)[0];
  const width = kind === "scaled" ? steps[0].length : steps[0][0].length;
  const h = forecast.mean.length;
  if (h > width)
    throw new Problem(`h: is ${h}, but the intervals were measured up to ${width} steps ahead; ask for fewer`);
  const place = intervals.series.indexOf(series.unique_id);
  if (kind !== "scaled" && place < 0)
    throw new Problem(`series ${quoted(series.unique_id)}: has no measured intervals; leave out the level`);
  const unit = kind === "scaled" ? recentChange(applyPower(series.y, power), intervals.season) : 1;
  const even = (values) => applyPower([...values], power);
  const mean = even(forecast.mean);
  const found = probabilities.map((probability) => {
    if (kind === "scaled")
      return mean.map((value, step) => value + unit * offset(scores.scores.map((row) => row[step]), probability));
    if (kind === "absolute")
      return mean.map((value, step) => value + offset(scores.scores.map((row) => row[place][step]), probability));
    return movedQuantile(scores, forecast, probability, place, even);
  });
  if (kind === "quantiles") sortSteps(found);
  const restore = (value) => Math.max(undoPower(value, power), low);
  const quantiles = new Map(probabilities.map((one, number) => [one, found[number].map(restore)]));
  for (const [probability, values] of quantiles) {
    const step = values.findIndex((value) => Math.abs(value) === Infinity);
    if (step < 0) continue;
    const level = levelOf(probability);
    const windows = Math.ceil(level / (1 - level) - 1e-9);
    const where = `series ${quoted(series.unique_id)} ${counted(step + 1, "step")} ahead`;
    const problem = `needs ${windows} windows, more than the saved intervals have for ${where}; ask for a lower level`;
    throw new Problem(`level ${percentOf(probability)}: ${problem}`);
  }
  return { ...forecast, quantiles };
}

// A quantile of the model, moved outwards or inwards by past errors.
function movedQuantile(scores, forecast, probability, place, even) {
  const [one, other, share] = neighbours(Object.keys(scores), probability);
  const [first, second] = [one, other].map((each) => even(forecast.quantiles.get(each)));
  const between = first.map((value, step) => (1 - share) * value + share * second[step]);
  if (Math.abs(probability - 0.5) < 1e-9) return between;
  const scoresOf = (each) => {
    const low = round(Math.min(each, 1 - each));
    return scores[Object.keys(scores).find((name) => Number(name) === low)];
  };
  const [low, high] = [scoresOf(one), scoresOf(other)];
  return between.map((value, step) => {
    const own = low.map((row, window) => {
      const [left, right] = [row[place][step], high[window][place][step]];
      return left === null || right === null ? null : (1 - share) * left + share * right;
    });
    return value + offset(own, probability);
  });
}

// Sort the quantiles of each step, so that they do not cross.
function sortSteps(found) {
  for (let step = 0; step < (found[0]?.length ?? 0); step += 1) {
    const values = found.map((row) => row[step]).sort((one, other) => one - other);
    found.forEach((row, number) => (row[step] = values[number]));
  }
}
