// "What am I seeing?": a panel beside a picture that explains it with the numbers of this very answer.

import { make, percent, short } from "./dom.js";
import { attentionRow, beamSum, figure, unitEquations } from "./equations.js";
import { say, word } from "./words.js";

/** What each letter of a cell is. */
export const MEANINGS = {
  f: word("forget gate: 1 keeps the memory"),
  z: word("update gate: 1 keeps the state"),
  "1 - z": word("1 keeps the state"),
  i: word("input gate: 1 lets the input in"),
  o: word("output gate: 1 shows the memory"),
  r: word("reset gate: 0 ignores the past"),
  g: word("candidate: what may be added"),
  n: word("candidate: what the state may become"),
  h: word("state: what the unit passes on"),
  c: word("memory"),
  "tanh c": word("memory between −1 and 1"),
};
// What z means is the other way round in this cell.
const TURNED = word("update gate: 1 takes the new value");

/** The meaning of a letter of a cell, or nothing. */
export const meaning = (letter, letters) =>
  letter === "z" && letters.includes("1 - z") ? say(TURNED) : MEANINGS[letter] ? say(MEANINGS[letter]) : "";

/** A panel that opens and closes; `tell` replaces what it says. It begins open where there is room beside the picture. */
export class Explanation {
  constructor() {
    this.body = make("div", { class: "explained" });
    this.element = make(
      "details",
      { class: "explain", open: matchMedia("(min-width: 62rem)").matches },
      make("summary", {}, say("What am I seeing?")),
      this.body,
    );
  }

  tell(...nodes) {
    this.body.replaceChildren(...nodes.flat().filter(Boolean));
  }
}

const SUBSCRIPTS = { before: word("before"), new: word("new"), normalised: word("normalised") };

/** A raised number or word; who listens instead of looking hears that it is an exponent. */
const exponent = (...raised) => [
  make("span", { class: "unseen" }, say(" to the power of ")),
  make("sup", {}, ...raised),
];

/** Letters as variables, "h_before" with a small word below. */
export function formula(text) {
  const pieces = text.split(/(tanh c(?!\()|tanh|[a-zA-Zα]+_[a-z]+|\b[a-zα]\b)/u);
  return pieces.filter(Boolean).map((piece) => {
    const [letter, below] = piece.split("_");
    if (below) return make("span", {}, make("var", {}, letter), make("sub", {}, `\u202f${say(SUBSCRIPTS[below])}`));
    return /^[a-zα]$/u.test(piece) ? make("var", {}, piece) : piece;
  });
}

function equation({ letter, symbols, numbers, value }, said = "") {
  const line = (text) =>
    text === null || text === undefined ? null : make("span", { class: "side" }, "= ", formula(text));
  return make(
    "div",
    { class: "equation" },
    make("span", { class: "left" }, formula(letter)),
    make(
      "span",
      { class: "right" },
      line(symbols),
      line(numbers),
      make("span", { class: "side" }, "= ", make("strong", {}, figure(value))),
    ),
    said ? make("span", { class: "words" }, said) : null,
  );
}

const text = (sentence) => make("p", {}, sentence);

const INTRODUCTIONS = {
  gru: word(
    "A unit of a GRU holds one number, its state h. At each token, the unit forms three weighted sums, for r, z and n, from the numbers that stand for the token and from the old states of all units. The curve σ squeezes a sum to a number between 0 (shut) and 1 (open), tanh to one between −1 and 1. Then h becomes a mixture: z says how much of the old state stays.",
  ),
  lstm: word(
    "A unit of an LSTM has a memory c, and shows part of it as its state h. At each token, the unit forms four weighted sums, for f, i, g and o, from the numbers that stand for the token and from the old states of all units. The curve σ squeezes a sum to a number between 0 (shut) and 1 (open), tanh to one between −1 and 1. f says how much of the memory stays, i how much of g is added, o how much is shown.",
  ),
  mingru: word(
    "A unit of this cell holds one number, its state h. Its gate z sees only the token, not the past. The new state is a mixture of the old one and of a new value, computed from the token alone.",
  ),
  minlstm: word(
    "A unit of this cell holds one number, its state h. Its gates f and i see only the token, not the past, and add up to 1. The new state is a mixture of the old one and of a new value, computed from the token alone.",
  ),
  rnn: word(
    "A unit of a plain network has no gates. At each token, its state h is computed anew from a weighted sum of the numbers that stand for the token and of the old states of all units.",
  ),
};

/** A unit at a step: its gates, and the sum that they make. */
export function tellUnit(answer, row, step) {
  const { form, lines, keeps, before, projected, normalised } = unitEquations(answer, row, step);
  const where = { unit: answer.units[row], token: answer.tokens[step] };
  const notes = [];
  if (before === "zero") notes.push(say("At its first step, a layer has nothing to remember: the value before is 0."));
  if (before === "computed")
    notes.push(
      say(
        "The value before this step came from another part of the model and is not in the picture; it was computed back from the equation.",
      ),
    );
  if (before === "unknown")
    notes.push(say("The value before this step is unknown (?), but so little of it is kept that it does not count."));
  if (normalised) notes.push(say("This cell normalises the memory over all units before it is shown."));
  if (projected !== undefined)
    notes.push(
      say("This cell then mixes the products of all units by a matrix; here the state became h = {h}.", {
        h: figure(projected),
      }),
    );
  if (!form) notes.push(say("The equations of this cell are its own; these are the values of its letters."));
  const share =
    keeps === null || !form
      ? null
      : say("So at “{token}” unit {unit} keeps {share} of what it held before.", { ...where, share: percent(keeps) });
  return [
    make("h3", {}, say("Unit {unit} at “{token}”", where)),
    INTRODUCTIONS[form] ? text(say(INTRODUCTIONS[form])) : null,
    make(
      "div",
      { class: "equations" },
      lines.map((line) => equation(line, meaning(line.letter, answer.gates))),
    ),
    share ? make("p", { class: "so" }, share) : null,
    ...notes.map((note) => make("p", { class: "hint" }, note)),
    form && form !== "rnn"
      ? make(
          "p",
          { class: "hint" },
          say("The number inside σ or tanh is the weighted sum; it was computed back from the result."),
        )
      : null,
  ];
}

const MAX_ROWS = 8;

const others = (count) => (count === 1 ? say("1 other") : say("{count} others", { count }));

function table(name, heads, rows) {
  const cells = (kind, row) =>
    row.map((one, i) =>
      make(
        i ? kind : "th",
        {
          ...(i ? {} : { scope: kind === "th" ? "col" : "row" }),
          ...(i ? { class: "figure" } : {}),
          ...(i && kind === "th" ? { scope: "col" } : {}),
        },
        one,
      ),
    );
  return make(
    "table",
    { class: "sums", "aria-label": name },
    make("thead", {}, make("tr", {}, cells("th", heads))),
    make(
      "tbody",
      {},
      rows.map((row) => make("tr", {}, cells("td", row))),
    ),
  );
}

/** One row of attention from scores to weights: `steps` of the answer, and the number of a token of the translation. */
export function tellAttention(steps, row) {
  const { sum, largest, cells } = attentionRow(steps.scores[row]);
  const order = cells.map((_, i) => i).sort((one, other) => cells[other].weight - cells[one].weight);
  const shown = order.slice(0, MAX_ROWS).sort((one, other) => one - other);
  const rest = order.slice(MAX_ROWS);
  const best = order[0];
  const power = () => make("span", {}, "e", exponent(say("score")), " ÷ e", exponent(figure(largest, 2)));
  const total = (name) => rest.reduce((so, i) => so + cells[i][name], 0);
  const rows = shown.map((i) => [
    make("bdi", {}, steps.source[i].trim() || "␣"),
    figure(cells[i].score, 2),
    figure(cells[i].power, 3),
    figure(cells[i].weight, 3),
  ]);
  if (rest.length)
    rows.push([others(rest.length), "", figure(total("power"), 3), figure(total("weight"), 3)]);
  rows.push([say("sum"), "", figure(sum, 3), "1"]);
  return [
    make("h3", {}, say("From scores to weights, for “{token}”", { token: steps.target[row].trim() || "␣" })),
    text(
      say(
        "Before it writes this token, the model compares what it has written so far with each source token; a high score means that they fit. The scores become weights in three steps: raise e to each score, add up the results, and divide each by the sum. Now all are positive and add up to 1.",
      ),
    ),
    make(
      "div",
      { class: "equations" },
      make(
        "div",
        { class: "equation" },
        make("span", { class: "left" }, say("weight")),
        make(
          "span",
          { class: "right" },
          make("span", { class: "side" }, "= (", power(), ") / ", say("sum")),
          make("span", { class: "side" }, `= ${figure(cells[best].power)} / ${figure(sum)}`),
          make(
            "span",
            { class: "side" },
            "= ",
            make("strong", {}, figure(cells[best].weight)),
            " ",
            say("for “{token}”", { token: steps.source[best].trim() || "␣" }),
          ),
        ),
      ),
    ),
    table(
      say("From scores to weights"),
      [
        say("source token"),
        say("score"),
        power(),
        say("weight"),
      ],
      rows,
    ),
    make(
      "p",
      { class: "hint" },
      say("All powers are divided by the largest one, so that they stay small; this changes no weight."),
    ),
  ];
}

/** A token of the tree of a beam search: the sum of log-probabilities up to it, and the score. */
export function tellBeam(tree, place) {
  const { terms, total, length, divisor, score } = beamSum(tree, place);
  const whole = tree.nodes[place].status === "ended";
  const shown = terms.length > 2 * MAX_ROWS ? [...terms.slice(0, 3), null, ...terms.slice(-MAX_ROWS)] : terms;
  const hidden = terms.slice(3, terms.length - MAX_ROWS);
  const rows = shown.map((term) =>
    term
      ? [
          make("bdi", {}, term.label),
          percent(term.probability),
          `ln ${short(term.probability, 3)} = ${figure(term.gained)}`,
        ]
      : [others(hidden.length), "", figure(hidden.reduce((so, one) => so + one.gained, 0))],
  );
  rows.push([
    say("together"),
    say("product: {share}", { share: percent(Math.exp(total)) }),
    make("strong", {}, say("sum: ln P = {total}", { total: figure(total) })),
  ]);
  return [
    make("h3", {}, say("The score of “{token}” at step {step}", { token: tree.nodes[place].label, step: length })),
    text(
      say(
        "The probability of a text is the product of the probabilities of its tokens. Logarithms turn the product into a sum, which stays easy to read: each token adds a number below 0, and the nearer to 0, the better.",
      ),
    ),
    table(say("The sum of log-probabilities"), [say("token"), say("probability"), say("logarithm")], rows),
    make(
      "div",
      { class: "equations" },
      make(
        "div",
        { class: "equation" },
        make("span", { class: "left" }, say("score")),
        make(
          "span",
          { class: "right" },
          make("span", { class: "side" }, "= ln P / ", say("length"), exponent("α")),
          make("span", { class: "side" }, `= ${figure(total)} / ${length}`, exponent(String(tree.alpha))),
          make("span", { class: "side" }, `= ${figure(total)} / ${figure(divisor)}`),
          make("span", { class: "side" }, "= ", make("strong", {}, figure(score))),
        ),
      ),
    ),
    text(
      say(
        "Each further token makes the sum smaller, so long texts would always lose. Dividing by a power of the length makes up for it; α = {alpha} is the exponent of this model.",
        { alpha: tree.alpha },
      ),
    ),
    make(
      "p",
      { class: "hint" },
      whole
        ? say("This text has ended, so its score counts: the best score wins.")
        : say(
            "Within a step all texts have the same length, so ln P alone decides which are kept; scores decide between texts that have ended.",
          ),
    ),
  ];
}
