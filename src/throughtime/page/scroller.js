// A box that scrolls sideways: its edges fade where more is hidden, and a button goes to the end.

import { make } from "./dom.js";
import { say } from "./words.js";

/** Wrap wide content; `ends` adds buttons to its beginning and its end. */
export function scroller(content, name, ends = false) {
  const box = make("div", { class: "scroll fades", role: "group", "aria-label": name }, content);
  const start = make("button", { type: "button", class: "jump" }, "⇤ ", say("to the beginning"));
  const end = make("button", { type: "button", class: "jump" }, say("to the end"), " ⇥");
  const jumps = make("div", { class: "jumps" }, start, end);
  const element = make("div", { class: "scroller" }, box, ends ? jumps : null);
  function update() {
    const hidden = box.scrollWidth - box.clientWidth;
    const more = [hidden > 2 && box.scrollLeft > 2, hidden > 2 && box.scrollLeft < hidden - 2];
    box.classList.toggle("more-before", more[0]);
    box.classList.toggle("more-after", more[1]);
    jumps.style.visibility = hidden > 2 ? "visible" : "hidden";
    start.disabled = !more[0];
    end.disabled = !more[1];
    // What can be scrolled must be reachable with the keyboard, unless something inside it can be focused.
    if (hidden > 2 && !box.querySelector("[tabindex='0']")) box.setAttribute("tabindex", "0");
    else box.removeAttribute("tabindex");
  }
  start.addEventListener("click", () => box.scrollTo({ left: 0 }));
  end.addEventListener("click", () => box.scrollTo({ left: box.scrollWidth }));
  box.addEventListener("scroll", update, { passive: true });
  const watcher = new ResizeObserver(update);
  watcher.observe(box);
  watcher.observe(content);
  return { element, box, update };
}
