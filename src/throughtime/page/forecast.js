// A forecast with its intervals, which look like a fan, after the model's own data, pasted data or a file.

import { parseSeries } from "./csv.js";
import { copyButton, decimal, draw, make, numberField, textWidth, within } from "./dom.js";
import { Problem } from "./engine/problem.js";
import { Section } from "./section.js";
import { say } from "./words.js";

const LEVELS = [50, 80, 95];
const HEIGHT = 320;
const MAX_BYTES = 5e6;
const MAX_STEPS = 2000;
const GAP = 8;
const withoutData = new Set(); // names of models whose own data are not available
const EDGE = { left: 56, right: 14, top: 14, bottom: 30 };

export function forecastSection(models) {
  const section = new Section(
    "forecast",
    say("Forecast a series"),
    say("Paste a series as CSV (values alone, or times and values), or drop a file on the box."),
    models,
  );
  section.element.classList.add("split");
  const box = make("textarea", {
    rows: 6,
    spellcheck: "false",
    class: "table",
    placeholder: "ds,y\n2024-01-01,112\n2024-01-02,118",
  });
  const steps = numberField(say("steps ahead"), { min: 1, max: MAX_STEPS, inputmode: "numeric" });
  const which = make("select", { "data-shared": true });
  const whichField = make("label", { hidden: true }, say("series"), which);
  const file = make("input", { type: "file", accept: ".csv,.tsv,.txt,text/csv", class: "unseen", tabindex: -1 });
  file.setAttribute("aria-label", say("Open a CSV file"));
  const upload = make("button", { type: "button", onclick: () => file.click() }, say("Open a CSV file"));
  const own = make("button", { type: "button" }, say("The model's own data"));
  const place = make("label", { class: "box" }, make("span", {}, say("Series as CSV")), box);
  const invented = make("p", { class: "hint", hidden: true }, say("A made-up series; paste your own."));
  const tellInvented = () => {
    invented.hidden = box.value !== exampleSeries(section.model);
  };
  box.addEventListener("input", tellInvented);
  const form = make(
    "form",
    {},
    place,
    invented,
    make(
      "div",
      { class: "row" },
      make("button", { type: "submit", class: "main" }, say("Forecast")),
      upload,
      own,
      file,
      whichField,
      steps.label,
    ),
  );
  section.controls.append(form);

  function forecast() {
    let series;
    tellInvented();
    try {
      series = choose(parseSeries(box.value, section.model));
    } catch (error) {
      return section.tell(error);
    }
    const { name, y, ds, ...columns } = series;
    const h = steps.read() ?? section.model.horizon;
    steps.input.value = String(h);
    const body = {
      h,
      series: [{ unique_id: name || "series", y, ...(ds ? { ds } : {}), ...columns }],
    };
    return withFan(section, body, (answer, note) => show(section, series, answer.forecasts[0], note));
  }
  /** The series that is chosen; the choice is there if the table has several. */
  function choose(all) {
    const names = all.map((one) => one.name);
    if (names.join() !== [...which.options].map((one) => one.value).join())
      which.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
    whichField.hidden = all.length < 2;
    return all[Math.max(0, which.selectedIndex)];
  }
  function history() {
    const { known = [], past = [], horizon, lookback } = section.model;
    const held = known.length ? horizon : 0; // rows whose values are left out, as their columns are known
    return section.ask("inspect/history", { rows: Math.max(160, lookback + held) }, (answer) => {
      const end = answer.y.length - held;
      const cell = (value) => (value === null ? "" : Number(value.toPrecision(7)));
      const line = (value, at) => {
        const columns = [...(answer.known?.[at] ?? []), ...(answer.past?.[at] ?? [])];
        return [answer.ds[at], ...[at < end ? value : null, ...columns].map(cell)];
      };
      box.value = [["ds", "y", ...known, ...past], ...answer.y.map(line)].map((row) => row.join()).join("\n");
      section.drawings = {};
    });
  }
  async function read(chosen) {
    if (!chosen) return;
    if (chosen.size > MAX_BYTES) {
      section.tell(new Problem(say("{name} has more than 5 MB; open a smaller file.", { name: chosen.name })));
      return;
    }
    box.value = await chosen.text();
    form.requestSubmit();
  }
  file.addEventListener("change", async () => {
    await read(file.files[0]);
    file.value = ""; // so that the same file can be opened again
  });
  for (const kind of ["dragenter", "dragover", "dragleave", "drop"])
    place.addEventListener(kind, (event) => {
      if (![...event.dataTransfer.types].includes("Files")) return;
      event.preventDefault();
      place.classList.toggle("over", kind === "dragenter" || kind === "dragover");
      if (kind === "drop") read(event.dataTransfer.files[0]);
    });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    forecast();
  });
  which.addEventListener("change", () => form.requestSubmit());
  own.addEventListener("click", async () => {
    await history();
    if (!section.problem.textContent) form.requestSubmit();
  });
  const fit = () => {
    steps.input.max = String(section.model.max_h ?? MAX_STEPS);
    steps.input.value = String(section.model.horizon);
    own.hidden = withoutData.has(section.model.name);
  };
  fit();
  section.onModel(() => {
    fit();
    section.begin();
  });
  section.begin = async () => {
    if (!box.value) await history();
    if (!box.value) {
      box.value = exampleSeries(section.model);
      withoutData.add(section.model.name);
      own.hidden = true;
    }
    form.requestSubmit();
  };
  return section;
}

/** A series with a season and a trend, for a model whose own data are not available. */
function exampleSeries({ lookback }) {
  const rows = Array.from({ length: Math.max(96, lookback) }, (_, row) =>
    (100 + 0.2 * row + 12 * Math.sin((row * Math.PI) / 6) + 3 * Math.cos(row * 1.7)).toFixed(1),
  );
  return ["y", ...rows].join("\n");
}

/** Ask for intervals; a model without them is asked again without, and the reason stands below the picture. */
async function withFan(section, body, show) {
  await section.ask("forecast", { ...body, level: LEVELS }, (answer) => show(answer, ""));
  const reason = section.problem.textContent;
  if (/interval/.test(reason)) await section.ask("forecast", body, (answer) => show(answer, reason));
}

function show(section, series, answer, note) {
  const room = Math.max(280, section.view.clientWidth - 4);
  const tail = Math.max(3 * answer.mean.length, room < 500 ? 24 : 48);
  const past = series.y.slice(-tail);
  const times = [...(series.ds ?? series.y.map((_, place) => place)).slice(-tail), ...answer.ds];
  const fan = Object.entries(answer.intervals).map(([level, ends]) => ({ level: Number(level), ...ends }));
  fan.sort((one, other) => other.level - one.level);
  const readout = make(
    "p",
    { class: "readout", "aria-live": "polite" },
    note || say("Point at the picture to read values; with the keyboard, use the arrow keys."),
  );
  section.view.replaceChildren(
    drawChart(room, past, answer.mean, fan, times, readout),
    make(
      "p",
      { class: "legend" },
      make("span", { class: "key kept" }, say("observed")),
      make("span", { class: "key best" }, say("forecast")),
      fan.toReversed().map(({ level }) => make("span", { class: `key fan fan-${level}` }, `${level} %`)),
      copyButton(() => table(answer, fan)),
    ),
    readout,
  );
}

/** The forecast as CSV. */
function table({ ds, mean }, fan) {
  const bounds = fan.flatMap(({ level, lo, hi }) => [
    [`lo-${level}`, lo],
    [`hi-${level}`, hi],
  ]);
  const columns = [["ds", ds], ["mean", mean], ...bounds];
  const rows = mean.map((_, step) => columns.map(([, values]) => values[step] ?? "").join(","));
  return [columns.map(([name]) => name).join(","), ...rows].join("\n");
}

function drawChart(width, past, mean, fan, times, readout) {
  const values = [...past, ...mean, ...fan.flatMap(({ lo, hi }) => [...lo, ...hi])].filter(
    (value) => value !== null,
  );
  const most = Math.max(...values.map(Math.abs));
  let low = Math.min(...values);
  let high = Math.max(...values);
  if (high - low < 1e-6 * most) low = high; // float32 knows no more digits
  const pad = (high - low || most || 1) * 0.06;
  const count = past.length + mean.length;
  const widths = fan.flatMap(({ lo, hi }) => hi.map((value, step) => value - lo[step])).filter((one) => one > 0);
  const finest = Math.min((high - low || most || 1) / 100, ...widths.map((one) => one / 2));
  const digits = digitsOf(Math.max(finest, 1e-6 * most)); // the ends of each interval look different
  const tell = (value) => decimal(value, digits);
  const axis = ticksOf(low, high);
  const labels = axis.ticks.map((value) => decimal(value, axis.digits ?? digits));
  const left = Math.max(EDGE.left, ...labels.map((label) => textWidth(label) + 14));
  const x = (place) => left + ((width - left - EDGE.right) * place) / Math.max(1, count - 1);
  const y = (value) =>
    EDGE.top + ((HEIGHT - EDGE.top - EDGE.bottom) * (high + pad - value)) / (high - low + 2 * pad);
  const bands = fan.map(({ level, lo, hi }) => {
    const upper = hi.map((value, step) => [x(past.length + step), y(value ?? 0)]);
    const lower = lo.map((value, step) => [x(past.length + step), y(value ?? 0)]).reverse();
    const origin = past.at(-1) === null ? [] : [[x(past.length - 1), y(past.at(-1))]];
    return draw("path", {
      class: `fan fan-${level}`,
      d: `M${[...origin, ...upper, ...lower].map((point) => point.map((one) => one.toFixed(1)).join(" ")).join("L")}Z`,
    });
  });
  const ticks = axis.ticks.map((value, place) =>
    draw(
      "g",
      {},
      draw("line", { class: "grid", x1: left, x2: width - EDGE.right, y1: y(value), y2: y(value) }),
      draw("text", { class: "axis end", x: left - 8, y: y(value) + 4 }, labels[place]),
    ),
  );
  const marks = selectApart([
    { text: String(times[0]), at: x(0), anchor: "start" },
    { text: String(times[count - 1]), at: x(count - 1), anchor: "end" },
    { text: String(times[past.length - 1]), at: x(past.length - 1), anchor: "middle" },
  ]).map(({ text, at, anchor }) => draw("text", { class: `axis ${anchor}`, x: at, y: HEIGHT - 8 }, text));
  const cursor = draw("line", {
    class: "cursor",
    y1: EDGE.top,
    y2: HEIGHT - EDGE.bottom,
    visibility: "hidden",
  });
  const line = [...past.slice(-1), ...mean];
  const svg = draw(
    "svg",
    {
      viewBox: `0 0 ${width} ${HEIGHT}`,
      width,
      height: HEIGHT,
      class: "chart",
      tabindex: 0,
      role: "img",
      "aria-label": say("A series of {count} values and a forecast of {steps} after it", {
        count: past.length,
        steps: mean.length,
      }),
    },
    ticks,
    bands,
    draw("path", { class: "line observed", d: lineOf(past, x, y, 0) }),
    draw("path", { class: "line forecast", d: lineOf(line, x, y, past.length - 1) }),
    marks,
    cursor,
  );
  let at = past.length;
  function point(place) {
    at = within(place, 0, count - 1);
    cursor.setAttribute("visibility", "visible");
    cursor.setAttribute("x1", String(x(at)));
    cursor.setAttribute("x2", String(x(at)));
    const step = at - past.length;
    const bounds = fan
      .toReversed()
      .map(({ level, lo, hi }) =>
        say("{level} % within {low} and {high}", { level, low: tell(lo[step]), high: tell(hi[step]) }),
      );
    const time = times[at];
    readout.textContent =
      step < 0
        ? say("{time}: observed {value}", { time, value: tell(past[at]) })
        : [say("{time}: forecast {value}", { time, value: tell(mean[step]) }), ...bounds].join("; ");
  }
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const inner = ((event.clientX - box.left) / box.width) * width - left;
    point(Math.round((inner / (width - left - EDGE.right)) * (count - 1)));
  });
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    point(at + move);
  });
  return svg;
}

/** Marks of an axis without those that would touch an earlier one. */
function selectApart(marks) {
  const labels = [];
  for (const mark of marks) {
    const wide = textWidth(mark.text);
    const left = mark.at - wide * { start: 0, middle: 0.5, end: 1 }[mark.anchor];
    if (labels.every((other) => left > other.right + GAP || left + wide < other.left - GAP))
      labels.push({ ...mark, left, right: left + wide });
  }
  return labels;
}

function lineOf(values, x, y, first) {
  let pen = "M";
  return values
    .map((value, place) => {
      if (value === null) {
        pen = "M";
        return "";
      }
      const point = `${pen}${x(first + place).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
      return point;
    })
    .join("");
}

/** How many decimals show a number of this size. */
const digitsOf = (size) => within(-Math.floor(Math.log10(size) + 1e-9), 0, 20);

/** Four or five round numbers between two, and their decimals; of equal numbers, the one. */
function ticksOf(low, high) {
  if (low === high) return { ticks: [low] };
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((one) => one * power >= rough) * power;
  const ticks = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step)
    ticks.push(Math.abs(value) < step * 1e-9 ? 0 : Number(value.toPrecision(12)));
  return { ticks, digits: digitsOf(step) };
}
