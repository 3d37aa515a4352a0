// Making elements. Text only ever becomes text: nothing here parses HTML.

import { language, say } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}

/** An HTML element: make("p", {class: "hint"}, "text"). */
export const make = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);

/** An SVG element. */
export const draw = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/** Call a function once nothing has happened for a while. */
export function debounce(wait, act) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(act, wait);
  };
}

/** A number with this many decimals, commas between thousands, and a real minus. */
export function decimal(value, digits) {
  if (value === null || !Number.isFinite(value)) return "–";
  const places = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return value.toLocaleString("en-US", places).replace(/^-(?=[0.]*$)/, "").replaceAll("-", "−");
}

/** A number with few digits: whole if it is large, and with two digits that count if it is small. */
export function short(value, digits = 2) {
  const size = Math.abs(value);
  if (!(size > 0 && size < 0.001)) return decimal(value, size >= 10000 ? 0 : digits);
  return value.toLocaleString("en-US", { maximumSignificantDigits: 2 }).replaceAll("-", "−");
}

/** A number kept between two others. */
export const within = (value, low, high) => Math.min(high, Math.max(low, value));

/** A probability; one too small for a decimal has two digits that count. */
export function percent(share) {
  const hundredths = 100 * share;
  const sign = language() === "zh" ? "%" : "\u00a0%"; // a line does not break before it
  if (share > 0 && share < 0.001) return hundredths.toPrecision(2).replace("-", "−") + sign;
  return hundredths.toFixed(share < 0.0995 ? 1 : 0) + sign;
}

/** Words that begin like a sentence and end like one. */
export function endSentence(words) {
  const sentence = words.charAt(0).toUpperCase() + words.slice(1);
  return /[.!?。！？]$/.test(sentence) ? sentence : `${sentence}.`;
}

/** A field for a number; `read` gives the number, kept between its ends, or null if it is empty. */
export function numberField(label, { min, max, value, step = 1, ...more }) {
  const input = make("input", { type: "number", min, max, step, value, ...more });
  const read = () => {
    if (input.value.trim() === "" || !Number.isFinite(Number(input.value))) return null;
    const number = within(Number(input.value), min, Number(input.max || max));
    return step === 1 ? Math.round(number) : number;
  };
  return { label: make("label", {}, label, input), input, read };
}

/** A bar as long as a share of its track. */
export function shareBar(share) {
  const bar = make("span", { class: "bar" });
  bar.style.setProperty("--share", String(share));
  return make("span", { class: "track" }, bar);
}

let pen = null;

/** How wide a text gets in a picture, in pixels. */
export function textWidth(text, size = 12) {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

/** A button that copies the text that `text()` gives. */
export function copyButton(text) {
  const button = make("button", { type: "button", class: "copy" }, say("Copy"));
  const back = debounce(1500, () => {
    button.textContent = say("Copy");
  });
  button.addEventListener("click", async () => {
    button.textContent = (await copy(text())) ? say("Copied") : say("Not allowed");
    back();
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without a safe connection there is no clipboard, but a selected field can be copied.
    const field = make("textarea", { class: "unseen", readonly: true });
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

/** Names and their numbers, largest first: objects put names like "10" before others, whatever their order was. */
export const bySize = (numbers) => Object.entries(numbers).sort(([, one], [, other]) => other - one);
