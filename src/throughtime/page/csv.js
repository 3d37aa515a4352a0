// Reads a pasted or uploaded table: values alone, or times and values, with or without a header.

import { Problem } from "./engine/problem.js";
import { say } from "./words.js";

const number = (text) => (text === "" || /^(nan|na|null)$/i.test(text) ? null : Number(text));

/**
 * Return [{name, y, ds}], one for each series; ds is null if there are no times. With `columns`, a model's lists of
 * names, it also has the tables known and past; last rows without a value then are rows to forecast.
 */
export function parseSeries(text, columns = {}) {
  const lines = text.replace(/^\ufeff/, "").split(/\r?\n/).filter((line) => line.trim());
  if (!lines.length) throw new Problem(say("Paste some values first, one per line."));
  const mark = lines[0].includes("\t") ? "\t" : lines[0].includes(";") ? ";" : ",";
  let rows = lines.map((line) => line.split(mark).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1")));
  if (rows.length === 1 && rows[0].length > 2) rows = rows[0].map((cell) => [cell]); // values side by side
  let names = null;
  if (rows.length > 1 && Number.isNaN(number(rows[0].at(-1)))) {
    names = rows[0].map((name) => name.toLowerCase());
    rows = rows.slice(1);
  }
  const column = (name, otherwise) => (names?.includes(name) ? names.indexOf(name) : otherwise);
  const width = rows[0].length;
  const who = column("unique_id", -1);
  const value = column("y", width - 1);
  const time = column("ds", width > 1 && value !== 0 ? (who === 0 ? -1 : 0) : -1);
  const roles = ["known", "past"].filter((role) => columns[role]?.every((each) => names?.includes(each.toLowerCase())));
  const series = new Map();
  rows.forEach((row, place) => {
    const y = number(row[value] ?? "");
    if (Number.isNaN(y))
      throw new Problem(
        say("Row {row} has “{text}” where a number should be.", { row: place + 1, text: row[value] }),
      );
    const name = who < 0 ? "" : row[who];
    if (!series.has(name)) series.set(name, { name, y: [], ds: time < 0 ? null : [] });
    series.get(name).y.push(y);
    if (time >= 0) series.get(name).ds.push(row[time] ?? "");
    for (const role of roles) {
      const cells = columns[role].map((each) => row[names.indexOf(each.toLowerCase())] ?? "");
      (series.get(name)[role] ??= []).push(cells.map(number));
    }
  });
  if (columns.known?.length) for (const one of series.values()) cutFuture(one);
  const whole = (ds) => ds?.every((one) => /^-?\d+$/.test(one));
  return [...series.values()].map((one) => ({ ...one, ds: whole(one.ds) ? one.ds.map(Number) : one.ds }));
}

/** Take the rows to forecast from the values of a series; its known columns keep them. */
function cutFuture(one) {
  const end = one.y.findLastIndex((value) => value !== null) + 1;
  for (const name of ["y", "ds", "past"]) if (one[name]) one[name] = one[name].slice(0, end);
}
