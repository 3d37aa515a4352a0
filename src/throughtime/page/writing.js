// Typing with a language model: what it expects next, how much each token surprised it, and what it writes itself.

import { copyButton, make, numberField, percent, shareBar, short } from "./dom.js";
import { Section, textForm } from "./section.js";
import { say, word } from "./words.js";

const MAX_BITS = 14;
const SHOWN = 10;

export function writingSection(models) {
  const section = new Section(
    "write",
    say("Write with a language model"),
    say(
      "While you type, the bars show the likeliest next tokens; click one to add it. The deeper the colour of a token, the more it surprised the model. The button lets the model continue your text.",
    ),
    models,
  );
  section.element.classList.add("split");
  const tokens = numberField(say("tokens"), { min: 1, max: 500, value: 40, inputmode: "numeric" });
  const temperature = numberField(say("temperature"), { min: 0, max: 2, step: 0.1, value: 0.8 });
  const top = numberField(say("top k"), { min: 1, max: 100000, placeholder: say("all"), inputmode: "numeric" });
  const seed = numberField(say("seed"), { min: 0, max: 2147483647, value: 1, inputmode: "numeric" });
  const stop = make("input", { type: "text", class: "brief", spellcheck: "false", placeholder: say("none") });
  const again = make("button", { type: "button" }, say("Another one"));
  const next = make("div", {});
  const written = make("div", { class: "written" });
  let texts = []; // that what was written belongs to
  section.view.append(next);
  const { form, box } = textForm({
    section,
    label: say("Text"),
    button: say("Continue the text"),
    rows: 3,
    live: () => {
      written.classList.toggle("stale", !texts.includes(box.value));
      expect();
    },
    extra: [again],
    send: () => {
      expect();
      write();
    },
  });
  const until = make("label", {}, say("stop at"), stop);
  form.append(make("div", { class: "row" }, tokens.label, temperature.label, top.label, seed.label, until));
  section.controls.append(form, written);

  function expect() {
    return section.ask("inspect/next", { q: box.value, k: SHOWN }, (answer) => {
      next.replaceChildren(...showNext(answer, add));
    });
  }
  function write() {
    const body = {
      prompt: box.value,
      max_tokens: tokens.read() ?? 40,
      temperature: temperature.read() ?? 1,
      seed: seed.read() ?? 0,
      ...(top.read() === null ? {} : { top_k: top.read() }),
      ...(stop.value ? { stop: stop.value } : {}),
    };
    const show = (answer) => {
      texts = [body.prompt, body.prompt + answer.choices[0].text];
      written.classList.toggle("stale", !texts.includes(box.value));
      written.replaceChildren(...showWritten(body, answer, take));
    };
    section.ask("v1/completions", body, show, "write");
  }
  function take(text) {
    box.value = text;
    box.dispatchEvent(new Event("input", { bubbles: true }));
  }
  function add(piece) {
    take(box.value + piece);
    box.focus();
  }
  again.addEventListener("click", () => {
    seed.input.value = String((seed.read() ?? 0) + 1);
    form.requestSubmit();
  });
  section.begin = () => form.requestSubmit();
  section.onModel(section.begin);
  return section;
}

function showNext({ read, expected, entropy }, add) {
  const total = read.reduce((sum, one) => sum + (one.bits ?? 0), 0);
  const tokens = read.map((one) => {
    const bits = say("{count} bits", { count: short(one.bits, 1) });
    const token = make(
      "span",
      { class: "token", title: bits },
      one.piece || "·",
      make("span", { class: "unseen" }, ` (${bits})`),
    );
    token.style.setProperty("--surprise", String(Math.min(1, (one.bits ?? 0) / MAX_BITS)));
    return token;
  });
  const bars = expected.map((one) => {
    return make(
      "button",
      {
        type: "button",
        class: "next",
        disabled: !one.piece, // a mark adds nothing to a text
        onclick: () => add(one.piece),
      },
      make("span", { class: "what" }, visible(one)),
      shareBar(one.probability),
      make("span", { class: "share" }, percent(one.probability)),
      make("span", { class: "unseen" }, say("Add it to the text")),
    );
  });
  const count = short(2 ** entropy, entropy < 3 ? 1 : 0);
  const sentences = [
    read.length ? say("So far {count} bits a token.", { count: short(total / read.length, 1) }) : "",
    say("The next token is as uncertain as a choice among {count} equally likely ones.", { count }),
  ];
  return [
    make(
      "p",
      { class: "surprises", role: "group", "aria-label": say("Tokens with their surprisal") },
      tokens.length ? tokens : say("There are no tokens yet."),
    ),
    make(
      "p",
      { class: "legend" },
      say("{count} bits", { count: 0 }),
      make("span", { class: "ramp surprise" }),
      say("{count} bits or more", { count: MAX_BITS }),
    ),
    make("p", { class: "readout" }, sentences.join(" ")),
    make("div", { class: "bars", role: "group", "aria-label": say("Likeliest next tokens") }, bars),
  ];
}

const REASON = {
  stop: word("The text ended by itself."),
  told: word("The text ended by itself or at “{stop}”."),
  length: word("The text was cut at {count} tokens."),
};

function showWritten({ prompt, max_tokens: count, stop }, { choices: [choice] }, take) {
  const whole = prompt + choice.text;
  const reason = choice.finish_reason === "stop" && stop ? "told" : choice.finish_reason;
  return [
    make("h3", {}, say("Written by the model")),
    make("p", { class: "page" }, prompt, make("mark", {}, choice.text)),
    make(
      "div",
      { class: "row" },
      make("button", { type: "button", onclick: () => take(whole) }, say("Use as text")),
      copyButton(() => whole),
      make("span", { class: "score" }, say(REASON[reason] ?? REASON.length, { count, stop })),
    ),
  ];
}

function visible({ piece, token }) {
  if (!piece) return token;
  return piece.replaceAll(" ", "␣").replaceAll("\n", "↵");
}
