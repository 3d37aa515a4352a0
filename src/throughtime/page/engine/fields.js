// The fields of requests: others are refused, since a typo would change nothing; see serve/requests.py.

import { Problem } from "./problem.js";

const DRAWING = "temperature top_k top_p seed";
const SEARCH = "search num_beams length_penalty";

export const FIELDS = {
  translate: `q source target format alternatives num_return_sequences shortlist api_key model ${SEARCH}`,
  compose: `label vector model num_return_sequences greedy max_new_tokens ${SEARCH} ${DRAWING}`,
  "v1/completions":
    "model prompt suffix max_tokens n stop echo logprobs stream stream_options best_of frequency_penalty " +
    `presence_penalty logit_bias user ${SEARCH} ${DRAWING}`,
  tag: "q model tokenize",
  classify: "q model k",
  fill: "q model k num_beams",
  forecast: "series model h date_format level",
  "inspect/attention": "q model prefix forbid alternatives",
  "inspect/beam": "q model prefix forbid num_beams",
  "inspect/gates": "q model layer units",
  "inspect/next": "q model k",
  "inspect/history": "model rows",
};
const DIVERSE = ["groups", "diversity_penalty", "per_group"];

/** Refuse fields that the path of a request does not have. */
export function checkFields(path, body) {
  const known = [...(FIELDS[path]?.split(" ") ?? []), ...(body?.search === "diverse" ? DIVERSE : [])];
  const strange = path in FIELDS && Object.keys(body ?? {}).find((name) => !known.includes(name));
  if (strange) throw new Problem(`${strange}: is not a field of this request, which takes ${known.sort().join(", ")}`);
}
