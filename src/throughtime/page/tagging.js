// The tag of each word of a sentence; a word that is chosen shows its likeliest tags.

import { bySize, copyButton, make, percent, shareBar } from "./dom.js";
import { Section, textForm } from "./section.js";
import { say } from "./words.js";

export function tagSection(models) {
  const section = new Section(
    "tag",
    say("Tag the words of a sentence"),
    say(
      "Each word has its tag below it; words of one kind have one colour. Choose a word to see how sure the model is.",
    ),
    models,
  );
  section.element.classList.add("split");
  const split = make("input", { type: "checkbox" });
  const { form } = textForm({
    section,
    label: say("Sentence"),
    button: say("Tag"),
    extra: [make("label", {}, split, say("punctuation marks are words of their own"))],
    live: true,
    send: (q) =>
      section.ask("tag", { q, ...(split.checked ? { tokenize: "unicode" } : {}) }, ({ results: [one] }) =>
        show(section, one),
      ),
  });
  split.addEventListener("change", () => form.requestSubmit());
  section.controls.append(form);
  section.onModel(() => form.requestSubmit());
  section.begin = () => form.requestSubmit();
  return section;
}

/** The kind of a tag: B-city and I-city are of the kind city; O is none. */
const kindOf = (tag) => (tag === "O" ? "" : tag.replace(/^[BIESLU]-/, ""));

function show(section, { words, chunks, label, label_probability: share }) {
  const kinds = [...new Set(words.map((one) => kindOf(one.tag)).filter(Boolean))];
  const likely = make("div", { class: "likely" });
  const boxes = words.map((one, place) => {
    const kind = kindOf(one.tag);
    const box = make(
      "button",
      {
        type: "button",
        class: kind ? "tagged" : "tagged none",
        "aria-pressed": "false",
      },
      make("span", { class: "said" }, one.word),
      make("span", { class: "tag" }, one.tag),
      shareBar(one.probability),
      make("span", { class: "unseen" }, percent(one.probability)),
    );
    // Each new kind is far from the ones before it on the circle of colours.
    if (kind) box.style.setProperty("--hue", String((250 + 137.5 * kinds.indexOf(kind)) % 360));
    for (const event of ["pointerenter", "focus", "click"]) box.addEventListener(event, () => choose(place));
    return box;
  });
  function choose(place) {
    boxes.forEach((box, number) => box.setAttribute("aria-pressed", String(number === place)));
    likely.replaceChildren(
      make("h3", {}, say("Tags of “{word}”", { word: words[place].word })),
      make(
        "ol",
        { class: "fillings" },
        bySize(words[place].likely).map(([tag, chance]) =>
          make(
            "li",
            { class: tag === words[place].tag ? "label first" : "label" },
            make("span", { class: "said" }, tag),
            shareBar(chance),
            make("span", { class: "share" }, percent(chance)),
          ),
        ),
      ),
    );
  }
  section.view.replaceChildren(
    label
      ? make("p", { class: "verdict" }, say("The whole sentence: "), make("strong", {}, label), ` ${percent(share)}`)
      : "",
    words.length
      ? make("div", { class: "tags", role: "group", "aria-label": say("Words with their tags") }, boxes)
      : make("p", { class: "hint" }, say("There are no words yet.")),
    chunks.length
      ? make(
          "dl",
          { class: "chunks" },
          chunks.map((one) => make("div", {}, make("dt", {}, one.type), make("dd", {}, one.text))),
        )
      : "",
    likely,
    make("div", { class: "row" }, copyButton(() => words.map((one) => `${one.word}/${one.tag}`).join(" "))),
  );
  if (words.length) choose(Math.max(0, words.findIndex((one) => kindOf(one.tag))));
}
