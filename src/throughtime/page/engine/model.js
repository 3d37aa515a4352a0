// Opens the models of a file: each is one block of bytes, made by throughtime/graphs/describe.py.

import { Graph } from "./graph.js";
import { count, tensor } from "./tensor.js";

/** The bytes of a text in base64. */
export function decodeBase64(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/** The bytes of a packed block: base64 of a deflated stream. */
export async function unpack(text) {
  const stream = new Blob([decodeBase64(text)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** A model: its name, task, settings, files and graphs. `makeProducts(size)` has room for that many weights. */
export async function openModel(block, makeProducts) {
  const length = new DataView(block.buffer, block.byteOffset).getUint32(0, true);
  const description = JSON.parse(new TextDecoder().decode(block.subarray(4, 4 + length)));
  const { about, settings, files, graphs, constants } = description;
  const { tensors, products } = await openConstants(constants, block.slice(4 + length), makeProducts);
  const opened = Object.entries(graphs).map(([part, graph]) => [part, new Graph(graph, tensors, products)]);
  return { name: about.name, task: about.task, about, settings, files, graphs: Object.fromEntries(opened), products };
}

/** The constants of a model as tensors, from bytes that begin with the first of them. */
export async function openConstants(constants, bytes, makeProducts) {
  const sizes = constants.map(({ shape }) => count(shape));
  const floats = constants.map(({ type }, number) => (type === "float32" ? (sizes[number] + 3) & ~3 : 0));
  const products = await makeProducts(floats.reduce((sum, size) => sum + size, 0));
  let place = 0;
  const tensors = constants.map((constant, number) => {
    const size = sizes[number];
    if (constant.type !== "float32") return tensor(constant.type, constant.shape, integers(bytes, constant, size));
    const data = products.room.subarray(place, place + size);
    place += floats[number];
    readFloats(bytes, constant, data);
    return tensor("float32", constant.shape, data);
  });
  return { tensors, products };
}

function integers(bytes, { stored, place }, size) {
  if (stored === "uint8") return bytes.slice(place, place + size);
  return new Int32Array(bytes.buffer.slice(place, place + 4 * size));
}

/** Fill `into` with weights that are stored as int8 with a scale for each row, as float16 or as float32. */
function readFloats(bytes, { shape, stored, place, scale }, into) {
  const size = into.length;
  if (stored === "float32") into.set(new Float32Array(bytes.buffer, place, size));
  else if (stored === "float16") {
    const halves = new Uint16Array(bytes.buffer, place, size);
    for (let i = 0; i < size; i += 1) into[i] = half(halves[i]);
  } else {
    const width = shape.at(-1);
    const levels = new Int8Array(bytes.buffer, place, size);
    const scales = new Float32Array(bytes.buffer, scale, size / width);
    for (let row = 0, i = 0; row < scales.length; row += 1) {
      for (const end = i + width; i < end; i += 1) into[i] = levels[i] * scales[row];
    }
  }
}

/** A number of 16 bits: a sign, five bits of exponent, ten of fraction. */
function half(bits) {
  const [sign, exponent, fraction] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
