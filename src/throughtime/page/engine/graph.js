// Runs a graph of operators: only what the wanted outputs need, and what depends on constants alone only once.

import { OPERATORS } from "./operators.js";
import { Problem } from "./problem.js";
import { tensor } from "./tensor.js";

/** A graph. `constants` are the tensors of the model that it names; `products` computes W x + b. */
export class Graph {
  constructor(description, constants, products) {
    const named = ([name, dtype, shape]) => ({ name, dtype, shape });
    this.inputs = description.inputs.map(named);
    this.outputs = description.outputs.map(named);
    this.marks = description.marks;
    this.nodes = description.nodes;
    this.products = products;
    this.slots = new Map([["", -1]]);
    this.fixed = [];
    this.turned = new Map();
    this.plans = new Map();
    for (const [name, number] of Object.entries(description.constants)) {
      this.fixed[this.slot(name)] = constants[number];
    }
    this.fold();
  }

  /** The place of a value by its name. */
  slot(name) {
    if (!this.slots.has(name)) this.slots.set(name, this.slots.size - 1);
    return this.slots.get(name);
  }

  /** Compute what depends on constants alone; a turned matrix waits, as products read its rows as they are. */
  fold() {
    this.nodes = this.nodes.filter(([kind, inputs, outputs, attributes, body]) => {
      const slots = inputs.map((name) => this.slot(name));
      const known = slots.every((slot) => slot < 0 || this.fixed[slot] || this.turned.has(slot));
      if (body || !known || !inputs.length) return true;
      const [first] = slots;
      const { perm } = attributes;
      if (kind === "Transpose" && this.fixed[first]?.dims.length === 2 && (!perm || perm[0] === 1)) {
        this.turned.set(this.slot(outputs[0]), first);
        return false;
      }
      const results = operator(kind)(slots.map((slot) => this.materialise(slot)), attributes);
      [results].flat().forEach((result, number) => { this.fixed[this.slot(outputs[number])] = result; });
      return false;
    });
  }

  /** A constant; a turned matrix is turned now. */
  materialise(slot) {
    if (slot >= 0 && this.turned.has(slot)) {
      this.fixed[slot] ??= OPERATORS.Transpose([this.fixed[this.turned.get(slot)]], {});
    }
    return this.fixed[slot];
  }

  /** The steps that compute these values, in order. */
  plan(nodes, wanted) {
    const needed = new Set(wanted);
    const steps = [];
    for (const node of nodes.toReversed()) {
      const [, inputs, outputs, , body] = node;
      if (!outputs.some((name) => needed.has(name))) continue;
      steps.push(node);
      for (const name of inputs) needed.add(name);
      if (body) for (const name of reads(body)) needed.add(name);
    }
    const uses = new Map();
    const use = (name) => uses.set(name, (uses.get(name) ?? 0) + 1);
    for (const name of wanted) use(name);
    for (const [, inputs, , , body] of steps) [...inputs, ...(body ? reads(body) : [])].forEach(use);
    return this.join(steps.toReversed().map((node) => this.step(node)), uses);
  }

  step([kind, inputs, outputs, attributes, body]) {
    const slots = inputs.map((name) => this.slot(name));
    const step = { kind, name: outputs[0], inputs: slots, outputs: outputs.map((name) => this.slot(name)), attributes };
    if (body) return { ...step, body: this.loop(body) };
    if (kind === "MatMul" && this.turned.has(slots[1])) {
      return { ...step, kind: "Linear", inputs: [slots[0], this.turned.get(slots[1])] };
    }
    slots.forEach((slot) => this.materialise(slot));
    const { transA = 0, transB = 0, alpha = 1, beta = 1 } = attributes;
    if (kind === "Gemm" && !transA && transB && alpha === 1 && beta === 1) return { ...step, kind: "Linear" };
    if (kind === "Gather" && this.fixed[slots[0]]) return { ...step, run: keepLast(operator(kind)) };
    return { ...step, run: operator(kind) };
  }

  loop(body) {
    const watched = body.marks.flatMap((mark) => mark.values.map(([name]) => name));
    return {
      inputs: body.inputs.map((name) => this.slot(name)),
      outputs: body.outputs.map((name) => this.slot(name)),
      steps: this.plan(body.nodes, [...body.outputs, ...watched]),
      marks: body.marks,
    };
  }

  /** Make a product and the sum with its bias one step. */
  join(steps, uses) {
    const made = new Map();
    return steps.filter((step) => {
      if (step.kind === "Add") {
        const place = step.inputs.findIndex((slot) => made.has(slot));
        const product = made.get(step.inputs[place]);
        const bias = this.fixed[step.inputs[1 - place]];
        if (product && uses.get(product.name) === 1 && bias?.dims.length === 1 && bias.data.length > 1) {
          product.inputs.push(step.inputs[1 - place]);
          product.outputs = step.outputs;
          made.delete(step.inputs[place]);
          return false;
        }
      }
      if (step.kind === "Linear") made.set(step.outputs[0], step);
      return true;
    });
  }

  /** The tensors of these outputs for inputs by name; with `watch` also `watched`: the gates of cells by step. */
  run(inputs, names, watch = false) {
    const key = `${watch} ${names}`;
    if (!this.plans.has(key)) {
      const seen = watch ? this.marks.flatMap((mark) => mark.values.map(([name]) => name)) : [];
      this.plans.set(key, this.plan(this.nodes, [...names, ...seen]));
    }
    const values = this.fixed.slice();
    for (const { name } of this.inputs) {
      if (inputs[name] !== undefined) values[this.slot(name)] = inputs[name];
    }
    const watched = watch ? [] : null;
    this.execute(this.plans.get(key), values, watched);
    const found = {};
    for (const name of names) found[name] = this.materialise(this.slot(name)) ?? values[this.slot(name)];
    if (watch) {
      this.marks.forEach((mark) => watched.push(name(mark, this.read(mark, values), false)));
      found.watched = watched;
    }
    return found;
  }

  read(mark, values) {
    return mark.values.map(([value]) => values[this.slot(value)]);
  }

  execute(steps, values, watched) {
    for (const step of steps) {
      const inputs = step.inputs.map((slot) => values[slot]);
      if (step.kind === "Scan") this.scan(step, inputs, values, watched);
      else if (step.kind === "Linear") values[step.outputs[0]] = this.products.linear(...inputs);
      else {
        const results = step.run(inputs, step.attributes);
        if (!Array.isArray(results)) values[step.outputs[0]] = results;
        else step.outputs.forEach((slot, number) => { values[slot] = results[number]; });
      }
    }
  }

  /** Run the body of a loop once for each row of the scanned inputs. */
  scan({ attributes, body, outputs }, inputs, values, watched) {
    const kept = inputs.length - attributes.num_scan_inputs;
    const scanned = inputs.slice(kept);
    const steps = scanned[0].dims[0];
    const back = (kind, number) => attributes[`scan_${kind}_directions`]?.[number] === 1;
    const shown = outputs.slice(kept).map(() => null);
    const seen = watched ? body.marks.map(() => []) : [];
    let state = inputs.slice(0, kept);
    for (let t = 0; t < steps; t += 1) {
      state.forEach((part, number) => { values[body.inputs[number]] = part; });
      scanned.forEach((all, number) => {
        values[body.inputs[kept + number]] = row(all, back("input", number) ? steps - 1 - t : t);
      });
      this.execute(body.steps, values, null);
      state = body.outputs.slice(0, kept).map((slot) => values[slot]);
      body.outputs.slice(kept).forEach((slot, number) => {
        const one = values[slot];
        shown[number] ??= tensor(one.type, [steps, ...one.dims]);
        shown[number].data.set(one.data, one.data.length * (back("output", number) ? steps - 1 - t : t));
      });
      seen.forEach((rows, number) => {
        rows[back("input", 0) ? steps - 1 - t : t] = this.read(body.marks[number], values);
      });
    }
    state.forEach((part, number) => { values[outputs[number]] = part; });
    shown.forEach((all, number) => {
      values[outputs[kept + number]] = all ?? tensor("float32", [0, ...inputs[0].dims]);
    });
    seen.forEach((rows, number) => {
      const parts = body.marks[number].values.map((_, place) => stack(rows.map((one) => one[place])));
      watched.push(name(body.marks[number], parts));
    });
  }
}

function operator(kind) {
  if (!OPERATORS[kind]) throw new Problem(`This page cannot compute the operator ${kind}, which the model uses.`);
  return OPERATORS[kind];
}

/** An operator that chooses rows of a constant: for the same choice as the last time, the last result. */
function keepLast(run) {
  let [last, result] = [[], null];
  return (inputs, attributes) => {
    const { data, dims } = inputs[1];
    const now = [...dims, ...data];
    if (!result || now.length !== last.length || now.some((one, place) => one !== last[place])) {
      result = { ...run(inputs, attributes), kept: true };
      last = now;
    }
    return result;
  };
}

/** The values from outside that the body of a loop reads. */
function reads(body) {
  const own = new Set(body.inputs);
  const found = [];
  for (const [, inputs, outputs, , inner] of body.nodes) {
    for (const value of [...inputs, ...(inner ? reads(inner) : [])]) if (!own.has(value)) found.push(value);
    for (const value of outputs) own.add(value);
  }
  return found;
}

/** One row of the first axis, without a copy. */
function row(all, place) {
  const dims = all.dims.slice(1);
  const width = all.data.length / all.dims[0];
  return { type: all.type, dims, data: all.data.subarray(place * width, (place + 1) * width) };
}

/** Tensors [B, H] as one [T, B, H]. */
function stack(rows) {
  const all = tensor("float32", [rows.length, ...(rows[0]?.dims ?? [0, 0])]);
  rows.forEach((one, place) => all.data.set(one.data, place * one.data.length));
  return all;
}

/** The gates of a cell by their letters; a value of several gates is cut into its equal parts. */
function name(mark, tensors) {
  const values = {};
  mark.values.forEach(([, letters], number) => {
    const all = tensors[number];
    const cut = letters.length === 1 ? [all] : OPERATORS.Split([all], { axis: -1, num_outputs: letters.length });
    letters.forEach((letter, part) => { values[letter] = cut[part]; });
  });
  return { title: mark.title, cell: mark.cell, keep: mark.keep, values };
}
