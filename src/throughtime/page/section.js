// One section of the page: a heading, a choice of models, the controls, errors and warnings, and the view.

import { copyButton, debounce, make } from "./dom.js";
import { engine } from "./engine.js";
import { Problem } from "./engine/problem.js";
import { examplesOf } from "./examples.js";
import { sayProblem, sayWarning } from "./notes.js";
import { describeRequest } from "./requests.js";
import { say } from "./words.js";

const PAUSE = 200; // milliseconds without a key press until a text is sent while it is typed

let sections = 0;

export class Section {
  /**
   * `models` are those that this section is for; if there are several, the user chooses one. At first it is the one
   * whose name is `models.chosen`, or else the first.
   */
  constructor(id, title, hint, models) {
    this.models = models;
    this.title = title;
    this.problem = make("p", { class: "problem", role: "alert" });
    this.warning = make("p", { class: "warning", role: "status" });
    this.controls = make("div", { class: "controls" });
    this.view = make("div", { class: "view", "aria-live": "off" });
    this.requests = {}; // the newest request of each channel
    this.drawings = {}; // what draws its answer again, for another width or other colours
    this.chooser = null;
    sections += 1;
    const heading = `heading-${sections}`;
    if (models.length > 1)
      this.chooser = make(
        "select",
        { "aria-label": say("Model for: {title}", { title }) },
        models.map((one) =>
          make("option", { value: one.name, selected: one.name === models.chosen }, describeModel(one)),
        ),
      );
    this.code = new RequestPanel();
    this.head = make(
      "div",
      { class: "head" },
      say("Model"),
      this.chooser ?? make("strong", {}, describeModel(models[0])),
    );
    this.notes = make("div", { class: "notes" }, this.problem, this.warning);
    const asking = make("div", { class: "asking" }, this.head, this.controls, this.notes);
    const answering = make("div", { class: "answering" }, this.view, this.code.element);
    this.panel = make("div", { class: "panel" }, make("div", { class: "halves" }, asking, answering));
    this.columns = make("div", { class: "columns" }, this.panel);
    this.element = make(
      "section",
      { id, "aria-labelledby": heading, tabindex: -1 },
      make("h2", { id: heading }, title),
      make("p", { class: "hint" }, hint),
      this.columns,
    );
    this.chooser?.addEventListener("change", () => this.forget());
    this.watch();
  }

  get model() {
    return this.chooser ? this.models.find((one) => one.name === this.chooser.value) : this.models[0];
  }

  onModel(act) {
    this.chooser?.addEventListener("change", act);
  }

  /**
   * Send a request and pass the answer to `show`; a new request replaces an older one of the same channel.
   * The old picture stays until the answer is there.
   */
  async ask(path, body, show, channel = "main") {
    this.requests[channel]?.abort();
    const request = new AbortController();
    this.requests[channel] = request;
    const host = this.panel.closest("section") ?? this.element;
    host.setAttribute("aria-busy", "true");
    this.panel.classList.add("waiting");
    const asked = { model: this.model.name, ...body };
    try {
      const answer = await engine.post(path, asked, request.signal);
      if (this.requests[channel] !== request) return;
      this.code.show(path, asked, this.model);
      this.problem.textContent = "";
      this.view.classList.remove("stale");
      this.warn(answer.warnings ?? []);
      const first = !this.drawings[channel];
      this.drawings[channel] = () => show(answer);
      show(answer);
      if (this.pressed && !first) this.release("0");
      this.pressed = false;
      this.keepHeight();
    } catch (error) {
      if (error.name === "AbortError" || this.requests[channel] !== request) return;
      this.tell(error);
    } finally {
      if (this.requests[channel] === request) this.requests[channel] = null;
      if (!Object.values(this.requests).some(Boolean)) {
        this.panel.classList.remove("waiting");
        if (!host.querySelector(".waiting")) host.removeAttribute("aria-busy");
      }
    }
  }

  /** Show the warnings of an answer. */
  warn(warnings) {
    const sentences = warnings.map(sayWarning).join(" ");
    this.warning.textContent = sentences && say("Note: {warnings}", { warnings: sentences });
  }

  /** Show what went wrong; the view still shows an earlier answer. */
  tell(error) {
    this.view.classList.add("stale");
    this.warn([]);
    if (!(error instanceof Problem)) console.error(error);
    this.problem.textContent =
      error instanceof Problem ? sayProblem(error.message) : say("This answer could not be drawn.");
  }

  /** End what is under way, before the section is removed. */
  close() {
    this.second?.close();
    this.stop?.();
    for (const request of Object.values(this.requests)) request?.abort();
    this.observer.disconnect();
  }

  /** Forget how the answers of another model were drawn. */
  forget() {
    this.drawings = {};
    this.release();
  }

  /** The answer is of an earlier text, which is no longer there. */
  outdate(note) {
    this.requests.main?.abort();
    this.problem.textContent = "";
    this.warning.textContent = note;
    this.view.classList.add("stale");
    this.keepHeight();
  }

  /** Let notes and the view shrink again. */
  release(height = "") {
    for (const part of [this.view, this.notes]) part.style.minHeight = height;
  }

  /** Notes and the view do not shrink while one types: what stands below them stays where it is. */
  keepHeight() {
    for (const part of [this.view, this.notes]) {
      const most = Math.min(part.offsetHeight, innerHeight);
      if (most > (parseFloat(part.style.minHeight) || 0)) part.style.minHeight = `${most}px`;
    }
  }

  /** Draw the newest answers again. */
  redraw() {
    this.release();
    for (const again of Object.values(this.drawings)) again();
    this.keepHeight();
  }

  /** Draw again when the view has another width. */
  watch() {
    let width = 0;
    const redraw = debounce(120, () => {
      if (!this.view.isConnected || Math.abs(this.view.clientWidth - width) < 8) return;
      width = this.view.clientWidth;
      this.redraw();
    });
    this.observer = new ResizeObserver(() => {
      width ||= this.view.clientWidth;
      redraw();
    });
    this.observer.observe(this.view);
  }
}

/** The request that was just made, for other programs. */
class RequestPanel {
  constructor() {
    this.place = make("div", {});
    this.element = make(
      "details",
      { class: "code", hidden: true, ontoggle: () => this.draw() },
      make("summary", {}, say("This request as curl and Python")),
      this.place,
    );
  }

  show(path, body, model) {
    this.made = [path, body, model];
    this.element.hidden = false;
    this.draw();
  }

  draw() {
    if (!this.element.open || !this.made) return;
    const texts = describeRequest(...this.made).map(([title, text]) =>
      make(
        "div",
        { class: "snippet" },
        make("p", { class: "legend" }, title, copyButton(() => text)),
        make("pre", { tabindex: 0, role: "group", "aria-label": title }, text),
      ),
    );
    this.place.replaceChildren(...texts);
  }
}

export function describeModel(model) {
  return model.task === "translate" ? `${model.name} (${model.source} → ${model.target})` : model.name;
}

/**
 * A form with a box of text, examples for the model, and a button; Enter sends it, Shift and Enter begin a new
 * line. `live` is called while one types; `true` sends the form. Without `value`, the box has the first example.
 */
export function textForm({ section, label, value, button, extra = [], send, live = false, rows = 2 }) {
  const box = make("textarea", { class: "grows", rows, spellcheck: "false", maxlength: 2000 });
  const examples = make("div", { class: "examples", role: "group", "aria-label": say("Examples") });
  const form = make(
    "form",
    {},
    make("label", { class: "box" }, make("span", {}, label), box),
    section ? examples : null,
    make("div", { class: "row" }, make("button", { type: "submit", class: "main" }, button), extra),
  );
  let sent = null;
  function fit() {
    const texts = section ? examplesOf(section.model) : [];
    if (!box.readOnly && box.value === (sent ?? "")) box.value = sent = value ?? texts[0] ?? "";
    examples.hidden = texts.length < 2;
    examples.replaceChildren(
      ...texts.slice(0, 5).map((text) =>
        make(
          "button",
          {
            type: "button",
            class: "example",
            title: text,
            onclick: () => {
              box.value = sent = text;
              form.requestSubmit();
            },
          },
          text,
        ),
      ),
    );
  }
  let last = null;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    last = box.value;
    if (section) section.pressed = true;
    send(box.value);
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  const typed = live === true ? send : live;
  const later = debounce(PAUSE, () => {
    if (box.value === last) return; // it was sent meanwhile, by Enter for example
    last = box.value;
    if (section) section.pressed = false;
    typed(box.value);
  });
  if (typed) box.addEventListener("input", later);
  fit();
  section?.onModel(fit);
  return { form, box };
}
