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
    const rows = x.data.length / (inner || 1);
    const [given, w, r] = [x.data, weight.data, result.data];
    for (let o = 0; o < outputs; o += 1) {
      const from = o * inner;
      const start = bias ? bias.data[o] : 0;
      for (let row = 0; row < rows; row += 1) {
        const at = row * inner;
        let sum = start;
        for (let k = 0; k < inner; k += 1) sum += given[at + k] * w[from + k];
        r[row * outputs + o] = sum;
      }
    }
    return result;
  }
}

const PAGE = 65536; // the unit in which memory is given
const LOW = PAGE; // the first bytes belong to the compiled code
const SCRATCH = 1 << 18; // numbers for the rows of one call and their products

/** Products by WebAssembly, whose memory holds the weights; others are computed in plain JavaScript. */
class SimdProducts extends PlainProducts {
  kind = "simd";

  constructor(size, memory, compiled) {
    super(0);
    this.buffer = memory.buffer;
    this.compiled = compiled;
    this.scratch = new Float32Array(memory.buffer, LOW, SCRATCH);
    this.room = new Float32Array(memory.buffer, LOW + 4 * SCRATCH, size);
  }

  linear(x, weight, bias) {
    const [outputs, inner] = weight.dims;
    const most = Math.floor(SCRATCH / (inner + outputs));
    const known = weight.data.buffer === this.buffer && (!bias || bias.data.buffer === this.buffer);
    if (!known || !most) return super.linear(x, weight, bias);
    const result = tensor("float32", [...x.dims.slice(0, -1), outputs]);
    const rows = x.data.length / inner;
    const [from, added] = [weight.data.byteOffset, bias ? bias.data.byteOffset : 0];
    for (let row = 0; row < rows; row += most) {
      const some = Math.min(most, rows - row);
      const end = some * inner;
      this.scratch.set(x.data.subarray(row * inner, row * inner + end));
      this.compiled.linear(LOW, from, added, LOW + 4 * end, some, inner, outputs);
      result.data.set(this.scratch.subarray(end, end + some * outputs), row * outputs);
    }
    return result;
  }
}

/** Products for this many weights: by WebAssembly if these bytes are given and the browser can run them. */
export async function openProducts(bytes, size) {
  if (bytes) {
    try {
      const pages = Math.ceil((LOW + 4 * SCRATCH + 4 * size) / PAGE);
      const memory = new WebAssembly.Memory({ initial: pages });
      const { instance } = await WebAssembly.instantiate(bytes, { env: { memory } });
      return new SimdProducts(size, memory, instance.exports);
    } catch {
      // A browser without WebAssembly or its SIMD instructions computes in plain JavaScript.
    }
  }
  return new PlainProducts(size);
}
