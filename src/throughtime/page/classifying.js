// The labels of a text, the likeliest first.

import { bySize, make, percent, shareBar } from "./dom.js";
import { Section, textForm } from "./section.js";
import { say } from "./words.js";

const SHOWN = 12;

export function classifySection(models) {
  const section = new Section(
    "classify",
    say("Label a text"),
    say("The bars show how likely the model finds each label; together they make 100 %."),
    models,
  );
  section.element.classList.add("split");
  const { form } = textForm({
    section,
    label: say("Text"),
    button: say("Classify"),
    live: true,
    send: (q) => section.ask("classify", { q }, ({ results: [one] }) => show(section, one)),
  });
  section.controls.append(form);
  section.onModel(() => form.requestSubmit());
  section.begin = () => form.requestSubmit();
  return section;
}

function show(section, { probabilities }) {
  const labels = bySize(probabilities);
  const rows = labels.slice(0, SHOWN).map(([label, share], place) =>
    make(
      "li",
      { class: place ? "label" : "label first" },
      make("span", { class: "said" }, label),
      shareBar(share),
      make("span", { class: "share" }, percent(share)),
    ),
  );
  const others = labels.slice(SHOWN);
  const share = percent(others.reduce((sum, [, one]) => sum + one, 0));
  const rest = others.length ? say("{count} other labels have {share} together.", { count: others.length, share }) : "";
  section.view.replaceChildren(
    make("ol", { class: "fillings" }, rows),
    rest ? make("p", { class: "hint" }, rest) : "",
  );
}
