// Answers of a task that has no section of its own, such as one of another package: a text in, plain values out.

import { make } from "./dom.js";
import { Section, textForm } from "./section.js";
import { say } from "./words.js";

export function answerSection(models, ability) {
  const section = new Section(
    ability,
    say("Ask the model: {ability}", { ability }),
    say("The answer is shown as the server gives it."),
    models,
  );
  const { form } = textForm({
    section,
    label: say("Text"),
    button: say("Answer"),
    live: true,
    send: (q) => section.ask(ability, { q }, ({ results: [one] }) => show(section, one)),
  });
  section.controls.append(form);
  section.onModel(() => form.requestSubmit());
  section.begin = () => form.requestSubmit();
  return section;
}

function show(section, answer) {
  section.view.replaceChildren(make("pre", {}, JSON.stringify(answer, null, 2)));
}
