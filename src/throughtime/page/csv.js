// Reads a pasted series: values alone, or times and values, with or without a header.

import { Problem } from "./server.js";

const number = (text) => (text === "" || /^(nan|na|null)$/i.test(text) ? null : Number(text));

/** Return {y, ds}; ds is null if there are no times. From a table of several series, the first is read. */
export function parseSeries(text) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim());
  if (!lines.length) throw new Problem("Paste some values first, one per line.");
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
  if (who >= 0) rows = rows.filter((row) => row[who] === rows[0][who]);
  const value = column("y", width - 1);
  const time = column("ds", width > 1 && value !== 0 ? 0 : -1);
  const y = rows.map((row, place) => {
    const parsed = number(row[value] ?? "");
    if (Number.isNaN(parsed))
      throw new Problem(`Row ${place + 1} has “${row[value]}” where a number should be.`);
    return parsed;
  });
  if (time < 0) return { y, ds: null };
  const ds = rows.map((row) => row[time] ?? "");
  return { y, ds: ds.every((one) => /^-?\d+$/.test(one)) ? ds.map(Number) : ds };
}
