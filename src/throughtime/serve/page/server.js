// Asking the server. An answer is JSON; whatever goes wrong becomes one sentence.

export class Problem extends Error {}

let key = null;

/** Use an API key from now on. It is kept in memory only. */
export function useKey(given) {
  key = given || null;
}

async function fetched(path, options) {
  const headers = { ...(options.headers ?? {}), ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  try {
    return await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not answer; is it still running?");
  }
}

async function understood(response) {
  let body = null;
  try {
    body = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (response.ok && body !== null) return body;
  if (response.status === 401 || response.status === 403) document.getElementById("key").hidden = false;
  const told = body && typeof body.error === "string" ? body.error : `the server answered ${response.status}`;
  const sentence = told.charAt(0).toUpperCase() + told.slice(1);
  throw new Problem(/[.!?]$/.test(sentence) ? sentence : `${sentence}.`);
}

export const get = async (path) => understood(await fetched(path, {}));

export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return understood(await fetched(path, { method: "POST", headers, body: JSON.stringify(body), signal }));
}
