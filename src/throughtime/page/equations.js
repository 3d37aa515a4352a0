// The equations behind the pictures with the numbers of an answer filled in. Nothing here is drawn.

const KNOWN = new Set([
  "GRU",
  "LSTM",
  "CoupledLSTM",
  "LayerNormLSTM",
  "ProjectedLSTM",
  "MogrifierLSTM",
  "MinGRU",
  "MinLSTM",
]);

/** A number with three decimals and a real minus. */
export function figure(value, digits = 3) {
  const text = value.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/** The same as part of a product or a sum: a negative number stands in brackets. */
const part = (value, digits) =>
  figure(value, digits).startsWith("−") ? `(${figure(value, digits)})` : figure(value, digits);

/** What went into σ or tanh, computed back from its result, which is rounded to four decimals. */
function inside(value, curve) {
  const most = 0.99985;
  const back = curve === "σ" ? Math.log(value / (1 - value)) : Math.atanh(value);
  const edge = curve === "σ" ? 8.8 : 4.8;
  if (value > most) return `> ${edge}`;
  if (value < (curve === "σ" ? 1 - most : -most)) return `< −${edge}`;
  return figure(back, 2);
}

const gate = (letter, value, curve = "σ") => ({
  letter,
  symbols: null,
  numbers: `${curve}(${inside(value, curve)})`,
  value,
});

/** Whether two sides agree, as far as values with four decimals can. */
const equal = (one, other, size) => Math.abs(one - other) < 0.0006 + 0.0003 * size;

/** The equations of a unit at a step by the letters of its cell; null if they are not known. */
function formOf(letters) {
  const has = (...wanted) => wanted.length === letters.length && wanted.every((one) => letters.includes(one));
  if (has("r", "z", "n", "h")) return "gru";
  if (has("f", "i", "g", "o", "tanh c", "h", "c")) return "lstm";
  if (has("1 - z", "z", "h")) return "mingru";
  if (has("f", "i", "h")) return "minlstm";
  return null;
}

/** The number of the step before: layers that read from the right come from the next token. */
function stepBefore(answer, step) {
  const before = answer.name.endsWith("from the right") ? step + 1 : step - 1;
  return before >= 0 && before < answer.tokens.length ? before : null;
}

/**
 * The state before a step: as drawn, or 0 where a layer begins with it. A decoder begins with a state of the
 * encoder, and the second cell of a step with the state of the first; then the equation tells what it was.
 */
function stateBefore(answer, letter, row, step, keeps, taken) {
  const after = answer.values[letter][row][step];
  const before = stepBefore(answer, step);
  const fits = (value) => equal(keeps * value + taken, after, Math.abs(value) + Math.abs(after));
  const drawn = before === null ? 0 : answer.values[letter][row][before];
  if (fits(drawn)) return { value: drawn, from: before === null ? "zero" : "drawn" };
  if (keeps > 0.02) return { value: (after - taken) / keeps, from: "computed" };
  return { value: null, from: "unknown" };
}

/** Whether the equations hold for all units and steps, so that a cell of an unknown class has them, too. */
function holds(answer, form) {
  if (form === "mingru" || form === "minlstm") return false; // their candidate is not drawn: nothing can be checked
  const [state, keep] = form === "gru" ? ["h", "z"] : ["c", "f"];
  const { values } = answer;
  return values[state].every((own, row) =>
    own.every((after, step) => {
      const before = stepBefore(answer, step);
      if (before === null) return true;
      const at = (letter) => values[letter][row][step];
      const taken = form === "gru" ? (1 - at("z")) * at("n") : at("i") * at("g");
      const old = values[state][row][before];
      return equal(at(keep) * old + taken, after, Math.abs(old) + Math.abs(after));
    }),
  );
}

/**
 * One unit (a row of the answer of inspect/gates) at one step: its equations, line by line.
 *
 * Returns {form, lines, keeps, before}: each line has the `letter`, its right side in `symbols` and in `numbers`,
 * and the `value`; `keeps` is the share of the old state that stays, `before` says where the old state comes from.
 */
export function unitEquations(answer, row, step) {
  const at = (letter) => answer.values[letter][row][step];
  const known = formOf(answer.gates);
  const form = known && (KNOWN.has(answer.cell) || holds(answer, known)) ? known : null;
  const keeps = answer.keep ? at(answer.keep) : null;
  if (form === "gru") {
    const [z, n] = [at("z"), at("n")];
    const before = stateBefore(answer, "h", row, step, z, (1 - z) * n);
    const old = before.value === null ? "?" : part(before.value);
    const lines = [gate("r", at("r")), gate("z", z), gate("n", n, "tanh")];
    lines.push({
      letter: "h",
      symbols: "(1 − z) · n + z · h_before",
      numbers: `(1 − ${figure(z)}) · ${part(n)} + ${figure(z)} · ${old}`,
      value: at("h"),
    });
    return { form, lines, keeps, before: before.from };
  }
  if (form === "lstm") return { form, keeps, ...memoryEquations(answer, row, step) };
  if (form === "mingru" || form === "minlstm") {
    const [keep, take] = form === "mingru" ? ["1 - z", "z"] : ["f", "i"];
    const place = stepBefore(answer, step);
    const old = place === null ? 0 : answer.values.h[row][place];
    const lines = form === "mingru" ? [gate("z", at("z"))] : [gate("f", at("f")), gate("i", at("i"))];
    const symbols = { "1 - z": "(1 − z)" }[keep] ?? keep;
    const candidate = at(take) > 0.02 ? part((at("h") - at(keep) * old) / at(take)) : "?";
    lines.push({
      letter: "h",
      symbols: `${symbols} · h_before + ${take} · h_new`,
      numbers: `${figure(at(keep))} · ${part(old)} + ${figure(at(take))} · ${candidate}`,
      value: at("h"),
    });
    return { form, lines, keeps, before: place === null ? "zero" : "drawn" };
  }
  const plain = answer.cell === "RNN" && answer.gates.length === 1;
  const relu = plain && answer.values.h.flat().every((value) => value >= 0);
  const lines = answer.gates.map((letter) =>
    plain && !relu ? gate("h", at("h"), "tanh") : { letter, symbols: null, numbers: null, value: at(letter) },
  );
  return { form: plain ? "rnn" : null, lines, keeps, before: null };
}

function memoryEquations(answer, row, step) {
  const at = (letter) => answer.values[letter][row][step];
  const [f, i, g, o, shown] = ["f", "i", "g", "o", "tanh c"].map(at);
  const before = stateBefore(answer, "c", row, step, f, i * g);
  const old = before.value === null ? "?" : part(before.value);
  const coupled = answer.cell === "CoupledLSTM";
  const first = coupled ? { letter: "i", symbols: "1 − f", numbers: `1 − ${figure(f)}`, value: i } : gate("i", i);
  const lines = [gate("f", f), first, gate("g", g, "tanh"), gate("o", o)];
  const normalised = answer.cell === "LayerNormLSTM";
  lines.push({
    letter: "c",
    symbols: "f · c_before + i · g",
    numbers: `${figure(f)} · ${old} + ${figure(i)} · ${part(g)}`,
    value: at("c"),
  });
  if (normalised) lines.push(gate("tanh c", shown, "tanh"));
  if (answer.cell === "ProjectedLSTM") {
    const product = { letter: "o · tanh c", symbols: null, numbers: `${figure(o)} · ${part(shown)}`, value: o * shown };
    return { lines: [...lines, product], before: before.from, projected: at("h") };
  }
  lines.push({
    letter: "h",
    symbols: normalised ? "o · tanh(c_normalised)" : "o · tanh(c)",
    numbers: `${figure(o)} · ${part(shown)}`,
    value: at("h"),
  });
  return { lines, before: before.from, normalised };
}

/** One row of attention from scores to weights: for each source token its score, e^(score - largest) and weight. */
export function attentionRow(scores) {
  const largest = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - largest));
  const sum = powers.reduce((total, each) => total + each, 0);
  return { largest, sum, cells: scores.map((score, i) => ({ score, power: powers[i], weight: powers[i] / sum })) };
}

/** The nodes of a beam's tree from the first token to this one. */
export function pathTo(nodes, place) {
  const path = [];
  for (let at = place; at !== null; at = nodes[at].parent) path.unshift(at);
  return path;
}

/** The score of a node of a beam's tree: the sum of the log-probabilities of its tokens, and its division. */
export function beamSum(tree, place) {
  const terms = pathTo(tree.nodes, place).map((at) => {
    const node = tree.nodes[at];
    const gained = node.log_prob - (node.parent === null ? 0 : tree.nodes[node.parent].log_prob);
    return { label: node.label, probability: node.probability, gained };
  });
  const length = tree.nodes[place].step;
  const divisor = Math.max(1, length) ** tree.alpha;
  return { terms, total: tree.nodes[place].log_prob, length, divisor, score: tree.nodes[place].score };
}
