// Two models side by side: a second column of a section, which gets the same input as the first.

import { make } from "./dom.js";
import { say } from "./words.js";

const SHARED = "textarea, [data-shared]";

/** Give a section a button for a second column; `build` builds the section again. */
export function addComparison(section, build) {
  if (section.models.length === 1 && !section.controls.querySelector("select, input")) return;
  let second = null;
  const name = section.models.length > 1 ? say("Compare two models") : say("Compare two settings");
  const button = make("button", { type: "button", class: "quiet", title: name, onclick: change }, say("Compare"));
  button.setAttribute("aria-label", name);
  button.setAttribute("aria-pressed", "false");
  section.head.append(button);

  function change() {
    if (second) {
      second.close();
      second.panel.remove();
      second = null;
    } else {
      second = build();
      second.panel.classList.add("second");
      second.panel.setAttribute("role", "group");
      second.panel.setAttribute("aria-label", say("Second column"));
      for (const box of second.controls.querySelectorAll("textarea")) {
        box.readOnly = true; // it shows what the first column was asked
        box.tabIndex = -1;
      }
      chooseOther(second, section.model);
      section.columns.append(second.panel);
      share();
      second.chooser ? second.chooser.dispatchEvent(new Event("change")) : second.begin?.();
    }
    section.columns.classList.toggle("two", second !== null);
    button.setAttribute("aria-pressed", String(second !== null));
  }

  /** Copy the input of the first column to the second. */
  function share() {
    const own = section.controls.querySelectorAll(SHARED);
    second.controls.querySelectorAll(SHARED).forEach((field, place) => {
      if (own[place]) field.value = own[place].value;
    });
  }

  for (const kind of ["input", "change"])
    section.controls.addEventListener(kind, (event) => {
      if (!second || !event.target.matches(SHARED)) return;
      share();
      const place = [...section.controls.querySelectorAll(SHARED)].indexOf(event.target);
      second.controls.querySelectorAll(SHARED)[place]?.dispatchEvent(new Event(kind, { bubbles: true }));
    });
  section.controls.addEventListener("submit", (event) => {
    if (!second) return;
    share();
    const forms = [...section.controls.querySelectorAll("form")];
    second.controls.querySelectorAll("form")[forms.indexOf(event.target)]?.requestSubmit();
  });
}

/** Choose another model for the second column, if possible one for the same languages. */
function chooseOther(second, first) {
  const others = second.models.filter((one) => one.name !== first.name);
  const alike = (one) => 2 * (one.source === first.source) + (one.target === first.target) + (one.task === first.task);
  others.sort((one, other) => alike(other) - alike(one));
  if (second.chooser && others.length) second.chooser.value = others[0].name;
}
