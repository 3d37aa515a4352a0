// A matrix of coloured cells on a canvas, with labels of any script; cells are chosen by mouse, touch or arrow keys.

import { scale } from "./colours.js";
import { make, within } from "./dom.js";
import { scroller } from "./scroller.js";

const SIZE = 13;
const EDGE = 4; // pixels around the picture, for the frame of a focused or chosen cell
const WIDEST = 160; // pixels of a cell
const TILT = (50 * Math.PI) / 180;
const MAX_PIXELS = 16000; // pixels of a canvas, the limit of some browsers
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

// What is painted with the colours of the theme is painted again when the theme changes.
addEventListener("theme", () => {
  for (const one of document.querySelectorAll(".painted")) one.paint();
});

const pen = document.createElement("canvas").getContext("2d");

/** The width of a text in pixels, as it will be drawn. */
export function measure(text, size = SIZE, weight = 400) {
  pen.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

/** A text that is cut, with an ellipsis, where it would be wider than `room` pixels. */
export function shorten(text, room, size = SIZE, weight = 400) {
  if (measure(text, size, weight) <= room) return text;
  const letters = [...text];
  let low = 0;
  let high = letters.length;
  while (low < high) {
    const half = Math.ceil((low + high) / 2);
    if (measure(`${letters.slice(0, half).join("")}…`, size, weight) <= room) low = half;
    else high = half - 1;
  }
  return `${letters.slice(0, low).join("")}…`;
}

/** A text that keeps its direction inside a sentence of another one: with marks that are not seen. */
export const isolate = (text) => (RIGHT_TO_LEFT.test(text) ? `\u2068${text}\u2069` : text);

/** Whether words are read from right to left: most of them are in Arabic, Hebrew and the like. */
export const fromRight = (words) =>
  2 * words.filter((word) => RIGHT_TO_LEFT.test(word)).length > words.filter((word) => /\p{L}/u.test(word)).length;

/**
 * A matrix of `values` [rows][columns], which are drawn by value / `most` in the colours of a `kind`.
 *
 * `rows` and `columns` are labels; `write` gives the text in a cell, or null. `onPoint(row, column, chosen)` is
 * called for the cell under the mouse, and with `chosen` for the one that was clicked or reached by arrow keys.
 */
export function matrix({ name, rows, columns, values, kind = "open", most = 1, high = 28, write = null, onPoint }) {
  const canvas = make("canvas", { class: "painted", "aria-hidden": "true" });
  const band = make("div", { class: "band", hidden: true });
  const cursor = make("div", { class: "cursor-box", hidden: true });
  const plane = make(
    "div",
    { class: "matrix", tabindex: 0, role: "application", "aria-label": name },
    canvas,
    band,
    cursor,
  );
  const { element, update } = scroller(plane, name);
  const mirrored = fromRight(columns);
  let grid = { left: 0, top: 0, wide: 1 };
  let at = [0, 0];
  let drawn = 0;

  /** Sizes for this many pixels of width; every label is measured. */
  function layOut(room) {
    const rowWidth = Math.max(0, ...rows.map((label) => measure(label)));
    const left = Math.ceil(Math.min(rowWidth, Math.max(64, 0.36 * room))) + 10;
    const widths = columns.map((label) => Math.min(measure(label), 150));
    const even = (room - left - 4) / columns.length;
    const flat = Math.max(...widths) + 8 <= Math.min(even, WIDEST);
    const reach = flat ? 0 : Math.max(...widths) * Math.sin(TILT);
    const top = flat ? 26 : Math.ceil(reach + 20);
    const beyond = (wide) =>
      flat
        ? 2
        : Math.max(2, ...widths.map((each, i) => each * Math.cos(TILT) + 8 - (columns.length - place(i) - 0.5) * wide));
    let wide = within(even, 16, WIDEST);
    // The last labels may lean over the right edge: the cells make room for them.
    for (let turn = 0; turn < 3; turn += 1) wide = within((room - left - beyond(wide)) / columns.length, 16, WIDEST);
    return {
      left,
      top,
      wide,
      flat,
      width: left + wide * columns.length + beyond(wide),
      height: top + high * rows.length + 2,
    };
  }
  const place = (column) => (mirrored ? columns.length - 1 - column : column);

  function paint() {
    const room = element.clientWidth;
    if (!room) return;
    grid = layOut(room - 2 * EDGE);
    const { left, top, wide, flat, width, height } = grid;
    const look = getComputedStyle(plane);
    const ratio = Math.min(devicePixelRatio || 1, MAX_PIXELS / width, MAX_PIXELS / height);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = plane.style.width = `${width}px`;
    canvas.style.height = plane.style.height = `${height}px`;
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    ctx.font = `${SIZE}px ${look.fontFamily}`;
    ctx.textBaseline = "middle";
    ctx.fillStyle = look.color;
    const colour = scale(kind);
    columns.forEach((label, column) => {
      ctx.save();
      ctx.translate(left + wide * (place(column) + 0.5), flat ? 13 : top - 10);
      ctx.textAlign = flat ? "center" : "left";
      if (!flat) ctx.rotate(-TILT);
      ctx.fillText(shorten(label, 150), 0, 0);
      ctx.restore();
    });
    ctx.textAlign = "right";
    rows.forEach((label, row) => {
      if (label) ctx.fillText(shorten(label, left - 10), left - 8, top + high * (row + 0.5) + 0.5);
    });
    const gap = high < 14 || wide < 18 ? 0 : 1;
    ctx.textAlign = "center";
    ctx.font = `12px ${look.fontFamily}`;
    values.forEach((own, row) => {
      const y = Math.round((top + high * row) * ratio) / ratio;
      const tall = Math.round((top + high * (row + 1)) * ratio) / ratio - y - gap;
      own.forEach((value, column) => {
        const { fill, ink } = colour(value / most);
        const x = Math.round((left + wide * place(column)) * ratio) / ratio;
        const across = Math.round((left + wide * (place(column) + 1)) * ratio) / ratio - x - gap;
        ctx.fillStyle = fill;
        ctx.fillRect(x, y, across, tall);
        const text = write && wide >= 22 && high >= 18 ? write(value) : null;
        if (text) {
          ctx.fillStyle = ink;
          ctx.fillText(text, x + across / 2, y + tall / 2 + 0.5);
        }
      });
    });
    drawn = room;
    mark();
    update();
  }
  canvas.paint = paint;

  let seen = null; // the cell with the cursor
  let lit = null; // the row with the band
  function mark() {
    cursor.hidden = seen === null;
    band.hidden = lit === null;
    if (seen) box(cursor, grid.left + grid.wide * place(seen[1]), seen[0], grid.wide);
    if (lit !== null) box(band, grid.left, lit, grid.wide * columns.length);
  }
  function box(one, x, row, wide) {
    Object.assign(one.style, {
      left: `${x}px`,
      top: `${grid.top + high * row}px`,
      width: `${wide}px`,
      height: `${high}px`,
    });
  }
  function cellAt(event) {
    const around = plane.getBoundingClientRect();
    const row = Math.floor((event.clientY - around.top - grid.top) / high);
    const column = place(Math.floor((event.clientX - around.left - grid.left) / grid.wide));
    const label = event.clientX - around.left < grid.left; // a label of a row counts as the row
    if (row < 0 || row >= rows.length || (!label && (column < 0 || column >= columns.length))) return null;
    return [row, label ? at[1] : column];
  }
  plane.addEventListener("pointermove", (event) => {
    const cell = cellAt(event);
    if (cell) onPoint(cell[0], cell[1], false);
  });
  plane.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (!cell) return;
    at = cell;
    onPoint(cell[0], cell[1], true);
  });
  plane.addEventListener("keydown", (event) => {
    const side = mirrored ? -1 : 1;
    const [last, end] = [rows.length - 1, columns.length - 1];
    const moves = {
      ArrowLeft: [at[0], at[1] - side],
      ArrowRight: [at[0], at[1] + side],
      ArrowUp: [at[0] - 1, at[1]],
      ArrowDown: [at[0] + 1, at[1]],
      Home: [at[0], 0],
      End: [at[0], end],
      PageUp: [0, at[1]],
      PageDown: [last, at[1]],
    };
    const move = moves[event.key];
    if (!move || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    at = [within(move[0], 0, last), within(move[1], 0, end)];
    onPoint(at[0], at[1], true);
    cursor.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  new ResizeObserver(() => {
    if (Math.abs(element.clientWidth - drawn) > 1) paint();
  }).observe(element);

  return {
    element,
    paint,
    /** Where the arrow keys go on from. */
    from(row, column) {
      at = [row, column];
    },
    /** Put the cursor on a cell, and the band on a row; null takes them away. */
    show(cell, row = null) {
      seen = cell;
      lit = row;
      mark();
    },
  };
}
