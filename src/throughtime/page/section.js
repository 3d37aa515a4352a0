// One section of the page: a heading, a choice of models, the controls, errors and warnings, and the view.

import { make } from "./dom.js";
import { Problem, post } from "./server.js";

let sections = 0;

export class Section {
  /** `models` are those that this section is for; if there are several, the user chooses one. */
  constructor(id, title, hint, models) {
    this.models = models;
    this.problem = make("p", { class: "problem", role: "alert" });
    this.warning = make("p", { class: "warning", role: "status" });
    this.controls = make("div", { class: "controls" });
    this.view = make("div", { class: "view", "aria-live": "off" });
    this.chooser = null;
    sections += 1;
    const heading = `heading-${sections}`;
    const head = make("div", { class: "head" }, make("h2", { id: heading }, title));
    if (models.length > 1) {
      this.chooser = make(
        "select",
        { "aria-label": `Model for: ${title}` },
        models.map((one) => make("option", { value: one.name }, describeModel(one))),
      );
      head.append(this.chooser);
    } else {
      head.append(make("span", { class: "model" }, describeModel(models[0])));
    }
    this.element = make(
      "section",
      { id, "aria-labelledby": heading },
      head,
      make("p", { class: "hint" }, hint),
      this.controls,
      this.problem,
      this.warning,
      this.view,
    );
    this.request = null;
  }

  get model() {
    return this.chooser ? this.models.find((one) => one.name === this.chooser.value) : this.models[0];
  }

  onModel(act) {
    this.chooser?.addEventListener("change", act);
  }

  /** Send a request and pass the answer to `show`; a new request replaces an older one. */
  async ask(path, body, show) {
    this.request?.abort();
    const request = new AbortController();
    this.request = request;
    this.element.setAttribute("aria-busy", "true");
    try {
      const answer = await post(path, { model: this.model.name, ...body }, request.signal);
      if (this.request !== request) return;
      this.problem.textContent = "";
      this.view.classList.remove("stale");
      this.warn(answer.warnings ?? []);
      show(answer);
    } catch (error) {
      if (error.name === "AbortError" || this.request !== request) return;
      this.tell(error);
    } finally {
      if (this.request === request) this.element.removeAttribute("aria-busy");
    }
  }

  /** Show the warnings of an answer. */
  warn(warnings) {
    const sentences = warnings.map((one) => `${one.charAt(0).toUpperCase()}${one.slice(1)}.`);
    this.warning.textContent = sentences.join(" ");
  }

  /** Show what went wrong; the view still shows an earlier answer. */
  tell(error) {
    this.view.classList.add("stale");
    this.warn([]);
    if (!(error instanceof Problem)) console.error(error);
    this.problem.textContent = error instanceof Problem ? error.message : "This answer could not be drawn.";
  }
}

function describeModel(model) {
  return model.task === "translate" ? `${model.name} (${model.source} → ${model.target})` : model.name;
}

/** A form with a box of text and a button; Enter sends it, Shift and Enter begin a new line. */
export function textForm({ label, value, button, extra = [], send }) {
  const box = make("textarea", { class: "grows", rows: 2, spellcheck: "false", maxlength: 2000 });
  box.value = value;
  const form = make(
    "form",
    {},
    make("label", { class: "box" }, make("span", {}, label), box),
    make("div", { class: "row" }, make("button", { type: "submit", class: "main" }, button), extra),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(box.value);
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  return { form, box };
}
