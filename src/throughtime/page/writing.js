// Typing with a language model: what it expects next, and how much each token surprised it.

import { debounce, make, percent, short } from "./dom.js";
import { Section } from "./section.js";

const MOST_BITS = 14;
const SHOWN = 10;

export function writingSection(models) {
  const section = new Section(
    "write",
    "Write with a language model",
    "While you type, the bars show the likeliest next tokens; click one to add it. The deeper the colour of a token, the more it surprised the model.",
    models,
  );
  const box = make("textarea", { rows: 3, spellcheck: "false", maxlength: 2000 });
  box.value = "My mother is";
  section.controls.append(make("label", { class: "box" }, make("span", {}, "Text"), box));
  const ask = () =>
    section.ask("inspect/next", { q: box.value, k: SHOWN }, (answer) => show(section, box, ask, answer));
  box.addEventListener("input", debounce(150, ask));
  section.onModel(ask);
  section.begin = ask;
  return section;
}

function show(section, box, ask, { read, expected, entropy }) {
  const total = read.reduce((sum, one) => sum + (one.bits ?? 0), 0);
  const tokens = read.map((one) => {
    const bits = `${short(one.bits, 1)} bits`;
    const token = make(
      "span",
      { class: "token", title: bits },
      one.piece || "·",
      make("span", { class: "unseen" }, ` (${bits})`),
    );
    token.style.setProperty("--surprise", String(Math.min(1, (one.bits ?? 0) / MOST_BITS)));
    return token;
  });
  const bars = expected.map((one) => {
    const bar = make("span", { class: "bar" });
    bar.style.setProperty("--share", String(one.probability));
    const button = make(
      "button",
      { type: "button", class: "next", "aria-label": `Add “${visible(one)}”, ${percent(one.probability)}` },
      make("span", { class: "what" }, visible(one)),
      make("span", { class: "track" }, bar),
      make("span", { class: "share" }, percent(one.probability)),
    );
    if (!one.piece) button.disabled = true; // a mark adds nothing to a text
    button.addEventListener("click", () => {
      box.value += one.piece;
      ask();
      box.focus();
    });
    return button;
  });
  const mean = read.length ? `${short(total / read.length, 1)} bits per token so far; ` : "";
  section.view.replaceChildren(
    make(
      "p",
      { class: "surprises", role: "group", "aria-label": "Tokens with their surprisal" },
      tokens.length ? tokens : "There are no tokens yet.",
    ),
    make(
      "p",
      { class: "legend" },
      "0 bits ",
      make("span", { class: "ramp surprise" }),
      ` ${MOST_BITS} bits or more`,
    ),
    make(
      "p",
      { class: "readout" },
      `${mean}the next token is as uncertain as a choice among ${short(2 ** entropy, entropy < 3 ? 1 : 0)} equally likely ones.`,
    ),
    make("div", { class: "bars", role: "group", "aria-label": "Likeliest next tokens" }, bars),
  );
}

function visible({ piece, token }) {
  if (!piece) return token;
  return piece.replaceAll(" ", "␣").replaceAll("\n", "↵");
}
