// The engine over HTTP: each question is a request. An answer is JSON; any problem becomes one sentence.

import { Problem } from "./engine/problem.js";
import { say } from "./words.js";

let key = null;

/** Use an API key from now on. It is kept in memory only. */
export function useKey(newKey) {
  key = newKey || null;
}

async function request(path, options) {
  const headers = { ...(options.headers ?? {}), ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  try {
    return await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(say("The server does not answer; is it still running?"));
  }
}

async function readAnswer(response) {
  let body = null;
  try {
    body = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (response.ok && body !== null) return body;
  if (response.status === 401 || response.status === 403) document.getElementById("key").hidden = false;
  const problem = body?.error?.message ?? body?.error;
  throw new Problem(
    typeof problem === "string" ? problem : say("The server answered {status}.", { status: response.status }),
  );
}

export const server = {
  kind: "server",
  get: async (path) => readAnswer(await request(path, {})),
  async post(path, body, signal) {
    const headers = { "Content-Type": "application/json" };
    return readAnswer(await request(path, { method: "POST", headers, body: JSON.stringify(body), signal }));
  },
  /** Whether requests carry a key, which other programs must send too. */
  get needsKey() {
    return key !== null;
  },
};
