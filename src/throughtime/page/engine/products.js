// Products of weights: W x + b for every row x.

import { tensor } from "./tensor.js";

/** Products in plain JavaScript. */
export class PlainProducts {
  kind = "plain";

  /** `room` holds all weights of a model. */
  constructor(size) {
    this.room = new Float32Array(size);
  }

  /** W x + b for x [..., I], W [O, I] and b [O]. */
  linear(x, weight, bias) {
    const [outputs, inner] = weight.dims;
    const result = tensor("float32", [...x.dims.slice(0, -1), outputs]);
    const rows = result.data.length / (outputs || 1);
    for (let row = 0; row < rows; row += 1) {
      multiplyRow(x.data, row * inner, weight.data, inner, result.data, row * outputs, outputs);
    }
    if (bias) for (let i = 0; i < result.data.length; i += 1) result.data[i] += bias.data[i % outputs];
    return result;
  }
}

/** One row of x with four rows of w at once, which then read each number of x only once. */
function multiplyRow(x, at, w, inner, result, into, outputs) {
  let o = 0;
  for (; o + 4 <= outputs; o += 4) {
    const first = o * inner;
    const [second, third, fourth] = [first + inner, first + 2 * inner, first + 3 * inner];
    let [a, b, c, d] = [0, 0, 0, 0];
    for (let k = 0; k < inner; k += 1) {
      const value = x[at + k];
      a += value * w[first + k];
      b += value * w[second + k];
      c += value * w[third + k];
      d += value * w[fourth + k];
    }
    result[into + o] = a;
    result[into + o + 1] = b;
    result[into + o + 2] = c;
    result[into + o + 3] = d;
  }
  for (; o < outputs; o += 1) {
    let sum = 0;
    for (let k = 0; k < inner; k += 1) sum += x[at + k] * w[o * inner + k];
    result[into + o] = sum;
  }
}

const PAGE = 65536; // the unit in which memory is given
const LOW = PAGE; // the first bytes belong to the compiled code
const SCRATCH = 1 << 18; // numbers for the rows of one call, their products and a bias
const GUESTS = 1 << 19; // numbers for weights that were chosen for one sentence

/** Products by WebAssembly, whose memory holds the weights; what does not fit is computed in plain JavaScript. */
class SimdProducts extends PlainProducts {
  kind = "simd";

  constructor(size, memory, compiled) {
    super(0);
    this.compiled = compiled;
    this.scratch = new Float32Array(memory.buffer, LOW, SCRATCH);
    this.guests = new Float32Array(memory.buffer, LOW + 4 * SCRATCH, GUESTS);
    this.room = new Float32Array(memory.buffer, LOW + 4 * (SCRATCH + GUESTS), size);
    this.guest = null;
  }

  linear(x, weight, bias) {
    const [outputs, inner] = weight.dims;
    const most = Math.floor((SCRATCH - outputs) / (inner + outputs));
    const from = this.place(weight);
    if (from === null || most < 1) return super.linear(x, weight, bias);
    const result = tensor("float32", [...x.dims.slice(0, -1), outputs]);
    const rows = result.data.length / (outputs || 1);
    const begin = bias ? outputs : 0;
    if (bias) this.scratch.set(bias.data);
    const address = (number) => LOW + 4 * number;
    for (let row = 0; row < rows; row += most) {
      const some = Math.min(most, rows - row);
      const end = begin + some * inner;
      this.scratch.set(x.data.subarray(row * inner, (row + some) * inner), begin);
      this.compiled.linear(address(begin), from, bias ? LOW : 0, address(end), some, inner, outputs);
      result.data.set(this.scratch.subarray(end, end + some * outputs), row * outputs);
    }
    return result;
  }

  /** Where weights are in the memory; those that are not yet there are copied, if there is room. */
  place({ data, kept }) {
    if (data.buffer === this.room.buffer) return data.byteOffset;
    if (data.length > GUESTS) return null;
    if (!kept || this.guest !== data) this.guests.set(data);
    this.guest = data;
    return this.guests.byteOffset;
  }
}

/** Products for this many weights: by WebAssembly if these bytes are given and the browser can run them. */
export async function openProducts(bytes, size) {
  if (bytes) {
    try {
      const pages = Math.ceil((LOW + 4 * (SCRATCH + GUESTS + size)) / PAGE);
      const memory = new WebAssembly.Memory({ initial: pages });
      const { instance } = await WebAssembly.instantiate(bytes, { env: { memory } });
      return new SimdProducts(size, memory, instance.exports);
    } catch {
      // A browser without WebAssembly or its SIMD instructions computes in plain JavaScript.
    }
  }
  return new PlainProducts(size);
}
