// The gates of each unit while a model reads a text: "inspect/gates", as inspection/gates.py finds them.

import { readNumber, readText, warn } from "./asked.js";
import { Problem } from "./problem.js";
import { strip } from "./text/characters.js";

const MAX_TOKENS = 400;
/** The maximum half-life in tokens; no sentence is longer. */
const MAX_HALF_LIFE = 1000;

/**
 * The path of a model that has gates. `read(text)` returns {size, look}: the number of tokens, and a function that
 * reads them and returns [{tokens, watched}], the labels of tokens and what `graph.run` watched while it read them.
 */
export function openGates(model, codec, read) {
  if (!model.about.abilities?.includes("gates")) return {};
  return {
    "inspect/gates": async (body, context) => {
      const text = readText(body);
      const number = readNumber(body, "layer", 0, 0, Infinity);
      const units = readNumber(body, "units", 48, 2, 256);
      const { size, look } = read(text);
      if (!strip(text) || !size) throw new Problem("sentence: is empty; give some words to read");
      if (size > MAX_TOKENS) {
        throw new Problem(`sentence: has ${size} tokens, expected at most ${MAX_TOKENS}; give a shorter one`);
      }
      const parts = await look(context);
      const layers = parts.flatMap(({ tokens, watched }) => watched.map((one) => openLayer(one, tokens)));
      if (number >= layers.length) {
        throw new Problem(`layer: is ${number}, but the model has ${layers.length} layers, counted from 0`);
      }
      const names = layers.map(({ name, cell, order }) => ({ name, cell, units: order.length }));
      const dropped = model.about.abilities.includes("generate"); // a model of the text itself
      const warnings = codec ? warn(codec, [text], { dropped }) : {};
      return { model: model.name, layers: names, layer: number, ...describe(layers[number], units), ...warnings };
    },
  };
}

/** What single steps of a decoder watched, each [1, H], as one for all steps, each [steps, 1, H]. */
export function joinSteps(steps) {
  return steps[0].map((one, layer) => {
    const values = Object.keys(one.values).map((letter) => {
      const rows = steps.map((watched) => watched[layer].values[letter]);
      const [width] = rows[0].dims.slice(-1);
      const data = new Float32Array(rows.length * width);
      rows.forEach((row, place) => data.set(row.data.subarray(0, width), place * width));
      return [letter, { type: "float32", dims: [rows.length, 1, width], data }];
    });
    return { ...one, values: Object.fromEntries(values) };
  });
}

/** A layer: its name, its values [tokens, units] by letter, the half-lives of its units, and their order. */
function openLayer({ title, cell, keep, values }, tokens) {
  const halfLives = keep === null ? null : columns(values[keep]).map(findHalfLife);
  const spread = halfLives ?? columns(values.h).map(findDeviation);
  const order = [...spread.keys()].sort((one, other) => spread[other] - spread[one]);
  return { name: title, cell, keep, tokens, values, halfLives, order };
}

/** The values of each unit, [units][tokens]. */
function columns({ dims, data }) {
  const width = dims.at(-1);
  const rows = Array.from({ length: data.length / width }, (_, row) => row * width);
  return Array.from({ length: width }, (_, unit) => rows.map((row) => data[row + unit]));
}

/** The number of tokens after which half of a state is left, if its gate has its geometric mean value. */
function findHalfLife(gate) {
  const logs = gate.map((value) => Math.log(Math.min(Math.max(value, 1e-12), 1)));
  const mean = logs.reduce((sum, one) => sum + one, 0) / logs.length;
  return Math.log(0.5) / Math.min(mean, Math.log(0.5) / MAX_HALF_LIFE);
}

function findDeviation(values) {
  const mean = values.reduce((sum, one) => sum + one, 0) / values.length;
  return Math.sqrt(values.reduce((sum, one) => sum + (one - mean) ** 2, 0) / values.length);
}

/** Some units, evenly chosen from those that remember longest to those that forget fastest. */
function chooseUnits(order, units) {
  if (units >= order.length) return order;
  const step = (order.length - 1) / (units - 1);
  return Array.from({ length: units }, (_, place) => order[roundEven(place * step)]);
}

/** The nearest whole number; of two equally near ones the even one. */
function roundEven(value) {
  const low = Math.floor(value);
  return value - low === 0.5 ? low + (low % 2) : Math.round(value);
}

function describe({ name, cell, keep, tokens, values, halfLives, order }, units) {
  const chosen = chooseUnits(order, units).filter((unit) => unit < values.h.dims.at(-1));
  const letters = Object.keys(values).sort((one, other) => (one !== keep) - (other !== keep));
  const shown = letters.map((letter) => {
    const all = columns(values[letter]);
    return [letter, chosen.map((unit) => all[unit].map((value) => roundEven(value * 1e4) / 1e4))];
  });
  return {
    ...{ name, cell, tokens, gates: letters, keep, units: chosen, all_units: order.length },
    half_lives: halfLives && chosen.map((unit) => Number(halfLives[unit].toFixed(2))),
    values: Object.fromEntries(shown),
  };
}
