// Answers requests to the models of a file, with the paths and the JSON of the server.

import { checkFields } from "./fields.js";
import { decodeBase64, openModel, unpack } from "./model.js";
import { Problem } from "./problem.js";
import { openProducts } from "./products.js";
import { OPENERS } from "./tasks.js";

const AT_ONCE = 30; // milliseconds of work, after which messages are let in

/** The models of packed blocks, ready to answer. `plain` does without WebAssembly. */
export async function openModels({ blocks, products = null, plain = false }) {
  const bytes = products && !plain ? decodeBase64(products) : null;
  const models = [];
  for (const block of blocks) {
    const model = await openModel(await unpack(block), (size) => openProducts(bytes, size));
    models.push({ ...model, answers: OPENERS[model.task]?.(model) ?? {} });
  }
  return models;
}

/** The answer to one request; a sentence for the reader is thrown as a Problem. */
export async function answer(models, path, body, context) {
  if (path === "models") return models.map((model) => model.about);
  checkFields(path, body);
  const able = models.filter((model) => path in model.answers);
  // Of several translators, the one between the languages of the request.
  const fits = ({ about }) => about.source === body?.source && about.target === body?.target;
  let model = able.find(fits) ?? able[0];
  if (body?.model !== undefined && body.model !== null) {
    model = models.find((one) => one.name === body.model);
    if (!model) {
      const names = models.map((one) => one.name).join(", ");
      throw new Problem(`no model '${String(body.model).slice(0, 80)}' here; there are: ${names}`);
    }
  }
  if (!able.includes(model)) {
    throw new Problem(`no model here answers ${path}${model ? `: ${model.name} does not` : ""}`);
  }
  return model.answers[path](body, context);
}

/** An engine that takes messages {open}, {id, path, body} and {cancel}, and sends {id, answer} or {id, problem}. */
export function openEngine(send) {
  let opened = null;
  const running = new Map();

  async function respond({ id, path, body }) {
    const signal = { aborted: false };
    running.set(id, signal);
    try {
      send({ id, answer: await answer(await opened, path, body, makeContext(signal)) });
    } catch (error) {
      if (signal.aborted) return;
      const known = error instanceof Problem;
      if (!known) console.error(error);
      send({ id, problem: known ? error.message : `the model failed (${error.message})` });
    } finally {
      running.delete(id);
    }
  }

  return {
    receive(message) {
      if (message.open) opened = openModels(message.open);
      else if (message.cancel !== undefined) (running.get(message.cancel) ?? {}).aborted = true;
      else respond(message);
    },
  };
}

/** What a task sees of its request: whether it was cancelled, and a pause that lets messages in. */
export function makeContext(signal = { aborted: false }) {
  let last = performance.now();
  return {
    signal,
    async pause() {
      if (performance.now() - last >= AT_ONCE) {
        await new Promise(soon);
        last = performance.now();
      }
      if (signal.aborted) throw new Problem("the request was cancelled");
    },
  };
}

/** Call a function after the messages that are waiting; timers would wait longer. */
function soon(act) {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    act();
  };
  port2.postMessage(null);
}
