// Reads a pasted or uploaded table: values alone, or times and values, with or without a header.

import { Problem } from "./engine/problem.js";
import { say } from "./words.js";

const COMMA = /^([-+]?\d+),(\d+)$/; // a number with a decimal comma

const number = (text) => (text === "" || /^(nan|na|null)$/i.test(text) ? null : Number(text));

/**
 * Return [{name, y, ds}], one for each series, sorted by time; ds is null if there are no times. With `columns`, a
 * model's lists of names, it also has the tables known and past; last rows without a value then are rows to forecast.
 */
export function parseSeries(text, columns = {}) {
  const { rows, heads } = readRows(text);
  const names = heads?.map((name) => name.toLowerCase());
  const column = (name) => names?.indexOf(name) ?? -1;
  const roles = ["known", "past"].filter((role) => columns[role]?.every((each) => column(each.toLowerCase()) >= 0));
  const more = roles.flatMap((role) => columns[role].map((each) => column(each.toLowerCase())));
  const who = column("unique_id");
  const { time, values } = findColumns(rows, names, [who, ...more]);
  const series = new Map();
  for (const { cells, line } of rows)
    for (const value of values) {
      const given = cells[value] ?? "";
      const y = number(given);
      if (Number.isNaN(y)) throw refuse(line, given);
      const own = values.length > 1 ? (heads?.[value] ?? String(value + 1)) : "";
      const name = [who < 0 ? "" : cells[who], own].filter(Boolean).join(" ");
      if (!series.has(name)) series.set(name, { name, y: [], ds: time < 0 ? null : [] });
      const one = series.get(name);
      one.y.push(y);
      if (time >= 0) one.ds.push(cells[time] ?? "");
      for (const role of roles)
        (one[role] ??= []).push(columns[role].map((each) => number(cells[column(each.toLowerCase())] ?? "")));
    }
  for (const one of series.values()) {
    if (one.ds?.every((each) => /^-?\d+$/.test(each))) one.ds = one.ds.map(Number);
    sortByTime(one);
    if (columns.known?.length) cutFuture(one);
  }
  return [...series.values()];
}

/** The rows of a table as lists of cells, each with the number of its line, and its header, if it has one. */
function readRows(text) {
  const lines = text.replace(/^\ufeff/, "").split(/\r?\n/);
  const first = lines.find((line) => line.trim());
  if (first === undefined) throw new Problem(say("Paste some values first, one per line."));
  const mark = first.includes("\t") ? "\t" : first.includes(";") ? ";" : ",";
  const cell = new RegExp(`(?<=^|${mark})\\s*("[^"]*"|[^${mark}]*)`, "g");
  const read = (line) => {
    const cells = [...line.matchAll(cell)].map(([, one]) => one.trim().replace(/^"(.*)"$/, "$1"));
    return mark === "," ? cells : cells.map((one) => one.replace(COMMA, "$1.$2"));
  };
  const all = lines.map((line, place) => ({ cells: read(line), line: place + 1 }));
  let rows = all.filter((_, place) => lines[place].trim());
  if (rows.length === 1 && rows[0].cells.length > 2)
    rows = rows[0].cells.map((one) => ({ cells: [one], line: rows[0].line })); // values side by side
  if (rows.length < 2 || !Number.isNaN(number(rows[0].cells.at(-1)))) return { rows, heads: null };
  const [{ cells: heads }, ...rest] = rows;
  for (const { cells, line } of rest) {
    const end = cells.slice(heads.length - 1).join();
    if (cells.length === heads.length + 1 && COMMA.test(end)) throw refuse(line, end);
  }
  return { rows: rest, heads };
}

function refuse(line, text) {
  const better = text.replace(COMMA, "$1.$2");
  if (better === text) return new Problem(say("Line {line} has “{text}” where a number should be.", { line, text }));
  return new Problem(say("Line {line} has “{text}”; write a decimal point: {better}.", { line, text, better }));
}

/** The column of the times, or -1, and those of values; without one named y, every column of numbers is a series. */
function findColumns(rows, names, taken) {
  const places = rows[0].cells.map((_, place) => place).filter((place) => !taken.includes(place));
  const y = names?.indexOf("y") ?? -1;
  let time = names?.indexOf("ds") ?? -1;
  const begin = rows.map(({ cells }) => cells[places[0]]);
  if (time < 0 && places.length > 1 && places[0] !== y && isTime(begin, y < 0 && places.length > 2)) time = places[0];
  if (y >= 0) return { time, values: [y] };
  const others = places.filter((place) => place !== time);
  const full = others.filter((place) => rows.some(({ cells }) => Number.isFinite(number(cells[place] ?? "") ?? NaN)));
  return { time, values: full.length ? full : others.slice(-1) };
}

/** Whether a first column has times: texts, or whole numbers that all differ, and of a wide table are in order. */
function isTime(cells, wide) {
  const found = cells.map(Number);
  if (found.some(Number.isNaN)) return true;
  return found.every(Number.isInteger) && (wide ? isSorted(found) : new Set(found).size === found.length);
}

function isSorted(keys) {
  const signs = new Set(keys.slice(1).map((key, place) => Math.sign(key - keys[place])));
  return signs.size < 2 && !signs.has(0);
}

/** Sort the rows of a series by time, if its times can be read here. */
function sortByTime(one) {
  const keys = one.ds && timeKeys(one.ds);
  if (!keys) return;
  const order = keys.map((_, place) => place).sort((a, b) => (keys[a] < keys[b] ? -1 : Number(keys[a] > keys[b])));
  for (const name of ["y", "ds", "known", "past"]) if (one[name]) one[name] = order.map((place) => one[name][place]);
}

/** What times are sorted by: numbers and dates that begin with the year as they are; others may have the day first. */
function timeKeys(ds) {
  if (ds.every((each) => typeof each === "number" || /^\d{4}/.test(each))) return ds;
  const swapped = ds.map((each) => each.replace(/^(\d{1,2})[./-](\d{1,2})[./-](\d+)/, "$2/$1/$3"));
  const readings = ds[0].includes(".") ? [swapped] : [ds, swapped];
  const keys = readings.map((all) => all.map((each) => Date.parse(`${each} UTC`)));
  const valid = keys.filter((all) => !all.some(Number.isNaN));
  return valid.find(isSorted) ?? valid[0];
}

/** Take the rows to forecast from the values of a series; its known columns keep them. */
function cutFuture(one) {
  const end = one.y.findLastIndex((value) => value !== null) + 1;
  for (const name of ["y", "ds", "past"]) if (one[name]) one[name] = one[name].slice(0, end);
}
