// The gates of each unit through a sentence: which remember, which forget.

import { open, signed, strip } from "./colours.js";
import { draw, make, short, within } from "./dom.js";
import { Section, textForm } from "./section.js";
import { EXAMPLE } from "./translate.js";

const MEANINGS = {
  f: "f, forget gate: 1 keeps the memory",
  z: "z, update gate: 1 keeps the state",
  "1 - z": "1 − z: 1 keeps the state",
  i: "i, input gate: 1 lets the input in",
  o: "o, output gate: 1 shows the memory",
  r: "r, reset gate: 0 ignores the past",
  g: "g, candidate",
  n: "n, candidate",
  h: "h, state",
  c: "c, memory",
  "tanh c": "tanh c, memory between −1 and 1",
};
const PLAIN = { tag: "show me flights to Paris", classify: "play some jazz" };

export function gatesSection(models) {
  const section = new Section(
    "gates",
    "See which units remember",
    "Each row is a unit, each column a token. Units that remember longest are at the top, those that forget fastest at the bottom.",
    models,
  );
  const layer = make("select", {}, make("option", { value: 0 }, "1"));
  const gate = make("select", {});
  const example = () =>
    EXAMPLE[section.model.source] ?? PLAIN[section.model.task] ?? "The old man went home to read a letter.";
  let current = null;
  const { form, box } = textForm({
    label: "Sentence",
    value: example(),
    button: "Read it",
    extra: [make("label", {}, "layer ", layer), make("label", {}, "gate ", gate)],
    send: (q) => section.ask("inspect/gates", { q, layer: Number(layer.value) || 0 }, take),
  });
  section.controls.append(form);

  function take(answer) {
    current = answer;
    const before = gate.value;
    options(
      layer,
      answer.layers.map((one, number) => [number, `${one.name} (${one.cell})`]),
      answer.layer,
    );
    options(
      gate,
      answer.gates.map((letter) => [letter, MEANINGS[letter] ?? letter]),
      answer.gates.includes(before) ? before : answer.gates[0],
    );
    show(section, current, gate.value);
  }
  layer.addEventListener("change", () => form.requestSubmit());
  gate.addEventListener("change", () => current && show(section, current, gate.value));
  section.onModel(() => {
    layer.value = "0";
    box.value = example();
    form.requestSubmit();
  });
  section.begin = () => form.requestSubmit();
  return section;
}

function options(select, pairs, chosen) {
  select.replaceChildren(...pairs.map(([value, words]) => make("option", { value }, words)));
  select.value = String(chosen);
}

function show(section, answer, letter) {
  const values = answer.values[letter];
  const flat = values.flat();
  const isSigned = Math.min(...flat) < 0;
  // The memory of one unit may be far beyond 1: it must not make all others pale.
  const sizes = flat.map(Math.abs).sort((one, other) => one - other);
  const top = Math.max(1, sizes[Math.floor(0.95 * (sizes.length - 1))]);
  const scale = isSigned ? (value) => signed(value / top) : (value) => open(value / top);
  const readout = make(
    "p",
    { class: "readout", "aria-live": "polite" },
    "Point at a cell; with the keyboard, use the arrow keys.",
  );
  const ramp = make("span", { class: "ramp" });
  ramp.style.background = strip(scale, isSigned ? -top : 0, top);
  const legend = make(
    "p",
    { class: "legend" },
    `${isSigned ? short(-top, 1) : "0"} `,
    ramp,
    ` ${short(top, 1)}`,
  );
  const head = `${answer.units.length === answer.all_units ? "all" : `${answer.units.length} of`} ${answer.all_units} units`;
  section.view.replaceChildren(
    make(
      "div",
      { class: "scroll" },
      heatMap(section.view.clientWidth, answer, values, scale, readout, letter),
    ),
    legend,
    readout,
    make("p", { class: "hint" }, `Showing ${head}, evenly spaced from the longest memory to the shortest.`),
  );
}

function heatMap(room, answer, values, scale, readout, letter) {
  const { tokens, units, half_lives: lives } = answer;
  const high = units.length > 32 ? 8 : 14;
  const left = 74;
  const top = 18 + 6.2 * Math.max(...tokens.map((token) => token.length));
  const wide = within((room - left - 44) / tokens.length, 18, 64);
  const width = left + wide * tokens.length + 40;
  const height = top + high * units.length + 4;
  const cells = values.flatMap((row, unit) =>
    row.map((value, time) =>
      draw("rect", {
        x: left + wide * time,
        y: top + high * unit,
        width: wide + 0.4,
        height: high + 0.4,
        fill: scale(value),
      }),
    ),
  );
  const heads = tokens.map((token, time) =>
    draw(
      "text",
      { class: "axis", transform: `translate(${left + wide * (time + 0.5)} ${top - 6}) rotate(-48)` },
      token,
    ),
  );
  const every = Math.max(1, Math.round(26 / high));
  const marks = units.map((unit, row) =>
    row % every
      ? null
      : draw(
          "text",
          { class: "axis end", x: left - 8, y: top + high * (row + 0.5) + 4 },
          lives ? short(lives[row], 1) : `#${unit}`,
        ),
  );
  const side = draw(
    "text",
    { class: "axis middle", transform: `translate(13 ${top + (high * units.length) / 2}) rotate(-90)` },
    lives ? "half-life in tokens" : "unit",
  );
  const cursor = draw("rect", { class: "cursor", width: wide, height: high, visibility: "hidden" });
  const svg = draw(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      tabindex: 0,
      role: "img",
      class: "heat-map",
      "aria-label": `Values of ${letter}: ${units.length} units by ${tokens.length} tokens`,
    },
    heads,
    cells,
    marks,
    side,
    cursor,
  );
  let at = [0, 0];
  function point(row, time) {
    at = [Math.min(units.length - 1, Math.max(0, row)), Math.min(tokens.length - 1, Math.max(0, time))];
    cursor.setAttribute("x", String(left + wide * at[1]));
    cursor.setAttribute("y", String(top + high * at[0]));
    cursor.setAttribute("visibility", "visible");
    const life = lives ? `, half-life ${short(lives[at[0]], 1)} tokens` : "";
    readout.textContent = `unit ${units[at[0]]} at “${tokens[at[1]]}”: ${letter.replace("-", "−")} = ${short(values[at[0]][at[1]], 3)}${life}`;
  }
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * width - left;
    const y = ((event.clientY - box.top) / box.height) * height - top;
    if (x >= 0 && y >= 0) point(Math.floor(y / high), Math.floor(x / wide));
  });
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    point(at[0] + move[0], at[1] + move[1]);
  });
  return svg;
}
