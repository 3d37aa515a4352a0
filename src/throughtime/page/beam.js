// The tree of a beam search, step by step: what was kept, what was cut, and why.

import { draw, make, percent, short, within } from "./dom.js";
import { Section, textForm } from "./section.js";
import { EXAMPLE } from "./translate.js";

const ROW = 40;
const PAUSE = 700;

export function beamSection(models) {
  const section = new Section(
    "search",
    "Watch the search",
    "At each step, every hypothesis is continued with every token, and only the best are kept. Move the slider or press play; point at a token to see why it was kept or cut.",
    models,
  );
  const width = make("input", { type: "number", min: 1, max: 20, value: 4, inputmode: "numeric" });
  const { form, box } = textForm({
    label: "Source",
    value: EXAMPLE[section.model.source] ?? "",
    button: "Search",
    extra: [make("label", {}, "beams ", width)],
    send: (q) => {
      const beams = Math.round(Number(width.value)) || 1;
      section.ask("inspect/beam", { q, num_beams: Math.min(20, Math.max(1, beams)) }, (tree) =>
        show(section, tree),
      );
    },
  });
  section.controls.append(form);
  section.onModel(() => form.requestSubmit());
  section.begin = () => box.value && form.requestSubmit();
  return section;
}

function show(section, tree) {
  section.stop?.();
  const readout = make("p", { class: "readout tall", "aria-live": "polite" });
  const room = section.view.clientWidth;
  const picture = drawTree(tree, room, (sentence) => {
    readout.textContent = sentence;
  });
  const slider = make("input", {
    type: "range",
    min: 1,
    max: tree.steps,
    value: tree.steps,
    "aria-label": "Step of the search",
  });
  const at = make("output", { class: "at" });
  const play = make("button", { type: "button", "aria-label": "Play the search" }, "▶ play");
  const scroll = make("div", { class: "scroll" }, picture.svg);
  let timer = 0;

  function go(step, follow = false) {
    slider.value = String(step);
    at.textContent = `step ${step} of ${tree.steps}`;
    slider.setAttribute("aria-valuetext", at.textContent);
    picture.upTo(step);
    readout.textContent = picture.summary(step);
    if (follow) scroll.scrollLeft = picture.column * (step + 1) - scroll.clientWidth;
  }
  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "▶ play";
  }
  slider.addEventListener("input", () => {
    stop();
    go(Number(slider.value), true);
  });
  play.addEventListener("click", () => {
    if (timer) return stop();
    let step = Number(slider.value) >= tree.steps ? 0 : Number(slider.value);
    play.textContent = "❚❚ pause";
    const next = () => {
      step += 1;
      go(step, true);
      if (step >= tree.steps) stop();
    };
    timer = setInterval(next, PAUSE);
    next();
    return undefined;
  });
  section.stop = stop;
  section.view.replaceChildren(
    make("div", { class: "row" }, play, slider, at),
    scroll,
    make(
      "p",
      { class: "legend" },
      key("best", "the best"),
      key("kept", "kept"),
      key("ended", "ended"),
      key("cut", "cut ✕"),
    ),
    readout,
  );
  go(tree.steps);
}

const key = (kind, words) => make("span", { class: `key ${kind}` }, words);

/** The row of each node: in each step, first the hypotheses that were kept, best first, then those that were cut. */
function rowsOf(nodes) {
  const steps = new Map();
  nodes.forEach((node, place) => steps.set(node.step, [...(steps.get(node.step) ?? []), place]));
  const rows = new Array(nodes.length).fill(0);
  for (const places of steps.values()) {
    places.sort(
      (one, other) =>
        (nodes[one].status === "cut") - (nodes[other].status === "cut") ||
        nodes[other].log_prob - nodes[one].log_prob,
    );
    places.forEach((place, row) => {
      rows[place] = row;
    });
  }
  return rows;
}

function drawTree(tree, room, tell) {
  const rows = rowsOf(tree.nodes);
  const column = within(room / (tree.steps + 0.4), 100, 122);
  const width = column * (tree.steps + 0.4);
  const height = ROW * (Math.max(...rows) + 1) + 30;
  const x = (step) => column * (step - 0.15);
  const y = (row) => 40 + ROW * row;
  const lines = [];
  const marks = tree.nodes.map((node, place) => {
    const parent = node.parent === null ? null : tree.nodes[node.parent];
    const from = parent ? [x(parent.step) + 34, y(rows[node.parent])] : [10, y(0)];
    const kind = node.best ? `best ${node.status}` : node.status;
    lines.push(
      draw("path", {
        class: `edge ${kind}`,
        d: `M${from[0]} ${from[1]}C${from[0] + 22} ${from[1]} ${x(node.step) - 58} ${y(rows[place])} ${x(node.step) - 36} ${y(rows[place])}`,
      }),
    );
    const sentence = `“${joinPieces(tree.nodes, place)}”: ${node.reason}. Probability of the token: ${percent(node.probability)}; of the whole text: ln P ${short(node.log_prob)}, score ${short(node.score)}.`;
    const label = node.label.length > 11 ? `${node.label.slice(0, 10)}…` : node.label;
    const mark = draw(
      "g",
      {
        class: `node ${kind}`,
        tabindex: 0,
        role: "img",
        "aria-label": `step ${node.step}, ${node.status}: ${sentence}`,
        transform: `translate(${x(node.step)} ${y(rows[place])})`,
      },
      draw("rect", { x: -36, y: -15, width: 72, height: 30, rx: 6 }),
      draw("text", { class: "token", y: -1 }, node.status === "cut" ? `${label} ✕` : label),
      draw("text", { class: "small", y: 11 }, short(node.log_prob)),
    );
    mark.addEventListener("pointerenter", () => tell(sentence));
    mark.addEventListener("focus", () => tell(sentence));
    return mark;
  });
  const heads = Array.from({ length: tree.steps }, (_, i) =>
    draw("text", { class: "axis middle", x: x(i + 1), y: 16 }, String(i + 1)),
  );
  const svg = draw(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "group",
      "aria-label": `The tree of a beam search of width ${tree.width}`,
    },
    heads,
    lines,
    marks,
  );
  return {
    svg,
    column,
    upTo(step) {
      tree.nodes.forEach((node, place) => {
        for (const one of [marks[place], lines[place]]) one.classList.toggle("later", node.step > step);
        marks[place].setAttribute("tabindex", node.step > step ? "-1" : "0");
      });
    },
    summary(step) {
      const own = tree.nodes.filter((node) => node.step === step);
      const kept = own.filter((node) => node.status === "kept").length;
      const ended = own.filter((node) => node.status === "ended").length;
      const end =
        step === tree.steps
          ? ` The best: “${tree.results[0].text}”, score ${short(tree.results[0].score)}.`
          : "";
      return `Step ${step}: ${kept} kept${ended ? `, ${ended} ended` : ""}; of the others, which were cut, ${own.length - kept - ended} are shown.${end}`;
    },
  };
}

function joinPieces(nodes, place) {
  const pieces = [];
  for (let at = place; at !== null; at = nodes[at].parent)
    pieces.unshift(nodes[at].label === "⟨end⟩" ? " ⟨end⟩" : nodes[at].piece);
  return pieces.join("").trim();
}
