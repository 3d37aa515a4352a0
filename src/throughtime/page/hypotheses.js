// What the page says about the hypotheses of a beam search: their texts, and why they were kept or cut.

import { percent, short } from "./dom.js";
import { pathTo } from "./equations.js";
import { WIDE } from "./intervene.js";
import { isolate } from "./matrix.js";
import { say } from "./words.js";

export const END = "⟨end⟩";

/** What happened at a step. */
export function describeStep(tree, step) {
  const own = tree.nodes.filter((node) => node.step === step);
  const kept = own.filter((node) => node.status === "kept").length;
  const ended = own.filter((node) => node.status === "ended").length;
  const told = say("Step {step}: {kept} kept, {ended} ended; of the others, which were cut, {cut} are shown.", {
    step,
    kept,
    ended,
    cut: own.length - kept - ended,
  });
  const { text, score } = tree.results[0];
  return step < tree.steps
    ? told
    : `${told} ${say("The best: “{text}”, score {score}.", { text, score: short(score) })}`;
}

/** What became of a node of the tree, and why. */
export function describeNode(tree, place) {
  const node = tree.nodes[place];
  return say("“{text}”: {reason}. Probability of the token: {share}; of the whole text: ln P {total}, score {score}.", {
    text: isolate(joinPieces(tree.nodes, place)),
    reason: reasonOf(tree, node),
    share: percent(node.probability),
    total: short(node.log_prob),
    score: short(node.score),
  });
}

/** The reason of a node in the language of the page; the answer has it in English. */
function reasonOf(tree, { status, reason, score }) {
  const width = tree.width;
  const numbers = (reason.match(/[−-]?\d+(\.\d+)?/g) ?? []).map((one) => one.replace("-", "−"));
  if (status === "ended") return say("a complete translation, with the score {score}", { score: short(score) });
  if (status === "kept")
    return width > 1 ? say("one of the {width} best of this step", { width }) : say("the best of this step");
  const [first, second, third] = numbers;
  if (/^not among the \d+ best of this step: ln P/.test(reason))
    return say("not among the {width} best of this step: ln P {own}, the last has {last}", {
      width,
      own: second,
      last: third,
    });
  if (reason.startsWith("a complete translation, but"))
    return say("a complete translation, but its score {own} is below the best found, {found}", {
      own: first,
      found: second,
    });
  if (reason.startsWith("cannot win"))
    return say("cannot win: it can reach at most {reach}, and {found} was found already", {
      reach: first,
      found: second,
    });
  return reason;
}

/** The text up to a node of the tree. */
export function joinPieces(nodes, place) {
  if (place === null) return "";
  const pieces = pathTo(nodes, place).map((at) => (nodes[at].label === END ? ` ${END}` : nodes[at].piece));
  // A character of several tokens is unknown until its last one.
  return pieces
    .join("")
    .replace(/\ufffd+(?=.)/gu, "")
    .trim();
}

/**
 * The word that a token belongs to, as far as it is written: a token inside a word has a dot before it. Chinese has
 * no spaces between words: there a token stands for itself.
 */
export function wordOf(nodes, place) {
  const path = pathTo(nodes, place);
  let first = path.length - 1;
  while (first > 0 && nodes[path[first]].label.startsWith("·") && !WIDE.test(nodes[path[first]].piece)) first -= 1;
  return (
    path
      .slice(first)
      .map((at) => nodes[at].piece)
      .join("")
      .replace(/\ufffd+(?=.)/gu, "")
      .trim() || null
  );
}
