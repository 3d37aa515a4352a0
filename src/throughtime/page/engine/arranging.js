// Operators that choose numbers and put them in another order or shape.

import { eachRow, gatherStrided, sameShape, stretch, stridesIn, stridesOf } from "./stretching.js";
import { axisOf, count, tensor } from "./tensor.js";

export function transpose([x], { perm }) {
  const order = perm ?? x.dims.map((_, axis) => x.dims.length - 1 - axis);
  const strides = stridesOf(x.dims);
  return gatherStrided(x, order.map((axis) => x.dims[axis]), order.map((axis) => strides[axis]));
}

export function expand([x, shape]) {
  const dims = stretch(x.dims, [...shape.data]);
  return sameShape(dims, x.dims) ? x : gatherStrided(x, dims, stridesIn(x.dims, dims));
}

export function reshape([x, shape], { allowzero = 0 }) {
  const dims = [...shape.data].map((size, axis) => (size === 0 && !allowzero ? x.dims[axis] : size));
  const open = dims.indexOf(-1);
  if (open >= 0) {
    dims[open] = 1;
    dims[open] = x.data.length / (count(dims) || 1);
  }
  return tensor(x.type, dims, x.data);
}

export function squeeze([x, axes]) {
  const gone = axes && [...axes.data].map((axis) => axisOf(axis, x.dims));
  return tensor(x.type, x.dims.filter((size, axis) => (gone ? !gone.includes(axis) : size !== 1)), x.data);
}

export function unsqueeze([x, axes]) {
  const rank = x.dims.length + axes.data.length;
  const dims = [...x.dims];
  const places = [...axes.data].map((axis) => (axis < 0 ? axis + rank : axis));
  for (const axis of places.sort((p, q) => p - q)) dims.splice(axis, 0, 1);
  return tensor(x.type, dims, x.data);
}

export function slice([x, starts, ends, axes, steps]) {
  const [dims, strides] = [[...x.dims], stridesOf(x.dims)];
  let begin = 0;
  starts.data.forEach((given, number) => {
    const axis = axisOf(axes ? axes.data[number] : number, x.dims);
    const [size, step] = [x.dims[axis], steps ? steps.data[number] : 1];
    const [low, high] = step > 0 ? [0, size] : [-1, size - 1];
    const keep = (place) => Math.min(Math.max(place < 0 ? place + size : place, low), high);
    const start = keep(given);
    // Backwards, a very low end means "past the first element".
    const end = step < 0 && ends.data[number] < -size ? -1 : keep(ends.data[number]);
    dims[axis] = Math.max(0, Math.ceil((end - start) / step));
    begin += start * strides[axis];
    strides[axis] *= step;
  });
  return gatherStrided(x, dims, strides, begin);
}

export function concat(parts, { axis }) {
  const along = axisOf(axis, parts[0].dims);
  const dims = [...parts[0].dims];
  dims[along] = parts.reduce((sum, part) => sum + part.dims[along], 0);
  const result = tensor(parts[0].type, dims);
  const [inner, outer] = [count(dims.slice(along)), count(dims.slice(0, along))];
  let begin = 0;
  for (const part of parts) {
    const width = count(part.dims.slice(along));
    for (let row = 0; row < outer; row += 1) {
      result.data.set(part.data.subarray(row * width, (row + 1) * width), row * inner + begin);
    }
    begin += width;
  }
  return result;
}

export function split([x, sizes], { axis = 0, num_outputs: parts }) {
  const along = axisOf(axis, x.dims);
  const each = Math.ceil(x.dims[along] / parts);
  const strides = stridesOf(x.dims);
  let begin = 0;
  return (sizes ? [...sizes.data] : Array.from({ length: parts }, () => each)).map((size) => {
    const dims = [...x.dims];
    dims[along] = Math.min(size, x.dims[along] - begin);
    const part = gatherStrided(x, dims, strides, begin * strides[along]);
    begin += size;
    return part;
  });
}

export function pad([x, pads, fill]) {
  const rank = x.dims.length;
  const dims = x.dims.map((size, axis) => size + pads.data[axis] + pads.data[axis + rank]);
  const result = tensor(x.type, dims);
  if (fill) result.data.fill(fill.data[0]);
  const strides = stridesOf(dims);
  const begin = strides.reduce((sum, step, axis) => sum + step * pads.data[axis], 0);
  const width = x.dims[rank - 1];
  eachRow(x.dims, [strides], (o, [place]) => result.data.set(x.data.subarray(o, o + width), begin + place));
  return result;
}

export function tile([x, repeats]) {
  const times = [...repeats.data];
  // Each axis becomes two: the repetition, and the axis itself.
  const wide = x.dims.flatMap((size, axis) => [times[axis], size]);
  const strides = stridesOf(x.dims).flatMap((step) => [0, step]);
  const dims = x.dims.map((size, axis) => size * times[axis]);
  return tensor(x.type, dims, gatherStrided(x, wide, strides).data);
}

export function gather([x, places], { axis = 0 }) {
  const along = axisOf(axis, x.dims);
  const [before, after] = [x.dims.slice(0, along), x.dims.slice(along + 1)];
  const [outer, inner, size] = [count(before), count(after), x.dims[along]];
  const result = tensor(x.type, [...before, ...places.dims, ...after]);
  let o = 0;
  for (let row = 0; row < outer; row += 1) {
    for (const place of places.data) {
      const from = (row * size + (place < 0 ? place + size : place)) * inner;
      if (place >= size || place < -size) throw new RangeError(`there is no element ${place} among ${size}`);
      result.data.set(x.data.subarray(from, from + inner), o);
      o += inner;
    }
  }
  return result;
}

/** The place in x of each element of `places`, which name the place along one axis. */
function* placesAlong(x, places, axis) {
  const along = axisOf(axis, x.dims);
  const [steps, own] = [stridesOf(x.dims), stridesOf(places.dims)];
  for (let o = 0; o < places.data.length; o += 1) {
    let place = 0;
    for (let one = 0; one < steps.length; one += 1) {
      const at = places.data[o] < 0 ? places.data[o] + x.dims[along] : places.data[o];
      place += steps[one] * (one === along ? at : Math.floor(o / own[one]) % places.dims[one]);
    }
    yield place;
  }
}

export function gatherElements([x, places], { axis = 0 }) {
  const result = tensor(x.type, places.dims);
  let o = 0;
  for (const place of placesAlong(x, places, axis)) result.data[o++] = x.data[place];
  return result;
}

export function scatterElements([x, places, updates], { axis = 0 }) {
  const result = tensor(x.type, x.dims, x.data.slice());
  let o = 0;
  for (const place of placesAlong(x, places, axis)) result.data[place] = updates.data[o++];
  return result;
}

export function cast([x], { to }) {
  if (to === x.type) return x;
  const result = tensor(to, x.dims);
  for (let i = 0; i < x.data.length; i += 1) {
    result.data[i] = to === "bool" ? x.data[i] !== 0 : to === "float32" ? x.data[i] : Math.trunc(x.data[i]);
  }
  return result;
}

export function range([start, end, step]) {
  const [from, by] = [start.data[0], step.data[0]];
  const size = Math.max(0, Math.ceil((end.data[0] - from) / by));
  return tensor(start.type, [size], Array.from({ length: size }, (_, i) => from + i * by));
}

export function shapeOf([x], { start = 0, end = x.dims.length }) {
  const sizes = x.dims.slice(start, end);
  return tensor("int64", [sizes.length], sizes);
}
