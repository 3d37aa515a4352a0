// Reads the series of a request: their values, times and columns.

import { dateReader } from "./dates.js";
import { makeRegular, quoted } from "./panel.js";
import { Problem } from "./problem.js";
import { fillGaps } from "./scaling.js";

const MAX_NUMBER = 1e18;

// The series of a request on a common grid, sorted by time.
export function readPanel({ series, date_format: format }, settings) {
  if (!Array.isArray(series) || !series.length) throw new Problem("series: is missing; give a list of one or more");
  const named = series.map((one) => ({ ...one, unique_id: one.unique_id ?? "series" }));
  const names = named.map((one) => one.unique_id);
  const twice = names.find((name, place) => names.indexOf(name) !== place);
  if (twice !== undefined)
    throw new Problem(`two series are named ${quoted(twice)}; give each a unique_id of its own`);
  const cells = named.flatMap((one) =>
    (one.ds ?? []).filter((text) => typeof text === "string").map((text) => ({ series: one.unique_id, text })),
  );
  const read = dateReader(cells, format);
  const found = named.map((one) => readSeries(one, read, settings));
  const kinds = new Set(named.map((one) => typeof one.ds?.[0] === "string"));
  if (kinds.size > 1) throw new Problem("some series have dates and others numbers; give all the same");
  return makeRegular(found, kinds.has(true));
}

function readSeries({ unique_id: name, y, ds, known, past }, read, settings) {
  const where = `series ${quoted(name)}`;
  if (!Array.isArray(y) || !y.length) throw new Problem(`${where}: has no values y; give a list of one or more`);
  const values = y.map((value, place) => {
    if (value === null) return NaN;
    if (typeof value !== "number" || !(Math.abs(value) <= MAX_NUMBER))
      throw new Problem(`${where}: y[${place}] is ${value}, expected a number or null`);
    return value;
  });
  for (const [role, table] of Object.entries({ known, past })) {
    const columns = settings.names[role];
    if (columns.length && !table)
      throw new Problem(`${where}: needs the columns ${columns.join(", ")} in ${role}, one list for each row`);
  }
  const columns = { known: known ?? null, past: past ?? null };
  if (!ds) return { unique_id: name, ds: values.map((_, place) => place), y: values, ...columns };
  if (ds.length !== values.length)
    throw new Problem(`${where} has ${ds.length} times for ${values.length} values; give one for each`);
  const times = ds.map((time) => (typeof time === "string" ? read(name, time) : time));
  const order = times.map((_, place) => place).sort((one, other) => times[one] - times[other]);
  if (new Set(times).size < times.length)
    throw new Problem(`${where} has a time twice; keep one value for each time`);
  const sorted = (rows) => rows && [...order.map((place) => rows[place]), ...rows.slice(order.length)];
  const found = { ds: sorted(times), y: sorted(values), known: sorted(columns.known), past: sorted(columns.past) };
  return { unique_id: name, ...found };
}

// Scaled columns of a series [rows or more][columns] with filled gaps.
export function scaledColumns(one, role, settings, rows) {
  const scales = settings[role];
  if (!scales.length) return [];
  const given = one[role];
  if (given.length < rows || given.some((row) => row?.length !== scales.length)) {
    const shape = `[${given.length}, ${given[0]?.length}], expected [${rows} or more, ${scales.length}]`;
    throw new Problem(`series ${quoted(one.unique_id)}: its ${role} columns have the shape ${shape}`);
  }
  const columns = scales.map(([centre, spread], column) =>
    fillGaps(given.map((row) => ((row[column] ?? NaN) - centre) / spread)),
  );
  return given.map((_, row) => columns.map((values) => values[row]));
}
