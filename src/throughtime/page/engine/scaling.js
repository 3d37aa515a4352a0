// Scales of series: each has its own centre and spread, after an optional Box-Cox transform of some power.

import { quoted } from "./panel.js";
import { Problem } from "./problem.js";

const PLAIN = 1;

// The quantile of sorted numbers, with linear interpolation.
export function quantileOf(sorted, probability) {
  const place = probability * (sorted.length - 1);
  const low = Math.floor(place);
  const high = Math.min(low + 1, sorted.length - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (place - low);
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

function variance(values) {
  const centre = mean(values);
  return mean(values.map((value) => (value - centre) ** 2));
}

const needsPositive = (transform, value) =>
  `has the value ${Number(value.toPrecision(6))}, but transform=${transform} needs positive values; use transform=none`;

// (x^power - 1) / power, or log x for a power of 0.
export function applyPower(values, power, where = "transform") {
  if (power === PLAIN) return values;
  const refused = values.filter((value) => (power ? value < 0 : value <= 0));
  if (refused.length)
    throw new Problem(`${where}: ${needsPositive(power ? "box-cox" : "log", Math.min(...refused))}`);
  return values.map((value) => (power ? (value ** power - 1) / power : Math.log(value)));
}

export function undoPower(value, power) {
  if (power === PLAIN) return value;
  return power ? Math.max(value * power + 1, 0) ** (1 / power) : Math.exp(value);
}

function fitPower(name, present, transform) {
  if (!transform) return PLAIN;
  if (!present.every((value) => value > 0)) {
    const problem = needsPositive(transform, Math.min(...present));
    throw new Problem(`series ${quoted(name)}: ${problem}`);
  }
  if (transform === "log") return 0;
  const logs = present.reduce((sum, value) => sum + Math.log(value), 0);
  let [best, likeliest] = [0, -Infinity];
  for (let place = 0; place <= 100; place += 1) {
    const power = place / 100;
    const spread = Math.max(variance(applyPower(present, power)), 2.2250738585072014e-308);
    const likelihood = (power - 1) * logs - (present.length / 2) * Math.log(spread);
    if (likelihood > likeliest) [best, likeliest] = [power, likelihood];
  }
  return best;
}

// The scale of a series that the model was not trained on: {centre, spread, power, low}.
export function fitScale(name, values, scaling, transform) {
  const observed = values.filter((value) => !Number.isNaN(value));
  const power = fitPower(name, observed, transform);
  const low = observed.some((value) => value < 0) ? -Infinity : 0; // of forecasts
  if (scaling === "none") return { centre: 0, spread: 1, power, low };
  const present = applyPower(observed, power);
  if (!present.length)
    throw new Problem(`series ${quoted(name)}: has no value in its training part; leave it out, or set scaling=none`);
  let [centre, spread] = [mean(present), Math.sqrt(variance(present))];
  if (scaling === "robust") {
    const sorted = [...present].sort((one, other) => one - other);
    const [low, middle, high] = [0.25, 0.5, 0.75].map((probability) => quantileOf(sorted, probability));
    [centre, spread] = [middle, (high - low) / 1.349 || spread];
  }
  const constant = spread <= 1e-12 * Math.max(1, Math.abs(centre));
  return { centre, spread: constant ? 1 : spread, power, low };
}

// Fill gaps with the value before them, and with 0 at the beginning.
export function fillGaps(values) {
  let last = 0;
  return values.map((value) => (last = Number.isNaN(value) ? last : value));
}
