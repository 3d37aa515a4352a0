// The script in which the models of a file run: in a worker, or in the page itself where workers are forbidden.

import { openEngine } from "./requests.js";

if (typeof WorkerGlobalScope !== "undefined" && globalThis instanceof WorkerGlobalScope) {
  const engine = openEngine((message) => postMessage(message));
  addEventListener("message", (event) => engine.receive(event.data));
} else {
  globalThis.openThroughtimeEngine = openEngine;
}
