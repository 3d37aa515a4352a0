// Opens the models of an exported HTML file in node, as the worker of the page does.

import { readFileSync } from "node:fs";

import { answer, makeContext, openModels } from "../../src/throughtime/page/engine/requests.js";

const PAGE = new URL("../../src/throughtime/page/", import.meta.url);

/** The models of a file; `plain` does without WebAssembly. */
export async function openFile(path, { plain = false } = {}) {
  const text = readFileSync(path, "utf8");
  const found = text.matchAll(/<script type="text\/plain" data-part="model">([^<]*)<\/script>/g);
  const blocks = [...found].map((one) => one[1]);
  const products = readFileSync(new URL("engine/products.wasm", PAGE)).toString("base64");
  return openModels({ blocks, products, plain });
}

/** The answer of the file's models to a request. */
export const ask = (models, path, body) => answer(models, path, body, makeContext());
