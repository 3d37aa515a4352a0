// What answers the questions of the page: a server, or the models inside this file. Views never see which.

/** {kind, get(path), post(path, body, signal)}; kind is "server" or "file". */
export const engine = { kind: "server", get: null, post: null };

/** Let this one answer from now on. */
export function useEngine(chosen) {
  Object.assign(engine, chosen);
  globalThis.throughtime = { engine }; // for whoever opens the browser's console
}
