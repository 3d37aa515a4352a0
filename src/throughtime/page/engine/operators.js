// The operators of graphs, with the names, inputs and attributes of ONNX: (inputs, attributes) -> tensor or tensors.

import { cast, concat, expand, gather, gatherElements, pad, range } from "./arranging.js";
import { reshape, scatterElements, shapeOf, slice, split, squeeze, tile, transpose, unsqueeze } from "./arranging.js";
import { COMPARISONS, PAIRS, SINGLES, pairwise, where } from "./elementwise.js";
import { eachRow, stretch, stridesIn } from "./stretching.js";
import { axisOf, count, tensor } from "./tensor.js";

const REDUCTIONS = {
  ReduceSum: { begin: 0, add: (sum, x) => sum + x },
  ReduceMean: { begin: 0, add: (sum, x) => sum + x, end: (sum, n) => sum / n },
  ReduceMax: { begin: -Infinity, add: (largest, x) => (x > largest ? x : largest) },
  ReduceMin: { begin: Infinity, add: (least, x) => (x < least ? x : least) },
  ReduceProd: { begin: 1, add: (product, x) => product * x },
};

function reduce({ begin, add, end }, [x, axes], { keepdims = 1 }) {
  const gone = axes && axes.data.length ? [...axes.data].map((axis) => axisOf(axis, x.dims)) : [...x.dims.keys()];
  const kept = x.dims.map((size, axis) => (gone.includes(axis) ? 1 : size));
  const sums = new Float64Array(count(kept)).fill(begin);
  const strides = stridesIn(kept, x.dims);
  const step = strides[x.dims.length - 1] ?? 0;
  const n = x.dims[x.dims.length - 1] ?? 1;
  eachRow(x.dims, [strides], (o, [place]) => {
    for (let k = 0; k < n; k += 1) sums[place + k * step] = add(sums[place + k * step], x.data[o + k]);
  });
  const each = x.data.length / (sums.length || 1);
  const result = tensor(x.type, keepdims ? kept : x.dims.filter((_, axis) => !gone.includes(axis)));
  for (let i = 0; i < sums.length; i += 1) result.data[i] = end ? end(sums[i], each) : sums[i];
  return result;
}

/** Softmax or its logarithm along one axis; that axis is nearly always the last one. */
function softmax([x], { axis = -1 }, log) {
  const along = axisOf(axis, x.dims);
  const result = tensor(x.type, x.dims);
  const [n, step] = [x.dims[along], count(x.dims.slice(along + 1))];
  const [from, to] = [x.data, result.data];
  for (let begin = 0; begin < from.length; begin += n * step) {
    for (let first = begin; first < begin + step; first += 1) {
      const end = first + n * step;
      let largest = -Infinity;
      for (let i = first; i < end; i += step) if (from[i] > largest) largest = from[i];
      let sum = 0;
      for (let i = first; i < end; i += step) sum += to[i] = Math.exp(from[i] - largest);
      const all = log ? largest + Math.log(sum) : 1 / sum;
      for (let i = first; i < end; i += step) to[i] = log ? from[i] - all : to[i] * all;
    }
  }
  return result;
}

function layerNormalization([x, gain, shift], { axis = -1, epsilon = 1e-5 }) {
  const n = count(x.dims.slice(axisOf(axis, x.dims)));
  const result = tensor(x.type, x.dims);
  for (let o = 0; o < x.data.length; o += n) {
    let [sum, square] = [0, 0];
    for (let k = 0; k < n; k += 1) sum += x.data[o + k];
    const mean = sum / n;
    for (let k = 0; k < n; k += 1) square += (x.data[o + k] - mean) ** 2;
    const scale = 1 / Math.sqrt(square / n + epsilon);
    for (let k = 0; k < n; k += 1) {
      result.data[o + k] = (x.data[o + k] - mean) * scale * gain.data[k] + (shift ? shift.data[k] : 0);
    }
  }
  return result;
}

/** The k largest of each row, largest first; of equal ones the first comes first. */
function topK([x, k], { axis = -1, largest = 1 }) {
  if (axisOf(axis, x.dims) !== x.dims.length - 1) throw new RangeError("TopK works along the last axis only");
  const n = x.dims[x.dims.length - 1];
  const [most, rows, sign] = [k.data[0], x.data.length / (n || 1), largest ? 1 : -1];
  const dims = [...x.dims.slice(0, -1), most];
  const [values, places] = [tensor(x.type, dims), tensor("int64", dims)];
  const [best, at] = [new Float64Array(most), new Int32Array(most)];
  for (let row = 0; row < rows; row += 1) {
    let filled = 0;
    for (let i = 0; i < n; i += 1) {
      const value = sign * x.data[row * n + i];
      if (filled === most && !(value > best[most - 1])) continue;
      let place = filled < most ? filled++ : most - 1;
      for (; place > 0 && value > best[place - 1]; place -= 1) {
        best[place] = best[place - 1];
        at[place] = at[place - 1];
      }
      best[place] = value;
      at[place] = i;
    }
    for (let i = 0; i < most; i += 1) {
      values.data[row * most + i] = sign * best[i];
      places.data[row * most + i] = at[i];
    }
  }
  return [values, places];
}

/** A product of matrices, or of stacks of matrices. */
function matMul([x, y]) {
  const left = x.dims.length === 1 ? [1, ...x.dims] : x.dims;
  const right = y.dims.length === 1 ? [...y.dims, 1] : y.dims;
  const [m, inner, n] = [left.at(-2), left.at(-1), right.at(-1)];
  if (inner !== right.at(-2)) throw new RangeError(`products of [${x.dims}] and [${y.dims}] do not exist`);
  const stacks = stretch(left.slice(0, -2), right.slice(0, -2));
  const full = [...stacks, m, n];
  const result = tensor("float32", full);
  const strides = [left, right].map((one) => {
    const own = stridesIn(one.slice(0, -2), stacks);
    const size = one.at(-1) * one.at(-2);
    return [...own.map((step) => step * size), 0, 0];
  });
  eachRow([...stacks, 1, m * n], strides, (o, [i, j]) => {
    multiply(x.data, i, y.data, j, result.data, o, m, inner, n);
  });
  const dims = full.filter((_, axis) => (axis !== full.length - 2 || x.dims.length > 1)
    && (axis !== full.length - 1 || y.dims.length > 1));
  return tensor("float32", dims, result.data);
}

function multiply(x, i, y, j, r, o, m, inner, n) {
  for (let row = 0; row < m; row += 1) {
    const [from, into] = [i + row * inner, o + row * n];
    if (n === 1) {
      let sum = 0;
      for (let k = 0; k < inner; k += 1) sum += x[from + k] * y[j + k];
      r[into] = sum;
      continue;
    }
    for (let k = 0; k < inner; k += 1) {
      const factor = x[from + k];
      if (factor === 0) continue;
      const at = j + k * n;
      for (let c = 0; c < n; c += 1) r[into + c] += factor * y[at + c];
    }
  }
}

function gemm([x, y, z], { alpha = 1, beta = 1, transA: turnX = 0, transB: turnY = 0 }) {
  const product = matMul([turnX ? transpose([x], {}) : x, turnY ? transpose([y], {}) : y]);
  if (alpha !== 1) for (let i = 0; i < product.data.length; i += 1) product.data[i] *= alpha;
  if (!z) return product;
  const added = beta === 1 ? z : pairwise(z.type, z, tensor("float32", [], [beta]), PAIRS.Mul);
  return pairwise("float32", product, added, PAIRS.Add);
}

/** Convolution along the last axis: x [B, C, T] with kernels [O, C, K]. */
function conv([x, kernels], { strides: [apart], dilations: [dilation], pads: [before, after] }) {
  const [rows, channels, steps] = x.dims;
  const [outputs, , width] = kernels.dims;
  const places = Math.floor((steps + before + after - dilation * (width - 1) - 1) / apart) + 1;
  const result = tensor("float32", [rows, outputs, places]);
  for (let row = 0; row < rows; row += 1) {
    for (let output = 0; output < outputs; output += 1) {
      const into = (row * outputs + output) * places;
      for (let channel = 0; channel < channels; channel += 1) {
        const from = (row * channels + channel) * steps;
        for (let k = 0; k < width; k += 1) {
          const weight = kernels.data[(output * channels + channel) * width + k];
          if (weight === 0) continue;
          const shift = k * dilation - before;
          for (let place = 0; place < places; place += 1) {
            const step = place * apart + shift;
            if (step >= 0 && step < steps) result.data[into + place] += weight * x.data[from + step];
          }
        }
      }
    }
  }
  return result;
}

const of = (table, make) => Object.fromEntries(Object.entries(table).map(([name, one]) => [name, make(one, name)]));

/** Each operator by its name. */
export const OPERATORS = {
  Conv: conv,
  ...of(PAIRS, (loop) => (inputs) => inputs.reduce((x, y) => pairwise(x.type, x, y, loop))),
  ...of(COMPARISONS, (f) => ([x, y]) =>
    pairwise("bool", x, y, (r, o, p, i, a1, q, j, b1, n) => {
      for (let k = 0; k < n; k += 1) r[o + k] = f(p[i + k * a1], q[j + k * b1]) ? 1 : 0;
    })),
  ...of(SINGLES, (loop) => ([x]) => {
    const result = tensor(x.type, x.dims);
    loop(result.data, x.data);
    return result;
  }),
  ...of(REDUCTIONS, (one) => (inputs, attributes) => reduce(one, inputs, attributes)),
  Identity: ([x]) => x,
  Softmax: (inputs, attributes) => softmax(inputs, attributes, false),
  LogSoftmax: (inputs, attributes) => softmax(inputs, attributes, true),
  LayerNormalization: layerNormalization,
  Where: where,
  Transpose: transpose,
  Expand: expand,
  Reshape: reshape,
  Squeeze: squeeze,
  Unsqueeze: unsqueeze,
  Slice: slice,
  Concat: concat,
  Split: split,
  Pad: pad,
  Tile: tile,
  Gather: gather,
  GatherElements: gatherElements,
  ScatterElements: scatterElements,
  TopK: topK,
  Cast: cast,
  Range: range,
  Shape: shapeOf,
  MatMul: matMul,
  Gemm: gemm,
};
