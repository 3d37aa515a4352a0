// The engine inside a file: requests are answered by a worker, which runs the models that the file holds.

import { Problem } from "./engine/problem.js";

/** The engine of the models in this document; null if it holds none. */
export function openLocal() {
  const parts = globalThis.throughtimeParts; // from unpack.js
  if (!parts) return null;
  const blocks = [...document.querySelectorAll('script[data-part="model"]')].map((one) => one.textContent);
  const waiting = new Map();
  let requests = 0;

  function settle({ id, answer, problem }) {
    const request = waiting.get(id);
    waiting.delete(id);
    if (problem === undefined) request?.resolve(answer);
    else request?.reject(new Problem(sentence(problem)));
  }

  const send = start(parts.worker, settle, () => {
    for (const id of waiting.keys()) settle({ id, problem: "the models of this file could not be opened" });
  });
  const plain = new URLSearchParams(location.search).has("plain");
  send({ open: { blocks, products: parts.products, plain } });

  function ask(path, body, signal) {
    requests += 1;
    const id = requests;
    return new Promise((resolve, reject) => {
      const cancel = () => {
        waiting.delete(id);
        send({ cancel: id });
        reject(new DOMException("The request was cancelled.", "AbortError"));
      };
      if (signal?.aborted) return cancel();
      signal?.addEventListener("abort", cancel, { once: true });
      waiting.set(id, { resolve, reject });
      return send({ id, path, body });
    });
  }

  return { kind: "file", get: (path) => ask(path, null), post: ask };
}

/** Start the script of the engine in a worker, or in this page where workers are forbidden; returns how to send. */
function start(script, receive, fail) {
  try {
    const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    const worker = new Worker(address);
    worker.addEventListener("message", (event) => receive(event.data));
    worker.addEventListener("error", fail);
    return (message) => worker.postMessage(message);
  } catch {
    const element = document.createElement("script");
    element.textContent = script;
    document.head.append(element);
    const engine = globalThis.openThroughtimeEngine(receive);
    return (message) => engine.receive(message);
  }
}

function sentence(problem) {
  const text = problem.charAt(0).toUpperCase() + problem.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
