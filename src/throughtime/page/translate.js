// Translate, with alternatives; the alignment follows the mouse and the keyboard.

import { draw, make, short, within } from "./dom.js";
import { Section, textForm } from "./section.js";

/** The first sentence to translate, by source language. */
export const EXAMPLE = {
  en: "My mother is reading a letter in the garden.",
  de: "Ein Mann liest einen Brief im Garten.",
  fr: "Ma mère lit une lettre dans le jardin.",
};

export function translateSection(models) {
  const section = new Section(
    "translate",
    "Translate, and see what each word looked at",
    "Point at a word of the translation, or move to it with Tab: the source words that it attended to are highlighted.",
    models,
  );
  const many = make(
    "select",
    {},
    [0, 2, 4].map((count) => make("option", { value: count, selected: count === 2 }, String(count))),
  );
  const { form, box } = textForm({
    label: "Source",
    value: EXAMPLE[section.model.source] ?? "",
    button: "Translate",
    extra: [make("label", {}, "alternatives ", many)],
    send: (q) =>
      section.ask("inspect/attention", { q, alternatives: Number(many.value) }, (answer) =>
        show(section, answer),
      ),
  });
  section.controls.append(form);
  section.onModel(() => form.requestSubmit());
  section.begin = () => box.value && form.requestSubmit();
  return section;
}

function show(section, { translations }) {
  const place = make("div", {});
  const choices = translations.map((one, number) => {
    const button = make(
      "button",
      { type: "button", class: "choice", "aria-pressed": String(number === 0) },
      make("span", { class: "said" }, one.text || "(nothing)"),
      make("span", { class: "score", title: "ln P / length^alpha; nearer to 0 is better" }, short(one.score)),
    );
    button.addEventListener("click", () => {
      choices.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
      place.replaceChildren(...alignmentView(one, section.view.clientWidth));
    });
    return button;
  });
  place.append(...alignmentView(translations[0], section.view.clientWidth));
  section.view.replaceChildren(
    make("div", { class: "choices", role: "group", "aria-label": "Translations" }, choices),
    place,
  );
}

function alignmentView({ alignment }, room) {
  if (!alignment)
    return [make("p", { class: "hint" }, "There are no words to align, or this model has no attention.")];
  const { source, target, weights } = alignment;
  const sources = source.map((word) => make("span", { class: "word" }, word));
  const targets = target.map((word, row) =>
    make(
      "span",
      {
        class: "word",
        tabindex: 0,
        role: "button",
        "aria-label": describeAttention(word, source, weights[row]),
      },
      word,
    ),
  );
  const map = heatMap(source, target, weights, room);
  const readout = make("p", { class: "readout", "aria-live": "polite" }, "Point at a word.");

  function light(row) {
    targets.forEach((one, number) => one.classList.toggle("lit", number === row));
    sources.forEach((one, column) => {
      const weight = row === null ? 0 : weights[row][column];
      one.style.setProperty("--weight", String(weight));
      one.classList.toggle("strong", weight > 0.6);
    });
    map.light(row);
    readout.textContent =
      row === null ? "Point at a word." : describeAttention(target[row], source, weights[row]);
  }
  targets.forEach((one, row) => {
    one.addEventListener("pointerenter", () => light(row));
    one.addEventListener("focus", () => light(row));
    one.addEventListener("click", () => light(row));
  });
  map.onRow(light);
  return [
    make("div", { class: "words", role: "group", "aria-label": "Source words" }, sources),
    make("div", { class: "words target", role: "group", "aria-label": "Words of the translation" }, targets),
    readout,
    make("div", { class: "scroll" }, map.svg),
  ];
}

function describeAttention(word, source, row) {
  const looks = row
    .map((weight, column) => [weight, source[column]])
    .filter(([weight]) => weight >= 0.1)
    .sort(([one], [other]) => other - one)
    .map(([weight, from]) => `${from} ${Math.round(100 * weight)} %`);
  return looks.length ? `${word} looked at ${looks.join(", ")}` : `${word} looked at no word in particular`;
}

function heatMap(source, target, weights, room) {
  const left = 12 + 7.5 * Math.max(...target.map((word) => word.length));
  const top = 14 + 6 * Math.max(...source.map((word) => word.length));
  const wide = within((room - left - 34) / source.length, 22, 54);
  const high = 26;
  const width = left + wide * source.length + 30;
  const height = top + high * target.length + 4;
  const rows = target.map((word, row) => {
    const y = top + high * row;
    const cells = source.map((_, column) => {
      const weight = weights[row][column];
      const x = left + wide * column;
      const cell = {
        class: "heat",
        x,
        y,
        width: wide - 1,
        height: high - 1,
        "fill-opacity": Math.max(0.03, weight),
      };
      const number = { class: weight > 0.6 ? "on" : "number", x: x + wide / 2 - 0.5, y: y + high / 2 + 3.5 };
      return [
        draw("rect", cell),
        weight < 0.25 ? null : draw("text", number, weight.toFixed(1).replace(/^0/, "")),
      ];
    });
    return draw(
      "g",
      {},
      draw("text", { class: "axis end", x: left - 7, y: y + high / 2 + 4 }, word),
      cells.flat(),
    );
  });
  const heads = source.map((word, column) => {
    const x = left + wide * (column + 0.5);
    return draw("text", { class: "axis", transform: `translate(${x} ${top - 7}) rotate(-48)` }, word);
  });
  const marker = draw("rect", {
    class: "marker",
    x: left - 1,
    width: wide * source.length + 1,
    height: high + 1,
    visibility: "hidden",
  });
  const label = "Alignment: a row for each word of the translation, a column for each source word";
  const size = { viewBox: `0 0 ${width} ${height}`, width, height };
  const svg = draw("svg", { ...size, role: "img", "aria-label": label }, heads, rows, marker);
  return {
    svg,
    light(row) {
      marker.setAttribute("visibility", row === null ? "hidden" : "visible");
      if (row !== null) marker.setAttribute("y", String(top + high * row - 1));
      heads.forEach((head, column) =>
        head.classList.toggle("strong", row !== null && weights[row][column] > 0.3),
      );
    },
    onRow(act) {
      svg.addEventListener("pointermove", (event) => {
        const box = svg.getBoundingClientRect();
        const row = Math.floor((((event.clientY - box.top) / box.height) * height - top) / high);
        if (row >= 0 && row < target.length) act(row);
      });
    },
  };
}
