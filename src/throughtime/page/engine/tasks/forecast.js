// Forecasts the next rows of series, with intervals: the paths "forecast" and "inspect/history".

import { openDistribution } from "../distribution.js";
import { uniform, wholeSeed } from "../draws.js";
import { readPanel, scaledColumns } from "../histories.js";
import { addIntervals, requiredQuantiles } from "../intervals.js";
import { calendarColumns, commas, formatTimes, quoted, stepName, timesAfter } from "../panel.js";
import { Problem } from "../problem.js";
import { describeOutliers, outlierLimit, removeOutliers } from "../outliers.js";
import { applyPower, fillGaps, fitScale, quantileOf, undoPower } from "../scaling.js";
import { takeRows, tensor } from "../tensor.js";

const ROWS_AT_ONCE = 1024; // series, or paths of some series, that go through the model together

export function openForecast(model) {
  const forecaster = new Forecaster(model);
  return {
    forecast: (body, context) => forecaster.answer(body, context),
    "inspect/history": (body) => lastRows(model, body),
  };
}

function lastRows(model, { rows = 200 }) {
  const { history } = model.settings;
  if (!history) throw new Problem(`the training data of ${model.name} are not available; paste some data`);
  const cut = (value) => (Array.isArray(value) ? value.slice(-rows) : value);
  const last = Object.entries(history).map(([name, value]) => [name, cut(value)]);
  return { model: model.name, ...Object.fromEntries(last) };
}

class Forecaster {
  constructor(model) {
    Object.assign(this, { model, settings: model.settings });
    this.head = openDistribution(model.settings.distribution);
  }

  async answer(body, context) {
    const { settings } = this;
    const levels = readLevels(body.level ?? []);
    const ends = new Map(levels.map((level) => [level, [0.5 - level / 200, 0.5 + level / 200].map(tenDigits)]));
    const probabilities = [...new Set([...ends.values()].flat())].sort((one, other) => one - other);
    const h = body.h ?? settings.horizon;
    if (!Number.isInteger(h) || h < 1) throw new Problem(`h: is ${h}, expected a whole number of 1 or more`);
    const saved = settings.own_intervals ? null : settings.intervals;
    if (levels.length && !settings.own_intervals && !saved)
      throw new Problem(
        `level needs intervals, which ${this.model.name} does not have: measure them with ` +
          "`throughtime backtest RUN --save-intervals`, and export the model again",
      );
    const panel = readPanel(body, settings);
    this.check(panel);
    if (!settings.recursive && h > settings.horizon)
      throw new Problem(
        `h: is ${h}, but the model was trained for the next ${settings.horizon} rows at once; ask for fewer rows`,
      );
    const wanted = saved ? requiredQuantiles(saved, probabilities) : probabilities;
    let forecasts = await this.forecast(panel, h, wanted, context);
    if (saved && levels.length)
      forecasts = forecasts.map((one, place) =>
        addIntervals(saved, this.clean(panel.series[place], one.scale), one.scale, one, probabilities),
      );
    const limits = forecasts.map(({ scale }) => scale.limit);
    return {
      model: this.model.name,
      forecasts: forecasts.map((one, place) => {
        const series = panel.series[place];
        const bounds = ([lo, hi]) => ({ lo: one.quantiles.get(lo), hi: one.quantiles.get(hi) });
        return {
          unique_id: series.unique_id,
          ds: formatTimes(timesAfter(panel, series, h), panel.dated),
          mean: one.mean,
          intervals: Object.fromEntries([...ends].map(([level, pair]) => [String(level), bounds(pair)])),
        };
      }),
      notes: [...panel.notes, ...describeOutliers(panel, settings.known.length, settings.frequency, limits)],
    };
  }

  // Refuse series whose step is not that of training, and series that are too short.
  check(panel) {
    const { frequency, lookback, calendar } = this.settings;
    const steps = [stepName(panel.frequency), stepName(frequency)];
    const ends = [panel.frequency, frequency].map((one) => one?.month_end ?? false);
    const differs = steps[0] !== steps[1] || ends[0] !== ends[1] || (panel.frequency === null) !== (frequency === null);
    if (differs && panel.series.every((one) => one.ds.length > 1)) {
      const problem = `but these rows have dates (one every ${steps[0]}); leave the dates out`;
      if (frequency === null && panel.dated)
        throw new Problem(`data: the model was trained on numbered rows, ${problem}`);
      throw new Problem(`data: has steps of one ${steps[0]}, the model was trained on one ${steps[1]}`);
    }
    if (calendar && !panel.dated)
      throw new Problem("calendar: needs dates, but these series only have positions; give their dates in ds");
    for (const one of panel.series)
      if (one.y.length < lookback) {
        const problem = `has ${commas(one.y.length)} rows, but a forecast needs ${lookback}; give more rows`;
        throw new Problem(`series ${quoted(one.unique_id)}: ${problem}`);
      }
  }

  // A forecast {mean, quantiles: Map, scale} of each series of a panel.
  async forecast(panel, h, probabilities, context) {
    const { settings, head } = this;
    const asked = probabilities.length > 0 && head.probabilistic;
    const paths = asked && settings.recursive ? settings.paths : 0;
    const some = Math.max(1, Math.floor(ROWS_AT_ONCE / Math.max(1, paths)));
    const found = [];
    for (let first = 0; first < panel.series.length; first += some) {
      await context?.pause?.();
      const series = panel.series.slice(first, first + some);
      const scales = series.map((one) => this.scale(one));
      const window = this.window(panel, series, scales, h);
      let { mean, quantiles } = { mean: null, quantiles: [] };
      if (!settings.recursive) {
        const { outputs, offset, spread } = this.run(window, 0);
        const width = outputs.dims[2];
        const read = (value) => table(h, series.length, (row, one) => {
          const at = (row * series.length + one) * width;
          return value(outputs.data, at) * spread.data[one] + offset.data[one];
        }); // prettier-ignore
        mean = read(head.mean);
        if (asked) quantiles = probabilities.map((each) => read((data, at) => head.quantile(data, at, each)));
      } else {
        mean = await this.rollout(window, h, (data, at) => head.mean(data, at), context);
        if (paths) {
          const seed = wholeSeed(settings.seed);
          const draw = (data, at, step, row) =>
            head.draw(data, at, uniform(seed, step, first + Math.floor(row / paths), row % paths));
          const drawn = await this.rollout(window, h, draw, context, paths);
          quantiles = quantilesOfPaths(drawn, scales, paths, probabilities);
        }
      }
      series.forEach((one, place) => {
        const undo = (rows) => rows.map((row) => unscale(row[place], scales[place]));
        const own = new Map(quantiles.map((rows, number) => [probabilities[number], undo(rows)]));
        found.push({ mean: undo(mean), quantiles: own, scale: scales[place] });
      });
    }
    return found;
  }

  // The next `h` scaled values, row by row, of each series or of this many paths of each: [h][B].
  async rollout(given, h, choose, context, paths = 1) {
    const window = paths > 1 ? repeat(given, paths) : given;
    const rows = [];
    const pick = ({ data, dims }, step, width = dims.at(-1)) =>
      Float32Array.from({ length: window.batch }, (_, row) => choose(data, row * width, step, row));
    const restore = (chosen, { offset, spread }) =>
      chosen.map((value, row) => value * spread.data[row] + offset.data[row]);
    if (!this.settings.stateful) {
      let { values } = window;
      for (let step = 0; step < h; step += 1) {
        await context?.pause?.();
        const found = this.run({ ...window, values }, step);
        rows.push(restore(pick(found.outputs, step), found));
        const next = new Float32Array(values.length);
        next.set(values.subarray(window.batch));
        next.set(rows.at(-1), values.length - window.batch);
        values = next;
      }
      return rows;
    }
    const { lookback } = this.settings;
    const { model, step: stepGraph } = this.model.graphs;
    const names = numbered(model.outputs, "state");
    // All paths of a series begin with the same state.
    const read = this.inputs(model, { ...given, known: given.known.slice(1, lookback + 1) });
    const copies = Array.from({ length: window.batch }, (_, row) => Math.floor(row / paths));
    const once = Object.entries(model.run(read, ["outputs", "offset", "spread", ...names]));
    let found = Object.fromEntries(once.map(([name, value]) => [name, takeRows(value, copies)]));
    const level = found;
    let state = names.map((name) => found[name]);
    const nexts = numbered(stepGraph.outputs, "next");
    for (let step = 0; step < h; step += 1) {
      await context?.pause?.();
      const chosen = pick(found.outputs, step);
      rows.push(restore(chosen, level));
      if (step === h - 1) break;
      const next = { value: tensor("float32", [window.batch], chosen) };
      if (stepGraph.inputs.some(({ name }) => name === "known")) {
        const known = window.known[lookback + step + 1];
        next.known = tensor("float32", [window.batch, known.length / window.batch], known);
      }
      names.forEach((name, place) => (next[name] = state[place]));
      found = stepGraph.run(next, ["outputs", ...nexts]);
      state = nexts.map((name) => found[name]);
    }
    return rows;
  }

  // Run the graph on the window at a step.
  run(window, step) {
    const { lookback, rows } = this.settings;
    const known = window.known.slice(step, step + lookback + rows);
    const graph = this.model.graphs.model;
    return graph.run(this.inputs(graph, { ...window, known }), ["outputs", "offset", "spread"]);
  }

  inputs(graph, { batch, values, known, past, numbers }) {
    const columns = (rows) => {
      const data = new Float32Array(rows.length * rows[0].length);
      rows.forEach((row, place) => data.set(row, place * row.length));
      return tensor("float32", [rows.length, batch, rows[0].length / batch], data);
    };
    const make = {
      values: () => tensor("float32", [values.length / batch, batch], values),
      known: () => columns(known),
      past: () => columns(past),
      numbers: () => tensor("int64", [batch], numbers),
    };
    return Object.fromEntries(graph.inputs.map(({ name }) => [name, make[name]()]));
  }

  scale(series) {
    const { scales, scaling, transform, outliers, known: columns, frequency } = this.settings;
    const saved = Object.hasOwn(scales, series.unique_id) ? scales[series.unique_id] : null;
    if (saved) {
      const [centre, spread, power, low, limit] = saved;
      return { centre, spread, power: power ?? 1, low: low ?? -Infinity, limit: limit ?? Infinity };
    }
    const limit = outliers === "keep" ? Infinity : outlierLimit(series, columns.length, frequency);
    return { ...fitScale(series.unique_id, this.clean(series, { limit }).y, scaling, transform), limit };
  }

  // A series without its outliers.
  clean(series, { limit }) {
    const { known, frequency } = this.settings;
    return removeOutliers(series, known.length, frequency, limit);
  }

  // The last rows of some series, scaled: values [T x B], and rows of known and past columns [B x columns].
  window(panel, series, scales, h) {
    const { settings } = this;
    const { lookback, series: names } = settings;
    const ahead = settings.recursive ? h : settings.horizon;
    const batch = series.length;
    const values = new Float32Array(lookback * batch);
    const known = Array.from({ length: lookback + ahead }, () => []);
    const past = Array.from({ length: lookback }, () => []);
    series.forEach((one, place) => {
      const { centre, spread, power } = scales[place];
      const even = applyPower(this.clean(one, scales[place]).y, power, `series ${quoted(one.unique_id)}`);
      const filled = fillGaps(even.map((value) => (value - centre) / spread)).slice(-lookback);
      filled.forEach((value, row) => (values[row * batch + place] = value));
      const count = one.y.length;
      const columns = scaledColumns(one, "known", settings, count + h);
      while (settings.known.length && columns.length < count + ahead) columns.push(columns.at(-1)); // not used
      const ds = [...one.ds.slice(-lookback), ...(settings.calendar ? timesAfter(panel, one, ahead) : [])];
      const dates = settings.calendar ? calendarColumns(ds, settings.frequency) : null;
      known.forEach((row, number) => {
        row.push(...(columns[count - lookback + number] ?? []), ...(dates ? dates[number] : []));
      });
      const before = scaledColumns(one, "past", settings, count).slice(0, count).slice(-lookback);
      past.forEach((row, number) => row.push(...(before[number] ?? [])));
    });
    const numbers = Int32Array.from(series, (one) => names.indexOf(one.unique_id));
    const flat = (rows) => rows.map((row) => Float32Array.from(row));
    return { batch, values, known: flat(known), past: flat(past), numbers };
  }
}

const tenDigits = (value) => Number(value.toFixed(10));
const unscale = (value, { centre, spread, power, low }) =>
  Math.max(undoPower(finite(value) * spread + centre, power), low);
const table = (rows, columns, value) =>
  Array.from({ length: rows }, (_, row) => Float64Array.from({ length: columns }, (__, column) => value(row, column)));
const numbered = (outputs, stem) =>
  outputs
    .map(({ name }) => name)
    .filter((name) => name.startsWith(`${stem}_`))
    .sort((one, other) => Number(one.slice(stem.length + 1)) - Number(other.slice(stem.length + 1)));

function finite(value) {
  if (!Number.isFinite(value)) throw new Problem("the model gives numbers that are not finite: it is damaged");
  return value;
}

// Repeat each series of a window, with copies next to each other.
function repeat({ batch, values, known, past, numbers }, times) {
  const copies = (row) => {
    const width = row.length / batch;
    return row.constructor.from({ length: row.length * times }, (_, place) => {
      return row[Math.floor(place / width / times) * width + (place % width)];
    });
  };
  const wide = new Float32Array(values.length * times);
  for (let place = 0; place < values.length; place += 1) wide.fill(values[place], place * times, (place + 1) * times);
  const columns = { known: known.map(copies), past: past.map(copies) };
  return { batch: batch * times, values: wide, ...columns, numbers: copies(numbers) };
}

function quantilesOfPaths(drawn, scales, paths, probabilities) {
  const found = probabilities.map(() => table(drawn.length, scales.length, () => 0));
  const lows = scales.map(({ centre, spread, power, low }) => (power === 1 ? (low - centre) / spread : -Infinity));
  drawn.forEach((row, step) => {
    for (let one = 0; one < scales.length; one += 1) {
      const mine = row.slice(one * paths, (one + 1) * paths);
      const sorted = mine.map((value) => Math.max(value, lows[one])).sort();
      probabilities.forEach((each, number) => (found[number][step][one] = quantileOf(sorted, each)));
    }
  });
  return found;
}

function readLevels(levels) {
  if (!Array.isArray(levels))
    throw new Problem(`level: is ${levels}, expected a list of percentages, such as [80, 95]`);
  for (const level of levels) {
    if (level > 0 && level < 1) {
      const problem = `${level} is below 1; levels are percentages: use ${Number((100 * level).toPrecision(6))}`;
      throw new Problem(`level: ${problem}`);
    }
    if (!(level >= 1 && level < 100))
      throw new Problem(`level: is ${level}, expected a percentage of at least 1 and below 100`);
  }
  return [...new Set(levels)].sort((one, other) => one - other);
}
