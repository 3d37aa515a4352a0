// Fill in blanks, the likeliest fillings first.

import { make, percent } from "./dom.js";
import { Section, textForm } from "./section.js";

export function fillSection(models) {
  const section = new Section(
    "fill",
    "Fill in the blanks",
    "Write ___ where a word is missing; several blanks are filled together.",
    models,
  );
  const many = make("input", { type: "number", min: 1, max: 20, value: 5, inputmode: "numeric" });
  const { form } = textForm({
    label: "Text with blanks",
    value: "My ___ is reading a ___.",
    button: "Fill in",
    extra: [make("label", {}, "fillings ", many)],
    send: (q) => {
      const k = Math.min(20, Math.max(1, Math.round(Number(many.value)) || 1));
      section.ask("fill", { q, k }, ({ results: [best] }) => show(section, [best, ...best.alternatives]));
    },
  });
  section.controls.append(form);
  section.onModel(() => form.requestSubmit());
  section.begin = () => form.requestSubmit();
  return section;
}

function show(section, fillings) {
  const rows = fillings.map((one) => {
    const bar = make("span", { class: "bar" });
    bar.style.setProperty("--share", String(one.probability));
    return make(
      "li",
      { class: "filling" },
      make("span", { class: "said" }, highlight(one)),
      make("span", { class: "track" }, bar),
      make("span", { class: "share" }, percent(one.probability)),
    );
  });
  section.view.replaceChildren(make("ol", { class: "fillings" }, rows));
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
