// Arrays of numbers with a type and a shape.

const ARRAYS = { float32: Float32Array, int64: Int32Array, int32: Int32Array, bool: Uint8Array };

/** The number of elements of a shape. */
export const count = (dims) => dims.reduce((product, size) => product * size, 1);

/** A tensor {type, dims, data}; without data it is filled with zeros, and a list becomes a typed array. */
export function tensor(type, dims, data) {
  const size = count(dims);
  if (data === undefined) data = new ARRAYS[type](size);
  else if (!ArrayBuffer.isView(data)) data = ARRAYS[type].from(data);
  if (data.length !== size) throw new RangeError(`${data.length} numbers do not fill [${dims}]`);
  return { type, dims, data };
}

/** Ids or sizes as a vector. */
export const ids = (list) => tensor("int64", [list.length], Int32Array.from(list));

/** The parts of the first axis of a tensor that have these numbers. */
export function takeRows(from, rows) {
  const width = count(from.dims.slice(1));
  const result = tensor(from.type, [rows.length, ...from.dims.slice(1)]);
  rows.forEach((row, place) => result.data.set(from.data.subarray(row * width, (row + 1) * width), place * width));
  return result;
}

/** An axis counted from the front. */
export const axisOf = (axis, dims) => (axis < 0 ? axis + dims.length : axis);
