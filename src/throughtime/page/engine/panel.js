// Series on a regular grid of times: the step between times, gaps, the times after the last one, the calendar.
// A time is a number: microseconds since 1970 for a date, or a position.

import { Problem } from "./problem.js";

const SECOND = 1e6;
const DAY = 86400 * SECOND;
const MAX_GAPS = 50; // missing rows for each row; with more of them, a time must be wrong
const POSITION = { step: 1, unit: "position", month_end: false };

export const commas = (count) => count.toLocaleString("en-US");
export const counted = (count, noun) => `${commas(count)} ${noun}${count === 1 ? "" : "s"}`;
export const quoted = (text) => (text.includes("'") && !text.includes('"') ? `"${text}"` : `'${text}'`);

const monthNumber = (time) => {
  const date = new Date(Math.floor(time / 1000));
  return (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth();
};
const monthStart = (month) => Date.UTC(1970, month, 1) * 1000;
const monthEnd = (month) => monthStart(month + 1) - DAY;
const differences = (values) => values.slice(1).map((value, place) => value - values[place]);

function mostCommon(steps) {
  const counts = new Map();
  for (const step of steps) counts.set(step, (counts.get(step) ?? 0) + 1);
  return [...counts].sort((one, other) => other[1] - one[1] || one[0] - other[0])[0][0];
}

// The most common step between times; null for positions 0, 1, 2, ... and for single times.
export function inferFrequency(times, dated) {
  const known = times.filter((ds) => ds.length > 1);
  if (!known.length) return null;
  const commonStep = (read) => mostCommon(known.flatMap((ds) => differences(ds.map(read))));
  if (!dated) {
    const step = commonStep((time) => time);
    return step === 1 ? null : { ...POSITION, step };
  }
  const every = (test) => known.every((ds) => ds.every((time) => test(time, ds)));
  const into = (time) => time - monthStart(monthNumber(time));
  const monthEnds = every((time) => monthEnd(monthNumber(time)) === time);
  if (monthEnds || every((time, ds) => into(time) === into(ds[0])))
    return { step: commonStep(monthNumber), unit: "month", month_end: monthEnds };
  const step = commonStep((time) => time);
  if (step % SECOND)
    throw new Problem("ds: has times that are fractions of a second apart; number the rows instead");
  return { step: step / SECOND, unit: "second", month_end: false };
}

// `count` times, starting with `first`; a frequency of null counts positions.
function grid(frequency, first, count) {
  const { step, unit, month_end: monthEnds } = frequency ?? POSITION;
  const month = unit === "month" ? monthNumber(first) : 0;
  const into = unit === "month" ? first - monthStart(month) : 0;
  return Array.from({ length: count }, (_, place) => {
    if (unit === "position") return first + place * step;
    if (unit === "second") return first + place * step * SECOND;
    const then = month + place * step;
    return monthEnds ? monthEnd(then) : monthStart(then) + into;
  });
}

// The positions of times on the grid of the first one; fractions are off the grid.
export function places(frequency, ds) {
  const { step, unit } = frequency ?? POSITION;
  if (ds.length < 2) return ds.map(() => 0);
  if (unit === "month") return ds.map((time) => (monthNumber(time) - monthNumber(ds[0])) / step);
  return ds.map((time) => (time - ds[0]) / (step * (unit === "second" ? SECOND : 1)));
}

// The step of a frequency in words.
export function stepName(frequency) {
  const { step, unit } = frequency ?? POSITION;
  if (unit === "month" && step === 3) return "quarter";
  const sizes = {
    second: { 604800: "week", 86400: "day", 3600: "hour", 60: "minute", 1: "second" },
    month: { 12: "year", 1: "month" },
    position: { 1: "position" },
  }[unit];
  const size = Math.max(...Object.keys(sizes).map(Number).filter((one) => step % one === 0));
  return step === size ? sizes[size] : `${step / size} ${sizes[size]}s`;
}

// Times as text: without the hour if all are midnights; positions as whole numbers.
export function formatTimes(ds, dated) {
  if (!dated) return ds.map(String);
  const midnights = ds.every((time) => time % DAY === 0);
  return ds.map((time) => {
    const text = new Date(Math.floor(time / SECOND) * 1000).toISOString();
    return midnights ? text.slice(0, 10) : text.slice(0, 19).replace("T", " ");
  });
}

// Put sorted series {unique_id, ds, y, known, past} on the grid of their common frequency: gaps become NaN, and
// notes tell of them.
export function makeRegular(series, dated) {
  const frequency = inferFrequency(
    series.map((one) => one.ds),
    dated,
  );
  const notes = [];
  const regular = series.map((one) => {
    const name = `series ${quoted(one.unique_id)}`;
    const rows = places(frequency, one.ds);
    const off = rows.findIndex((row) => Math.abs(row - Math.round(row)) > 1e-6);
    const step = `step${off < 0 ? "s" : ""} of one ${stepName(frequency)}`;
    if (off >= 0) {
      const time = formatTimes(one.ds, dated)[off];
      throw new Problem(`${name}: has the time ${time}, which does not fit its ${step}; resample it to a regular step`);
    }
    const last = Math.round(rows.at(-1));
    if (last > MAX_GAPS * rows.length) {
      const sizes = `has only ${commas(rows.length)} rows for ${commas(last + 1)} ${step}`;
      throw new Problem(`${name}: ${sizes}; look for a wrong date or time`);
    }
    const found = spread(one, rows.map(Math.round), frequency);
    if (found !== one) notes.push(noteGaps(one, rows.map(Math.round), frequency, dated));
    const absent = one.y.flatMap((value, place) => (Number.isNaN(value) ? [place] : []));
    if (absent.length) {
      const first = formatTimes(one.ds, dated)[absent[0]];
      notes.push(`${one.unique_id} lacks ${counted(absent.length, "value")}, the first at ${first}.`);
    }
    return found;
  });
  return { series: regular, frequency, dated, notes };
}

function spread(one, rows, frequency) {
  const count = rows.at(-1) + 1;
  if (count <= rows.length) return one;
  const fill = (values, nothing) => {
    const table = Array.from({ length: count }, () => nothing);
    rows.forEach((row, place) => (table[row] = values[place]));
    return [...table, ...values.slice(rows.length)]; // known columns go on after the last value
  };
  const columns = (table) => (table ? fill(table, table[0].map(() => NaN)) : table);
  const ds = grid(frequency, one.ds[0], count);
  return { ...one, ds, y: fill(one.y, NaN), known: columns(one.known), past: columns(one.past) };
}

function noteGaps(one, rows, frequency, dated) {
  const gaps = differences(rows);
  const lacking = gaps.reduce((sum, step) => sum + step - 1, 0);
  const after = formatTimes(one.ds, dated)[gaps.findIndex((step) => step > 1)];
  const count = counted(gaps.filter((step) => step > 1).length, "gap");
  const missing = `${counted(lacking, "row")} ${lacking === 1 ? "is" : "are"} missing`;
  return `${one.unique_id} has ${count}, the first after ${after}: ${missing} at a step of one ${stepName(frequency)}.`;
}

// The `h` times after the last row of a series.
export function timesAfter(panel, one, h) {
  if (panel.frequency === null && panel.dated) {
    const problem = "has one date, which does not determine a step; give two rows or more";
    throw new Problem(`series ${quoted(one.unique_id)}: ${problem}`);
  }
  return grid(panel.frequency, one.ds.at(-1), h + 1).slice(1);
}

// The hour of the day, the day of the week and the month of the year as points on circles, those that vary.
export function calendarColumns(ds, frequency) {
  const seconds = frequency.unit === "month" ? 32 * 86400 : frequency.step;
  return ds.map((time) => {
    const day = Math.floor(time / DAY);
    const turns = [(((monthNumber(time) % 12) + 12) % 12) / 12];
    if (seconds <= 86400) turns.unshift(((((day + 3) % 7) + 7) % 7) / 7); // 1970-01-01 was a Thursday
    if (seconds < 86400) turns.unshift((time - day * DAY) / DAY);
    return turns.flatMap((turn) => [Math.sin(2 * Math.PI * turn), Math.cos(2 * Math.PI * turn)]);
  });
}
