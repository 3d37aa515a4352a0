// Shapes that are stretched to each other, and walks through them row by row.

import { count, tensor } from "./tensor.js";

export function sameShape(a, b) {
  return a.length === b.length && a.every((size, axis) => size === b[axis]);
}

/** The shape that several shapes are stretched to. */
export function stretch(...shapes) {
  const rank = Math.max(...shapes.map((one) => one.length));
  return Array.from({ length: rank }, (_, axis) => {
    let size = 1;
    for (const one of shapes) {
      const own = one[axis - rank + one.length] ?? 1;
      if (own !== 1 && size !== 1 && own !== size) {
        throw new RangeError(`shapes [${shapes.join("] and [")}] do not fit`);
      }
      if (own !== 1) size = own;
    }
    return size;
  });
}

/** How far apart the neighbours on each axis of a shape are; 0 on axes that are stretched to `dims`. */
export function stridesIn(shape, dims) {
  const strides = new Array(dims.length).fill(0);
  let step = 1;
  for (let axis = shape.length - 1, into = dims.length - 1; axis >= 0; axis -= 1, into -= 1) {
    strides[into] = shape[axis] === 1 ? 0 : step;
    step *= shape[axis];
  }
  return strides;
}

/** How far apart the neighbours on each axis are. */
export function stridesOf(dims) {
  const strides = new Array(dims.length);
  for (let axis = dims.length - 1, step = 1; axis >= 0; axis -= 1) {
    strides[axis] = step;
    step *= dims[axis];
  }
  return strides;
}

/** Call act(o, places) for each row of a shape: where the row begins in the result and in each operand. */
export function eachRow(dims, strides, act) {
  const total = count(dims);
  const last = dims.length - 1;
  const width = last < 0 ? 1 : dims[last];
  const places = strides.map(() => 0);
  const counter = new Array(Math.max(0, last)).fill(0);
  for (let o = 0; o < total; o += width) {
    act(o, places);
    for (let axis = last - 1; axis >= 0; axis -= 1) {
      counter[axis] += 1;
      for (let one = 0; one < places.length; one += 1) places[one] += strides[one][axis];
      if (counter[axis] < dims[axis]) break;
      for (let one = 0; one < places.length; one += 1) places[one] -= strides[one][axis] * dims[axis];
      counter[axis] = 0;
    }
  }
}

/** Copy the elements at these strides, in the order of `dims`. */
export function gatherStrided(x, dims, strides, begin = 0) {
  const result = tensor(x.type, dims);
  const last = dims.length - 1;
  const [step, n] = last < 0 ? [0, 1] : [strides[last], dims[last]];
  eachRow(dims, [strides], (o, [place]) => {
    const from = begin + place;
    if (step === 1) result.data.set(x.data.subarray(from, from + n), o);
    else for (let k = 0; k < n; k += 1) result.data[o + k] = x.data[from + k * step];
  });
  return result;
}
