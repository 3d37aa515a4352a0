// Fill in blanks, the likeliest fillings first.

import { copyButton, make, numberField, percent, shareBar } from "./dom.js";
import { Section, textForm } from "./section.js";
import { say } from "./words.js";

export function fillSection(models) {
  const section = new Section(
    "fill",
    say("Fill in the blanks"),
    say("Write ___ where a word is missing; several blanks are filled together."),
    models,
  );
  section.element.classList.add("split");
  const many = numberField(say("fillings"), { min: 1, max: 20, value: 5, inputmode: "numeric" });
  const send = (q) =>
    section.ask("fill", { q, k: many.read() ?? 5 }, ({ results: [best] }) =>
      show(section, [best, ...best.alternatives]),
    );
  const { form } = textForm({
    section,
    label: say("Text with blanks"),
    button: say("Fill in"),
    extra: [many.label],
    live: (q) => {
      if (/_{2,}|\[MASK\]/.test(q)) send(q);
      else section.outdate(say("There is no blank yet: write ___ where a word is missing."));
    },
    send,
  });
  section.controls.append(form);
  section.onModel(() => form.requestSubmit());
  section.begin = () => form.requestSubmit();
  return section;
}

function show(section, fillings) {
  const rows = fillings.map((one) =>
    make(
      "li",
      { class: "filling" },
      make("span", { class: "said" }, highlight(one)),
      shareBar(one.probability),
      make("span", { class: "share" }, percent(one.probability)),
    ),
  );
  section.view.replaceChildren(
    make("ol", { class: "fillings" }, rows),
    make("div", { class: "row" }, copyButton(() => fillings[0].text)),
  );
}

/** The text, with the words that fill its blanks highlighted. */
function highlight({ text, tokens }) {
  const parts = [];
  let rest = text;
  for (const token of tokens) {
    const at = token ? rest.indexOf(token) : -1;
    if (at < 0) continue;
    parts.push(rest.slice(0, at), make("mark", {}, token));
    rest = rest.slice(at + token.length);
  }
  return [...parts, rest];
}
