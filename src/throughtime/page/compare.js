// Two models side by side: a second column of a section, which gets the same input as the first.

import { make } from "./dom.js";
import { say } from "./words.js";

const SHARED = "textarea, [data-shared]";
const FIELDS = "textarea, select, input:not([type=file])";

/** Copy what is in the fields of a section to another one; with `add`, choices that are not there yet come too. */
export function copyFields(from, to, add = false, which = FIELDS) {
  const own = from.controls.querySelectorAll(which);
  to.controls.querySelectorAll(which).forEach((field, place) => {
    const old = own[place];
    if (!old) return;
    if (field.options && ![...field.options].some((one) => one.value === old.value)) {
      if (!add) return;
      field.replaceChildren(...[...old.options].map((one) => one.cloneNode(true)));
    }
    if (field.type === "checkbox") field.checked = old.checked;
    else field.value = field.max && Number(old.value) > Number(field.max) ? field.max : old.value;
  });
}

/**
 * Give a section a button for a second column; `build` builds the section again, for a model of this name.
 * `section.compare(old)` opens the column too, as `old` was.
 */
export function addComparison(section, build) {
  if (section.models.length === 1 && !section.controls.querySelector("select, input")) return;
  const name = section.models.length > 1 ? say("Compare two models") : say("Compare two settings");
  const press = () => (section.second ? end() : section.compare());
  const button = make("button", { type: "button", class: "quiet", title: name, onclick: press }, say("Compare"));
  button.setAttribute("aria-label", name);
  section.head.append(button);

  section.compare = (old) => {
    const second = build(old?.model.name ?? otherModel(section));
    section.second = second;
    second.panel.classList.add("second");
    second.panel.setAttribute("role", "group");
    second.panel.setAttribute("aria-label", say("Second column"));
    for (const box of second.controls.querySelectorAll("textarea")) {
      box.readOnly = true; // it shows what the first column was asked
      box.tabIndex = -1;
    }
    copyFields(old ?? section, second, Boolean(old) || second.model === section.model);
    second.onModel(showExamples);
    section.columns.append(second.panel);
    showExamples();
    show();
    second.begin?.();
  };

  function end() {
    section.second.close();
    section.second.panel.remove();
    section.second = null;
    show();
  }

  function show() {
    section.columns.classList.toggle("two", Boolean(section.second));
    button.setAttribute("aria-pressed", String(Boolean(section.second)));
  }
  show();

  /** The examples of the second column cannot be seen, but take as much room as those of the first. */
  function showExamples() {
    const [own, other] = [section, section.second].map((one) => one?.controls.querySelector(".examples"));
    if (!own || !other) return;
    other.hidden = own.hidden;
    other.replaceChildren(...[...own.children].map((one) => one.cloneNode(true)));
  }
  section.onModel(showExamples);

  const share = () => copyFields(section, section.second, false, SHARED);
  for (const kind of ["input", "change"])
    section.controls.addEventListener(kind, (event) => {
      const { second } = section;
      if (!second || !event.target.matches(SHARED)) return;
      share();
      const place = [...section.controls.querySelectorAll(SHARED)].indexOf(event.target);
      second.controls.querySelectorAll(SHARED)[place]?.dispatchEvent(new Event(kind, { bubbles: true }));
    });
  section.controls.addEventListener("submit", (event) => {
    if (!section.second) return;
    share();
    const forms = [...section.controls.querySelectorAll("form")];
    section.second.controls.querySelectorAll("form")[forms.indexOf(event.target)]?.requestSubmit();
  });
}

/** The name of another model for the second column, if possible one for the same languages. */
function otherModel({ models, model: first }) {
  const others = models.filter((one) => one.name !== first.name);
  const alike = (one) => 2 * (one.source === first.source) + (one.target === first.target) + (one.task === first.task);
  others.sort((one, other) => alike(other) - alike(one));
  return (others[0] ?? first).name;
}
