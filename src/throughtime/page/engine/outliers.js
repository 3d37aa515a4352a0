// Isolated outliers: values that stand out from those around them far more than the series ever moves. They are read
// as missing values are; series/outliers.py says why.

import { counted, formatTimes } from "./panel.js";
import { quantileOf } from "./scaling.js";

const SIDE = 3;
const MIN_ROWS = 10;
const MAX_SHARE = 0.02;
const [TIMES, FEW, SHAPE, CLEAR] = [4, 50, 1.5, 4 / 3];
const DAY = 86400;
const YEAR = 365.25 * DAY;
const MAX_SHOWN = 3;

const ascending = (values) => [...values].sort((one, other) => one - other);
const middleOf = (three) => ascending(three)[1];

// How far each value lies beyond the medians of both sides; 0 between them.
function standOut(y) {
  const rows = y.flatMap((value, row) => (Number.isNaN(value) ? [] : [row]));
  const values = rows.map((row) => y[row]);
  const [out, last] = [y.map(() => 0), values.length - 1];
  if (last < 1) return out;
  const at = (place) => values[Math.min(Math.max(place, 0), last)];
  rows.forEach((row, place) => {
    const sides = [-1, 1].map((way) => {
      if (place + way < 0 || place + way > last) return values[place] - values[place - way]; // an end
      const near = Array.from({ length: SIDE }, (_, step) => at(place + way * (step + 1)));
      return values[place] - middleOf(near);
    });
    out[row] = sides[0] * sides[1] > 0 ? Math.min(...sides.map(Math.abs)) : 0;
  });
  return out;
}

// The same where the known columns are as usual.
function standOutOf(series, columns) {
  const out = standOut(series.y);
  for (let column = 0; column < columns; column += 1) {
    const known = series.known.slice(0, out.length).map((row) => row[column] || 0);
    const sorted = ascending(known);
    const [low, high] = [0.05, 0.95].map((probability) => quantileOf(sorted, probability));
    known.forEach((value, row) => {
      if (value < low || value > high) out[row] = 0;
    });
  }
  return out;
}

function most(y) {
  const rows = y.filter((value) => !Number.isNaN(value)).length;
  return rows < MIN_ROWS ? 0 : Math.max(1, Math.floor(MAX_SHARE * rows));
}

function limitWithout(y, left) {
  const rest = y.filter((value, row) => !Number.isNaN(value) && !left.has(row));
  const steps = rest.slice(1).flatMap((value, place) => (value === rest[place] ? [] : [Math.abs(value - rest[place])]));
  if (!steps.length) return rest[0] ? TIMES * Math.abs(rest[0]) : Infinity;
  const sorted = ascending(steps);
  const shape = (quantileOf(sorted, 0.9) / quantileOf(sorted, 0.5)) ** SHAPE;
  return sorted.at(-1) * Math.max(TIMES * (1 + FEW / steps.length), shape);
}

// Whether values of similar size come again after equal numbers of rows, seasons or years.
function isPattern(rows, sizes, frequency) {
  if (rows.length < 2 || sizes[0] > 2 * sizes.at(-1)) return false;
  const sorted = ascending(rows);
  const gaps = sorted.slice(1).map((row, place) => row - sorted[place]);
  const periods = rows.length > 2 ? [[Math.min(...gaps), 1.5]] : [];
  const season = seasonOf(frequency);
  if (season) {
    const seconds = frequency.step * (frequency.unit === "month" ? YEAR / 12 : 1);
    periods.push([season, 0.5], [YEAR / seconds, Math.max(0.5, (1.5 * DAY) / seconds)]);
  }
  return periods.some(([period, off]) =>
    gaps.every((gap) => Math.abs(gap - Math.max(1, Math.round(gap / period)) * period) <= off),
  );
}

// The number of steps in the usual season: 24 hours, 7 days, 12 months.
function seasonOf(frequency) {
  const { step, unit } = frequency ?? { unit: "position" };
  if (unit === "position") return null;
  if (unit === "month") return step < 12 && 12 % step === 0 ? 12 / step : null;
  const around = step < DAY ? DAY : step < 7 * DAY ? 7 * DAY : 364 * DAY;
  return step < around && around % step === 0 ? around / step : null;
}

// How far a value of a series has to stand out to be an outlier.
export function outlierLimit(series, columns, frequency) {
  const out = standOutOf(series, columns);
  const order = out.map((_, row) => row).sort((one, other) => out[other] - out[one] || one - other);
  for (let count = Math.min(most(series.y), out.length - 1); count > 0; count -= 1) {
    const smallest = out[order[count - 1]];
    if (!(smallest > CLEAR * out[order[count]])) continue;
    const rows = order.slice(0, count);
    const limit = limitWithout(series.y, new Set(rows));
    const sizes = rows.map((row) => out[row]);
    if (smallest > limit && !isPattern(rows, sizes, frequency)) return limit;
  }
  return limitWithout(series.y, new Set());
}

// The rows whose values stand out by more than the limit of the series and this one; none if these are many.
function findOutliers(series, columns, frequency, limit) {
  if (limit === Infinity) return [];
  const highest = Math.max(limit, outlierLimit(series, columns, frequency));
  const rows = standOutOf(series, columns).flatMap((value, row) => (value > highest ? [row] : []));
  return rows.length <= most(series.y) ? rows : [];
}

export function removeOutliers(series, columns, frequency, limit) {
  const y = [...series.y];
  for (const row of findOutliers(series, columns, frequency, limit)) y[row] = NaN;
  return { ...series, y };
}

// Sentences about the outliers of the series of a panel, whose limits are given.
export function describeOutliers(panel, columns, frequency, limits) {
  const sentences = panel.series.flatMap((one, place) =>
    findOutliers(one, columns, frequency, limits[place]).map((row) => {
      const what = `${one.unique_id}: the value ${shown(one.y[row])} at ${formatTimes(one.ds, panel.dated)[row]}`;
      return `${what} is an outlier and read as missing (outliers=keep reads it as it is).`;
    }),
  );
  const more = sentences.length - MAX_SHOWN;
  const others = `${counted(more, "more outlier")} ${more === 1 ? "is" : "are"} read as missing.`;
  return [...sentences.slice(0, MAX_SHOWN), ...(more > 0 ? [others] : [])];
}

// A number with six significant digits, as Python's format `g` writes it.
function shown(value) {
  const [digits, power] = value.toExponential(5).split("e");
  if (power >= -4 && power < 6) return String(Number(value.toPrecision(6)));
  const sign = power[0];
  return `${Number(digits)}e${sign}${power.slice(1).padStart(2, "0")}`;
}
