// Write texts from a label or a vector.

import { make, short, within } from "./dom.js";
import { Section } from "./section.js";

export function composeSection(models) {
  const section = new Section(
    "compose",
    "Write from a label or a vector",
    "The model writes new texts for the label or vector that you choose. A lower temperature gives more predictable texts; the number after a text is its log-probability.",
    models,
  );
  const label = make("select", {});
  const labelField = make("label", {}, "label ", label);
  const vector = make("input", { type: "text", class: "numbers", spellcheck: "false", inputmode: "decimal" });
  const vectorField = make("label", {}, "vector ", vector);
  const many = make("input", { type: "number", min: 1, max: 16, value: 4, inputmode: "numeric" });
  const temperature = make("input", { type: "number", min: 0.1, max: 2, step: 0.1, value: 0.8 });
  const form = make(
    "form",
    { class: "row" },
    labelField,
    vectorField,
    make("label", {}, "texts ", many),
    make("label", {}, "temperature ", temperature),
    make("button", { type: "submit", class: "main" }, "Write"),
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
    const condition = section.model.labels ? { label: label.value } : { vector: numbers(vector.value) };
    const n = within(Math.round(Number(many.value)) || 1, 1, 16);
    const body = { ...condition, num_return_sequences: n, temperature: within(Number(temperature.value) || 1, 0.1, 2) };
    section.ask("compose", body, ({ results }) => show(section, [results[0], ...results[0].alternatives]));
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

/** The numbers of a vector; anything else is sent as it is, so that the server explains the error. */
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
      make("span", { class: "said" }, one.text || "(nothing)", one.ended ? null : " …"),
      make("span", { class: "score", title: "ln P; nearer to 0 is likelier" }, short(one.log_prob)),
    ),
  );
  section.view.replaceChildren(make("ol", { class: "fillings" }, rows));
}
