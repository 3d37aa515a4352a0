// Making elements. Text only ever becomes text: nothing here parses HTML.

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

/** A number with few digits, and a real minus. */
export function short(value, digits = 2) {
  if (value === null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const text = size >= 10000 || (size > 0 && size < 0.001) ? value.toExponential(1) : value.toFixed(digits);
  return text.replace("-", "−");
}

/** A number kept between two others. */
export const within = (value, low, high) => Math.min(high, Math.max(low, value));

/** A probability; one too small for a decimal has two digits that count. */
export function percent(share) {
  const hundredths = 100 * share;
  if (share > 0 && share < 0.001) return `${hundredths.toPrecision(2).replace("-", "−")} %`;
  return `${hundredths.toFixed(share < 0.0995 ? 1 : 0)} %`;
}
