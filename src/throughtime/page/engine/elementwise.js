// Operators that compute each number from the numbers at its place.

import { eachRow, sameShape, stretch, stridesIn } from "./stretching.js";
import { tensor } from "./tensor.js";

// Rows of n results: r[o + k] from x[i + k a] and y[j + k b]. Each loop is written out, as calls in loops are slow.
export const PAIRS = {
  Add: (r, o, x, i, a, y, j, b, n) => { for (let k = 0; k < n; k += 1) r[o + k] = x[i + k * a] + y[j + k * b]; },
  Sub: (r, o, x, i, a, y, j, b, n) => { for (let k = 0; k < n; k += 1) r[o + k] = x[i + k * a] - y[j + k * b]; },
  Mul: (r, o, x, i, a, y, j, b, n) => { for (let k = 0; k < n; k += 1) r[o + k] = x[i + k * a] * y[j + k * b]; },
  Div: (r, o, x, i, a, y, j, b, n) => { for (let k = 0; k < n; k += 1) r[o + k] = x[i + k * a] / y[j + k * b]; },
  Pow: (r, o, x, i, a, y, j, b, n) => { for (let k = 0; k < n; k += 1) r[o + k] = x[i + k * a] ** y[j + k * b]; },
  Max: (r, o, x, i, a, y, j, b, n) => {
    for (let k = 0; k < n; k += 1) r[o + k] = Math.max(x[i + k * a], y[j + k * b]);
  },
  Min: (r, o, x, i, a, y, j, b, n) => {
    for (let k = 0; k < n; k += 1) r[o + k] = Math.min(x[i + k * a], y[j + k * b]);
  },
};

export const COMPARISONS = {
  Less: (x, y) => x < y,
  LessOrEqual: (x, y) => x <= y,
  Greater: (x, y) => x > y,
  GreaterOrEqual: (x, y) => x >= y,
  Equal: (x, y) => x === y,
  And: (x, y) => x && y,
  Or: (x, y) => x || y,
};

export const SINGLES = {
  Neg: (r, x) => { for (let i = 0; i < r.length; i += 1) r[i] = -x[i]; },
  Abs: (r, x) => { for (let i = 0; i < r.length; i += 1) r[i] = Math.abs(x[i]); },
  Exp: (r, x) => { for (let i = 0; i < r.length; i += 1) r[i] = Math.exp(x[i]); },
  Log: (r, x) => { for (let i = 0; i < r.length; i += 1) r[i] = Math.log(x[i]); },
  Sqrt: (r, x) => { for (let i = 0; i < r.length; i += 1) r[i] = Math.sqrt(x[i]); },
  Sin: (r, x) => { for (let i = 0; i < r.length; i += 1) r[i] = Math.sin(x[i]); },
  Cos: (r, x) => { for (let i = 0; i < r.length; i += 1) r[i] = Math.cos(x[i]); },
  Reciprocal: (r, x) => { for (let i = 0; i < r.length; i += 1) r[i] = 1 / x[i]; },
  Relu: (r, x) => { for (let i = 0; i < r.length; i += 1) r[i] = x[i] < 0 ? 0 : x[i]; },
  Sigmoid: (r, x) => { for (let i = 0; i < r.length; i += 1) r[i] = 1 / (1 + Math.exp(-x[i])); },
  Tanh: (r, x) => { for (let i = 0; i < r.length; i += 1) r[i] = 2 / (1 + Math.exp(-2 * x[i])) - 1; },
  Softplus: (r, x) => {
    for (let i = 0; i < r.length; i += 1) r[i] = Math.max(x[i], 0) + Math.log1p(Math.exp(-Math.abs(x[i])));
  },
  Not: (r, x) => { for (let i = 0; i < r.length; i += 1) r[i] = x[i] ? 0 : 1; },
};

export function pairwise(type, x, y, loop) {
  if (sameShape(x.dims, y.dims)) {
    const result = tensor(type, x.dims);
    loop(result.data, 0, x.data, 0, 1, y.data, 0, 1, result.data.length);
    return result;
  }
  const dims = stretch(x.dims, y.dims);
  const result = tensor(type, dims);
  const strides = [stridesIn(x.dims, dims), stridesIn(y.dims, dims)];
  const last = dims.length - 1;
  const [a1, b1, n] = [strides[0][last], strides[1][last], dims[last]];
  eachRow(dims, strides, (o, [i, j]) => loop(result.data, o, x.data, i, a1, y.data, j, b1, n));
  return result;
}

export function where([chosen, x, y]) {
  const dims = stretch(chosen.dims, x.dims, y.dims);
  const result = tensor(x.type, dims);
  const strides = [chosen, x, y].map((one) => stridesIn(one.dims, dims));
  const last = dims.length - 1;
  const [c, p, q] = strides.map((one) => one[last] ?? 0);
  const n = dims[last] ?? 1;
  eachRow(dims, strides, (o, [k, i, j]) => {
    for (let m = 0; m < n; m += 1) {
      result.data[o + m] = chosen.data[k + m * c] ? x.data[i + m * p] : y.data[j + m * q];
    }
  });
  return result;
}
