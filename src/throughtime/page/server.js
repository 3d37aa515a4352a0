// Requests to the server. An answer is JSON; any problem becomes one sentence.

export class Problem extends Error {}

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
    throw new Problem("The server does not answer; is it still running?");
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
  const problem = body && typeof body.error === "string" ? body.error : `the server answered ${response.status}`;
  const sentence = problem.charAt(0).toUpperCase() + problem.slice(1);
  throw new Problem(/[.!?]$/.test(sentence) ? sentence : `${sentence}.`);
}

export const get = async (path) => readAnswer(await request(path, {}));

export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return readAnswer(await request(path, { method: "POST", headers, body: JSON.stringify(body), signal }));
}
