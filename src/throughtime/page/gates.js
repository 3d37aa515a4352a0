// The gates of each unit through a sentence: which remember, which forget, and the sums behind one of them.

import { strip } from "./colours.js";
import { make, short } from "./dom.js";
import { Explanation, meaning, tellUnit } from "./explain.js";
import { matrix } from "./matrix.js";
import { Section, textForm } from "./section.js";
import { say } from "./words.js";

export function gatesSection(models) {
  const section = new Section(
    "gates",
    say("See which units remember"),
    say(
      "Each row is a unit, each column a token. Units that remember longest are at the top, those that forget fastest at the bottom. Choose a cell to see how its value comes about.",
    ),
    models,
  );
  const layer = make("select", {}, make("option", { value: 0 }, "1"));
  const gate = make("select", {});
  const picture = new GatePicture(section);
  const { form } = textForm({
    section,
    label: say("Sentence"),
    button: say("Read it"),
    live: true,
    extra: [make("label", {}, say("layer"), layer), make("label", {}, say("gate"), gate)],
    send: (q) => {
      const units = section.view.clientWidth < 600 ? 24 : 48;
      section.ask("inspect/gates", { q, layer: Number(layer.value) || 0, units }, take);
    },
  });
  section.controls.append(form);

  function take(answer) {
    if (picture.answer === answer) return; // the matrix follows the width and the theme itself
    const before = gate.value;
    options(
      layer,
      answer.layers.map((one, number) => [number, `${layerName(one.name)} (${one.cell})`]),
      answer.layer,
    );
    options(
      gate,
      answer.gates.map((letter) => [
        letter,
        [letter.replace("-", "−"), meaning(letter, answer.gates)].filter(Boolean).join(say(", ")),
      ]),
      answer.gates.includes(before) ? before : answer.gates[0],
    );
    picture.show(answer, gate.value);
  }
  layer.addEventListener("change", () => form.requestSubmit());
  gate.addEventListener("change", () => picture.answer && picture.show(picture.answer, gate.value));
  section.onModel(() => {
    layer.value = "0";
    form.requestSubmit();
  });
  section.begin = () => form.requestSubmit();
  return section;
}

function options(select, pairs, chosen) {
  select.replaceChildren(...pairs.map(([value, words]) => make("option", { value }, words)));
  select.value = String(chosen);
}

/** The name of a layer in the language of the page; the answer has it in English. */
function layerName(name) {
  const found = /^(encoder layer|decoder layer|layer)(?: (\d+)|, (.+) cell)?( from the left| from the right)?$/.exec(
    name,
  );
  if (!found) return name;
  const [, part, number, cell, way] = found;
  if (cell) return say("decoder layer, {cell} cell", { cell });
  const which = number ?? "";
  const said =
    part === "encoder layer"
      ? say("encoder layer {which}", { which })
      : part === "decoder layer"
        ? say("decoder layer {which}", { which })
        : say("layer {which}", { which });
  if (!way) return said;
  return way === " from the left"
    ? say("{layer} from the left", { layer: said })
    : say("{layer} from the right", { layer: said });
}

class GatePicture {
  constructor(section) {
    this.explanation = new Explanation();
    this.readout = make("p", { class: "readout", "aria-live": "polite" });
    this.place = make("div", { class: "gate-map" });
    this.legend = make("p", { class: "legend" });
    this.note = make("p", { class: "hint" });
    this.at = null;
    section.view.append(
      make(
        "div",
        { class: "duo" },
        make("div", { class: "picture" }, this.readout, this.place, this.legend, this.note),
        this.explanation.element,
      ),
    );
  }

  show(answer, letter) {
    const { tokens, units, half_lives: lives } = answer;
    const values = answer.values[letter];
    const flat = values.flat();
    const kind = Math.min(...flat) < 0 ? "signed" : "open";
    // The memory of one unit may be far beyond 1: it must not make all others pale.
    const sizes = flat.map(Math.abs).sort((one, other) => one - other);
    const most = Math.max(1, sizes[Math.floor(0.95 * (sizes.length - 1))]);
    const same =
      this.answer === answer || (this.answer?.cell === answer.cell && this.answer?.units.length === units.length);
    const [row, step] = same && this.at ? this.at : [0, Math.min(1, tokens.length - 1)];
    this.answer = answer;
    const shown = letter.replace("-", "−");
    const map = matrix({
      name: say("Values of {letter}: {units} units by {tokens} tokens. Choose a cell with the arrow keys.", {
        letter: shown,
        units: units.length,
        tokens: tokens.length,
      }),
      rows: rowLabels(answer),
      columns: tokens,
      values,
      kind,
      most,
      high: units.length > 32 ? 11 : 15,
      onPoint: (unit, time, chosen) => this.point(map, letter, unit, time, chosen),
    });
    this.place.replaceChildren(map.element);
    this.legend.replaceChildren(
      make("span", {}, `${shown} = ${kind === "signed" ? short(-most, 1) : "0"} `, strip(kind), ` ${short(most, 1)}`),
      make("span", {}, lives ? say("Numbers on the left: half-life in tokens") : say("Numbers on the left: units")),
    );
    this.note.textContent =
      units.length === answer.all_units
        ? say("Showing all {all} units, from the longest memory to the shortest.", { all: answer.all_units })
        : say("Showing {some} of {all} units, evenly spaced from the longest memory to the shortest.", {
            some: units.length,
            all: answer.all_units,
          });
    map.paint();
    this.point(map, letter, Math.min(row, units.length - 1), Math.min(step, tokens.length - 1), true);
  }

  /** Tell about a cell; a chosen one keeps the cursor and is explained. */
  point(map, letter, unit, time, chosen) {
    const { units, tokens, values, half_lives: lives } = this.answer;
    map.show([unit, time], null);
    const told = say("unit {unit} at “{token}”: {letter} = {value}", {
      unit: units[unit],
      token: tokens[time],
      letter: letter.replace("-", "−"),
      value: short(values[letter][unit][time], 3),
    });
    const life = lives ? `${say(", ")}${say("half-life {life} tokens", { life: short(lives[unit], 1) })}` : "";
    this.readout.textContent = told + life;
    if (!chosen) return;
    this.at = [unit, time];
    map.from(unit, time);
    this.explanation.tell(...tellUnit(this.answer, unit, time));
  }
}

/** A label for some rows: a number that stands above already is not repeated. */
function rowLabels({ units, half_lives: lives }) {
  const every = units.length > 32 ? 3 : 2;
  let before = null;
  return units.map((unit, row) => {
    const label = lives ? short(lives[row], 1) : `#${unit}`;
    if (row % every || label === before) return "";
    before = label;
    return label;
  });
}
