// A request of the page in the words of other programs: curl, Python over HTTP, and Python with the library.

import { engine } from "./engine.js";
import { say } from "./words.js";

/** Pairs of a title and a text. `model` is the one that GET models lists. */
export function describeRequest(path, body, model) {
  const address = engine.kind === "server" ? new URL(path, location.href).href : `http://127.0.0.1:8000/${path}`;
  const key = Boolean(engine.needsKey);
  const begin = engine.kind === "server" ? "" : `# throughtime serve ${runOf(model)}\n`;
  return [
    ["curl", begin + curl(address, body, key)],
    [say("Python, over HTTP"), begin + overHttp(address, body, key)],
    [say("Python, with the library"), withLibrary(path, body, model)],
  ];
}

const runOf = (model) => `runs/${model.name}`;
const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** A value as Python writes it. */
function python(value) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const entries = Object.entries(value).map(([name, one]) => `${python(name)}: ${python(one)}`);
  return `{${entries.join(", ")}}`;
}

function curl(address, body, key) {
  const header = key ? ' -H "Authorization: Bearer $KEY"' : "";
  return `curl ${address}${header} -H 'Content-Type: application/json' \\\n  -d ${shell(JSON.stringify(body))}`;
}

function overHttp(address, body, key) {
  const header = key ? ', "Authorization": f"Bearer {KEY}"' : "";
  return `import json
from urllib.request import Request, urlopen

body = ${python(body)}
request = Request("${address}", json.dumps(body).encode(), {"Content-Type": "application/json"${header}})
print(json.load(urlopen(request)))`;
}

/** The same question without a server. */
function withLibrary(path, { model: _, ...body }, model) {
  const { q, alternatives, ...rest } = body;
  const open = (lines) => `import throughtime as tt\n${lines}\nmodel = tt.load("${runOf(model)}")  # the folder of the model\n`;
  const call = (name, first, options = {}) => {
    const given = Object.entries(options).filter(([, value]) => value !== undefined);
    return `${name}(${[...first, ...given.map(([option, value]) => `${option}=${python(value)}`)].join(", ")})`;
  };
  const method = (name, first, options) => `${open("")}print(${call(`model.${name}`, first, options)})`;
  const look = (place, name, options) =>
    open(`from throughtime.inspection.${place} import ${name}\n`) +
    `print(${call(name, ["model", python(q)], options)})`;
  switch (path) {
    case "inspect/attention": {
      const several = alternatives ? { search: "diverse", num_return_sequences: alternatives + 1 } : {};
      return method("translate", [python(q)], { ...several, ...rest, align: true });
    }
    case "inspect/beam":
      return look("translation", "beam_tree", rest);
    case "inspect/gates":
      return look("gates", "unit_gates");
    case "inspect/next":
      return look("next_tokens", "next_tokens", rest);
    case "v1/completions": {
      const { prompt, max_tokens, n, temperature, top_k, top_p, seed } = body;
      const options = { max_new_tokens: max_tokens, num_return_sequences: n, temperature, top_k, top_p, seed };
      return method("generate", [python(prompt)], options);
    }
    case "compose": {
      const { label, vector, ...options } = body;
      return method("compose", [python([label ?? vector])], options);
    }
    case "forecast": {
      const { series, ...options } = body;
      const values = Object.fromEntries(series.map((one) => [one.unique_id, one.y]));
      return method("forecast", [python(values)], options);
    }
    case "inspect/history":
      return method("forecast", []);
    default:
      return method(model.method ?? path, [python(q)], rest);
  }
}
