// The tree of a beam search, step by step: what was kept, what was cut, why, and what if.

import { draw, make, short } from "./dom.js";
import { pathTo } from "./equations.js";
import { Explanation, tellBeam } from "./explain.js";
import { END, describeNode, describeStep, joinPieces, wordOf } from "./hypotheses.js";
import { choiceBar, Interventions } from "./intervene.js";
import { measure, shorten } from "./matrix.js";
import { scroller } from "./scroller.js";
import { Section, textForm } from "./section.js";
import { say } from "./words.js";

const ROW = 46;
const HEIGHT = 36; // of a node
const PAUSE = 700;
const MAX_TEXT_WIDTH = 240; // pixels of a token's text

export function beamSection(models) {
  const section = new Section(
    "search",
    say("Watch the search"),
    say(
      "At each step, every hypothesis is continued with every token, and only the best are kept. Move the slider or press play; choose a token to see why it was kept or cut, to force it, or to forbid it.",
    ),
    models,
  );
  const width = make("input", { type: "number", min: 1, max: 20, value: 4, inputmode: "numeric" });
  const interventions = new Interventions(() => form.requestSubmit());
  section.interventions = interventions;
  const view = new TreeView(section, interventions);
  const { form, box } = textForm({
    section,
    label: say("Source"),
    button: say("Search"),
    live: true,
    extra: [make("label", {}, say("beams"), width)],
    send: (q) => {
      const beams = Math.min(20, Math.max(1, Math.round(Number(width.value)) || 1));
      interventions.begin(`${section.model.name}\n${beams}\n${q}`);
      section.ask("inspect/beam", { q, num_beams: beams, ...interventions.fields() }, (tree) => view.show(tree));
    },
  });
  width.addEventListener("change", () => form.requestSubmit());
  section.controls.append(form);
  section.onModel(() => form.requestSubmit());
  section.begin = () => box.value && form.requestSubmit();
  section.stop = () => view.stop();
  return section;
}

class TreeView {
  constructor(section, interventions) {
    this.section = section;
    this.interventions = interventions;
    this.explanation = new Explanation();
    this.bar = choiceBar(interventions);
    this.readout = make("p", { class: "readout tall", "aria-live": "polite" });
    this.slider = make("input", { type: "range", min: 1, max: 1, value: 1, "aria-label": say("Step of the search") });
    this.at = make("output", { class: "at" });
    this.button = make("button", { type: "button" });
    this.place = make("div", { class: "tree" });
    this.timer = 0;
    this.stop();
    this.slider.addEventListener("input", () => {
      this.stop();
      this.go(Number(this.slider.value), true);
    });
    this.button.addEventListener("click", () => (this.timer ? this.stop() : this.play()));
    const key = (kind, words) => make("span", { class: `key ${kind}` }, words);
    section.view.append(
      interventions.element,
      make("div", { class: "row" }, this.button, this.slider, this.at),
      make(
        "div",
        { class: "duo" },
        make(
          "div",
          { class: "picture" },
          this.place,
          make(
            "p",
            { class: "legend" },
            key("best", say("the best")),
            key("kept", say("kept")),
            key("ended", say("ended")),
            key("cut", say("cut ✕")),
            make("span", {}, say("number below a token: ln P of the text so far")),
          ),
          this.bar.element,
          this.readout,
        ),
        this.explanation.element,
      ),
    );
  }

  show(tree) {
    if (this.tree === tree) return; // another width or theme changes nothing here
    this.stop();
    this.tree = tree;
    const name = say("The tree of a beam search of width {width}", { width: tree.width });
    this.picture = drawTree(tree, name, (place) => this.choose(place));
    this.scroll = scroller(this.picture.svg, name, true);
    this.place.replaceChildren(this.scroll.element);
    this.slider.max = String(tree.steps);
    this.interventions.compare(tree.results[0]);
    // The explanation grows with the steps: room for the last one keeps what is below it in its place.
    const { body } = this.explanation;
    body.style.minHeight = "";
    this.choose(this.picture.first(tree.steps));
    body.style.minHeight = `${body.offsetHeight}px`;
    this.choose(tree.results[0].node);
    this.go(tree.steps);
    this.reveal(tree.nodes[tree.results[0].node].step);
    this.scroll.update();
  }

  /** Choose a token: tell why it was kept or cut, and how its score comes about. */
  choose(place) {
    const { tree } = this;
    const node = tree.nodes[place];
    this.picture.choose(place);
    this.readout.textContent = describeNode(tree, place);
    this.explanation.tell(...tellBeam(tree, place));
    const ends = node.label === END;
    const text = joinPieces(tree.nodes, ends ? node.parent : place);
    const word = ends ? null : wordOf(tree.nodes, place);
    const whole = (one) => (one && !one.endsWith("\ufffd") ? one : null);
    this.bar.choose({ label: node.label, prefix: whole(text), forbid: whole(word) });
  }

  /** Show the search up to a step; with `follow`, choose the best token of this step. */
  go(step, follow = false) {
    const { tree, slider, at } = this;
    slider.value = String(step);
    at.textContent = say("step {step} of {steps}", { step, steps: tree.steps });
    slider.setAttribute("aria-valuetext", at.textContent);
    this.picture.upTo(step);
    if (follow) {
      this.choose(step < tree.steps ? this.picture.first(step) : tree.results[0].node);
      this.reveal(step);
    }
    this.readout.textContent = describeStep(tree, step);
  }

  /** Scroll the box, not the page, until a step is in sight. */
  reveal(step) {
    const { box } = this.scroll;
    box.scrollLeft = this.picture.ends[step] - box.clientWidth + 40;
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.name("▶", say("play"), say("Play the search"));
  }

  name(sign, word, name) {
    this.button.textContent = `${sign} ${word}`;
    this.button.setAttribute("aria-label", name);
  }

  play() {
    let step = Number(this.slider.value) >= this.tree.steps ? 0 : Number(this.slider.value);
    this.name("❚❚", say("pause"), say("Pause the search"));
    const next = () => {
      step += 1;
      this.go(step, true);
      if (step >= this.tree.steps) this.stop();
    };
    this.timer = setInterval(next, PAUSE);
    next();
  }
}

/** The row of each node: in each step, first the hypotheses that were kept, best first, then those that were cut. */
function rowsOf(nodes) {
  const steps = new Map();
  nodes.forEach((node, place) => steps.set(node.step, [...(steps.get(node.step) ?? []), place]));
  const rows = new Array(nodes.length).fill(0);
  for (const places of steps.values()) {
    places.sort(
      (one, other) =>
        (nodes[one].status === "cut") - (nodes[other].status === "cut") || nodes[other].log_prob - nodes[one].log_prob,
    );
    places.forEach((place, row) => {
      rows[place] = row;
    });
  }
  return { rows, steps };
}

/** Draw the tree; each column is as wide as its widest token, which is measured. */
function drawTree(tree, name, onChoose) {
  const { nodes } = tree;
  const { rows, steps } = rowsOf(nodes);
  const labels = nodes.map((node) => shorten(node.label, MAX_TEXT_WIDTH, 14, 700) + (node.status === "cut" ? " ✕" : ""));
  const wide = labels.map((label) => Math.max(52, Math.ceil(measure(label, 14, 700)) + 18));
  const centre = [0];
  const ends = [18];
  for (let step = 1; step <= tree.steps; step += 1) {
    const own = Math.max(52, ...(steps.get(step) ?? []).map((place) => wide[place]));
    centre.push(ends[step - 1] + 34 + own / 2);
    ends.push(ends[step - 1] + 34 + own);
  }
  const width = ends.at(-1) + 12;
  const height = ROW * (Math.max(0, ...rows) + 1) + 32;
  const y = (place) => 50 + ROW * rows[place];
  const lines = [];
  const marks = nodes.map((node, place) => {
    const x = centre[node.step];
    const left = x - wide[place] / 2;
    const [fromX, fromY] =
      node.parent === null ? [8, 50] : [centre[nodes[node.parent].step] + wide[node.parent] / 2, y(node.parent)];
    const bend = (left - fromX) / 2;
    const kind = node.best ? `best ${node.status}` : node.status;
    const step = say("step {step} of {steps}", { step: node.step, steps: tree.steps });
    lines.push(
      draw("path", {
        class: `edge ${kind}`,
        d: `M${fromX} ${fromY}C${fromX + bend} ${fromY} ${left - bend} ${y(place)} ${left} ${y(place)}`,
      }),
    );
    return draw(
      "g",
      {
        class: `node ${kind}`,
        tabindex: -1,
        role: "button",
        // What is written on it comes first, so that it can be found by its name.
        "aria-label": `${labels[place]} ${short(node.log_prob)}, ${step}: ${describeNode(tree, place)}`,
        transform: `translate(${x} ${y(place)})`,
        onfocus: () => onChoose(place),
        onclick: () => onChoose(place),
      },
      draw("rect", { x: -wide[place] / 2, y: -HEIGHT / 2, width: wide[place], height: HEIGHT, rx: 8 }),
      draw("text", { class: "token", y: -1 }, labels[place]),
      draw("text", { class: "small", y: 13 }, short(node.log_prob)),
    );
  });
  const heads = centre.slice(1).map((x, i) => draw("text", { class: "axis middle", x, y: 16 }, String(i + 1)));
  const begin = draw("circle", { class: "begin", cx: 8, cy: 50, r: 4 });
  const size = { viewBox: `0 0 ${width} ${height}`, width, height };
  const svg = draw("svg", { ...size, role: "group", "aria-label": name }, heads, begin, lines, marks);
  let chosen = 0;
  let last = tree.steps;

  svg.addEventListener("keydown", (event) => {
    const move = neighbour(event.key);
    if (event.key === "Enter" || event.key === " ") onChoose(chosen);
    else if (move === undefined) return;
    event.preventDefault();
    if (move !== undefined && move !== null) {
      marks[move].focus({ preventScroll: true });
      marks[move].scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  });
  /** The node that a key leads to: undefined for other keys, null if there is none. */
  function neighbour(key) {
    const inColumn = (step, row) => (steps.get(step) ?? []).find((place) => rows[place] === row) ?? null;
    const { step, parent } = nodes[chosen];
    const children = nodes
      .map((_, place) => place)
      .filter((place) => nodes[place].parent === chosen && nodes[place].step <= last);
    switch (key) {
      case "ArrowLeft":
        return parent;
      case "ArrowRight":
        return children.sort((one, other) => rows[one] - rows[other])[0] ?? null;
      case "ArrowUp":
        return inColumn(step, rows[chosen] - 1);
      case "ArrowDown":
        return inColumn(step, rows[chosen] + 1);
      case "Home":
        return inColumn(1, 0);
      case "End":
        return inColumn(last, 0);
      default:
        return undefined;
    }
  }
  return {
    svg,
    ends,
    first: (step) => steps.get(step)[0],
    choose(place) {
      chosen = place;
      const path = new Set(pathTo(nodes, place));
      marks.forEach((mark, at) => {
        mark.classList.toggle("chosen", at === place);
        mark.setAttribute("tabindex", at === place ? "0" : "-1");
        lines[at].classList.toggle("path", path.has(at));
      });
    },
    upTo(step) {
      last = step;
      nodes.forEach((node, place) => {
        for (const one of [marks[place], lines[place]]) one.classList.toggle("later", node.step > step);
      });
      if (nodes[chosen].step > step) this.choose(pathTo(nodes, chosen)[step - 1]);
    },
  };
}
