// Reads dates as Python does: in ISO form, in the one order of day, month and year that fits, or in a given format.

import { inferFrequency, places, quoted } from "./panel.js";
import { Problem } from "./problem.js";

const YEARS = [1678, 2261]; // those that nanoseconds in 64 bits cover
const whole = (...parts) => new RegExp(`^${parts.map((part) => part.source).join("")}$`, "s");
const ISO = whole(
  /(\d{4})(?:-(\d\d)-(\d\d)|(\d\d)(\d\d)|-?W(\d\d)(?:-?(\d))?)/,
  /(?:.(\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d+))?)?)?(Z|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?)?/,
);
const PARTS = whole(
  /(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})/,
  /(?:[ T]+(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)? ?([AaPp][Mm])?)?/,
);
const NAMED = whole(
  /(?:(\d{1,2})[ -]([A-Za-z]{3,9})\.?(?:,? |-)|([A-Za-z]{3,9})\.?(?: (\d{1,2}),? |[ -]))(\d{4})/,
  /(?:,?[ T](\d{1,2}):(\d\d)(?::(\d\d))?)?/,
);
const MONTHS = "january february march april may june july august september october november december".split(" ");
const ORDERS = { dmy: "%d{0}%m{0}%Y", mdy: "%m{0}%d{0}%Y", ymd: "%Y{0}%m{0}%d" };
const WORDS = { dmy: "day first", mdy: "month first", ymd: "year first" };
const CENTURY = 69; // two-digit years from here on belong to the 20th century

// Microseconds since 1970, or null for a date or time that does not exist.
function moment(year, month, day, hour = 0, minute = 0, second = 0, fraction = "") {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  const exists = year > 0 && date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
  if (!exists || hour > 23 || minute > 59 || second > 59) return null;
  date.setUTCHours(hour, minute, second);
  return date.getTime() * 1000 + Number((fraction ?? "").padEnd(6, "0").slice(0, 6));
}

function readMonth(word) {
  const lower = word.toLowerCase();
  return lower === "sept" ? 9 : MONTHS.findIndex((name) => lower === name || lower === name.slice(0, 3)) + 1;
}

function readIso(text) {
  const found = ISO.exec(text);
  if (!found) return null;
  const number = (place) => Number(found[place] ?? 0);
  let date = [number(1), number(2) || number(4), number(3) || number(5)];
  if (found[6]) {
    const fourth = new Date(Date.UTC(number(1), 0, 4)); // always in week 1
    const monday = fourth.getTime() / 864e5 - ((fourth.getUTCDay() + 6) % 7);
    const weekday = number(7) || 1;
    if (number(6) < 1 || number(6) > 53 || weekday > 7) return null;
    const day = new Date((monday + 7 * (number(6) - 1) + weekday - 1) * 864e5);
    date = [day.getUTCFullYear(), day.getUTCMonth() + 1, day.getUTCDate()];
  }
  const time = moment(...date, number(8), number(9), number(10), found[11]);
  if (time === null || !found[12] || found[12] === "Z") return time;
  const [hours, minutes, seconds] = found[12].match(/\d\d/g).map(Number);
  const away = (hours * 3600 + (minutes ?? 0) * 60 + (seconds ?? 0)) * 1e6;
  return found[12][0] === "-" ? time + away : time - away;
}

function readOrder(text, order) {
  const found = PARTS.exec(text.trim());
  if (!found) return null;
  const parts = { [order[0]]: found[1], [order[1]]: found[3], [order[2]]: found[4] };
  if (![2, 4].includes(parts.y.length) || parts.d.length > 2 || parts.m.length > 2) return null;
  let year = Number(parts.y);
  if (parts.y.length === 2) year += year >= CENTURY ? 1900 : 2000;
  let hour = Number(found[5] ?? 0);
  if (found[9]) {
    if (hour < 1 || hour > 12) return null;
    hour = (hour % 12) + (found[9].toLowerCase() === "pm" ? 12 : 0);
  }
  return moment(year, Number(parts.m), Number(parts.d), hour, Number(found[6] ?? 0), Number(found[7] ?? 0), found[8]);
}

function readNamed(text) {
  const found = NAMED.exec(text.trim());
  if (!found) return null;
  const day = Number(found[1] ?? found[4] ?? 1);
  const clock = [found[6], found[7], found[8]].map((part) => Number(part ?? 0));
  return moment(Number(found[5]), readMonth(found[2] ?? found[3]), day, ...clock);
}

// A reader of dates in a format of strptime.
function formatReader(format) {
  const directives = {
    Y: "\\d{4}", y: "\\d{2}", m: "\\d{1,2}", d: "\\d{1,2}", H: "\\d{1,2}", I: "\\d{1,2}", M: "\\d{1,2}",
    S: "\\d{1,2}", f: "\\d{1,6}", p: "[AaPp][Mm]", b: "[A-Za-z]{3,9}", B: "[A-Za-z]{3,9}", j: "\\d{1,3}",
  }; // prettier-ignore
  const names = [];
  const pattern = format.replace(/%(.?)|([\\^$.*+?()[\]{}|])|\s+/gs, (whole, name, mark) => {
    if (mark) return `\\${mark}`;
    if (name === undefined) return "\\s+";
    if (name === "%") return "%";
    const wider = { T: "HMS", F: "Ymd" }[name];
    if (!wider && !directives[name]) {
      const problem = `and this page cannot read %${name}; write it like %d.%m.%Y`;
      throw new Problem(`date_format: is ${quoted(format)}, ${problem}`);
    }
    names.push(...(wider ?? name));
    return [...(wider ?? name)].map((each) => `(${directives[each]})`).join(name === "T" ? ":" : "-");
  });
  if (!names.includes("Y") && !names.includes("y"))
    throw new Problem(`date_format: is ${quoted(format)}, which has no year; add %Y, as in %d.%m.%Y`);
  const reader = new RegExp(`^${pattern}$`, "i");
  return (text) => {
    const found = reader.exec(text.trim());
    if (!found) return null;
    const given = Object.fromEntries(names.map((name, place) => [name, found[place + 1]]));
    const number = (name, otherwise) => (given[name] === undefined ? otherwise : Number(given[name]));
    const short = number("y");
    const year = number("Y", short === undefined ? 0 : short + (short >= CENTURY ? 1900 : 2000));
    let hour = number("H", 0);
    if (given.I !== undefined) {
      if (number("I") < 1 || number("I") > 12) return null;
      hour = (number("I") % 12) + (given.p?.toLowerCase() === "pm" ? 12 : 0);
    }
    const word = given.b ?? given.B;
    const month = word === undefined ? number("m", 1) : readMonth(word);
    const time = moment(year, month, number("d", 1), hour, number("M", 0), number("S", 0), given.f);
    return time === null || given.j === undefined ? time : time + (number("j") - 1) * 864e8;
  };
}

// The only order that fits all dates [{series, text}] of a column: a key of ORDERS, "named", or null for ISO.
function settleOrder(cells) {
  const dates = cells.filter(({ text }) => Object.keys(ORDERS).some((order) => readOrder(text, order) !== null));
  if (!dates.length) return cells.some(({ text }) => readNamed(text) !== null) ? "named" : null;
  let left = Object.keys(ORDERS);
  let settled = dates[0];
  for (const cell of dates) {
    const fitting = left.filter((order) => readOrder(cell.text, order) !== null);
    if (!fitting.length) {
      const problem = `which cannot be read in the same way as ${quoted(settled.text)}`;
      throw new Problem(`ds: has the date ${quoted(cell.text)}, ${problem}; write all dates in one form`);
    }
    if (fitting.length < left.length) [left, settled] = [fitting, cell];
  }
  const dotted = dates.every(({ text }) => text.trim().split(/\s+/)[0].includes("."));
  if (left.length > 1 && left.includes("dmy") && dotted) left = ["dmy"];
  const regular = left.length === 1 ? left : left.filter((order) => isRegular(dates, order));
  if (regular.length === 1) return regular[0];
  const mark = dates[0].text.trim().replace(/^\d+/, "")[0];
  const formats = left.map((order) => ORDERS[order].replaceAll("{0}", mark)).join(" or ");
  const readings = left.map((order) => WORDS[order]).join(" or ");
  const problem = `and its dates can be read ${readings}; give date_format, ${formats}`;
  throw new Problem(`ds: has the date ${quoted(dates[0].text)}, ${problem}`);
}

// Whether, in this order, every series has equal steps, and at least one has two or more.
function isRegular(dates, order) {
  const series = new Map();
  for (const { series: name, text } of dates) {
    const time = readOrder(text, order);
    if (time === null || !isKnown(time)) return false;
    series.set(name, [...(series.get(name) ?? []), time]);
  }
  const times = [...series.values()].filter((ds) => ds.length > 1);
  const grows = (ds) => ds.every((time, place) => !place || time > ds[place - 1]);
  if (Math.max(0, ...times.map((ds) => ds.length)) < 3 || !times.every(grows)) return false;
  try {
    const frequency = inferFrequency(times, true);
    return times.every((ds) => places(frequency, ds).every((place, row, all) => !row || place - all[row - 1] === 1));
  } catch (error) {
    if (error instanceof Problem) return false;
    throw error;
  }
}

function isKnown(time) {
  const year = new Date(time / 1000).getUTCFullYear();
  return YEARS[0] <= year && year <= YEARS[1];
}

// A function (series, text) -> time for the dates [{series, text}] of a request.
export function dateReader(cells, format) {
  let [read, wanted] = [readIso, ""];
  if (format) {
    [read, wanted] = [formatReader(format), ` a date in the format ${quoted(format)}`];
  } else if (cells.length && readIso(cells[0].text) === null) {
    const order = settleOrder(cells);
    if (order === "named")
      [read, wanted] = [readNamed, " a date with the English name of its month, like the others in its column"];
    else if (order)
      [read, wanted] = [
        (text) => readOrder(text, order),
        ` a date with the ${WORDS[order]}, like the others in its column`,
      ];
  }
  return (series, text) => {
    const time = read(text);
    const where = `series ${quoted(series)} has the time`;
    if (time === null) throw new Problem(`${where} ${quoted(text.slice(0, 40))}, which is not${wanted || " a date"}`);
    if (!isKnown(time)) throw new Problem(`${where} ${text}; its year must be from ${YEARS[0]} to ${YEARS[1]}`);
    return time;
  };
}
