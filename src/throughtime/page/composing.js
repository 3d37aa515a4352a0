// Write texts from a label or a vector.

import { copyButton, make, numberField, short } from "./dom.js";
import { Section } from "./section.js";
import { say } from "./words.js";

export function composeSection(models) {
  const section = new Section(
    "compose",
    say("Write from a label or a vector"),
    say(
      "The model writes new texts for the label or vector that you choose. A lower temperature gives more predictable texts; the number after a text is its log-probability.",
    ),
    models,
  );
  section.element.classList.add("split");
  const label = make("select", { "data-shared": true });
  const labelField = make("label", {}, say("label"), label);
  const vector = make("input", {
    type: "text",
    class: "numbers",
    spellcheck: "false",
    inputmode: "decimal",
    "data-shared": true,
  });
  const vectorField = make("label", {}, say("vector"), vector);
  const many = numberField(say("texts"), { min: 1, max: 16, value: 4, inputmode: "numeric" });
  const temperature = numberField(say("temperature"), { min: 0, max: 2, step: 0.1, value: 0.8 });
  const top = numberField(say("top k"), { min: 1, max: 100000, placeholder: say("all"), inputmode: "numeric" });
  const seed = numberField(say("seed"), { min: 0, max: 2147483647, value: 1, inputmode: "numeric" });
  const again = make("button", { type: "button" }, say("Other ones"));
  const form = make(
    "form",
    {},
    make("div", { class: "row" }, labelField, vectorField, many.label, temperature.label, top.label, seed.label),
    make("div", { class: "row" }, make("button", { type: "submit", class: "main" }, say("Write")), again),
  );
  const fit = () => {
    const { labels, vector_size: size } = section.model;
    labelField.hidden = !labels;
    vectorField.hidden = Boolean(labels);
    label.replaceChildren(...(labels ?? []).map((one) => make("option", { value: one }, one)));
    if (!labels) vector.value = Array(size).fill(0).join(", ");
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const body = {
      ...(section.model.labels ? { label: label.value } : { vector: numbers(vector.value) }),
      num_return_sequences: many.read() ?? 4,
      temperature: temperature.read() ?? 1,
      seed: seed.read() ?? 0,
      ...(top.read() === null ? {} : { top_k: top.read() }),
    };
    if (body.temperature === 0) body.num_return_sequences = 1; // the likeliest text is only one
    section.ask("compose", body, ({ results }) => show(section, [results[0], ...results[0].alternatives]));
  });
  again.addEventListener("click", () => {
    seed.input.value = String((seed.read() ?? 0) + 1);
    form.requestSubmit();
  });
  label.addEventListener("change", () => form.requestSubmit());
  section.controls.append(form);
  section.onModel(() => {
    fit();
    form.requestSubmit();
  });
  fit();
  section.begin = () => form.requestSubmit();
  return section;
}

/** The numbers of a vector; anything else is sent as it is, so that the engine explains the error. */
function numbers(text) {
  return text
    .split(/[\s,;]+/)
    .filter(Boolean)
    .map((one) => (Number.isFinite(Number(one)) ? Number(one) : one));
}

function show(section, texts) {
  const rows = texts.map((one) =>
    make(
      "li",
      { class: "composed" },
      make("span", { class: "said" }, one.text || say("(nothing)"), one.ended ? null : " …"),
      make("span", { class: "score", title: say("ln P; nearer to 0 is likelier") }, short(one.log_prob)),
    ),
  );
  section.view.replaceChildren(
    make("ol", { class: "fillings" }, rows),
    make("div", { class: "row" }, copyButton(() => texts.map((one) => one.text).join("\n"))),
  );
}
