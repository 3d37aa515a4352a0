// Scales of colour with even steps of lightness: readable by the colour-blind, in grey and in dark mode.

const STEPS = 64;
// Lightness, chroma and hue (OKLCH) of the two ends; a chroma in the middle makes the way between them clear.
const SCALES = {
  light: {
    open: [{ low: [0.975, 0.008, 220], high: [0.36, 0.12, 266], middle: 0.06 }],
    signed: [
      { low: [0.975, 0, 55], high: [0.5, 0.13, 48], middle: 0.03 },
      { low: [0.975, 0, 250], high: [0.42, 0.14, 258], middle: 0.03 },
    ],
  },
  dark: {
    open: [{ low: [0.27, 0.02, 262], high: [0.93, 0.07, 205], middle: 0.06 }],
    signed: [
      { low: [0.27, 0, 60], high: [0.84, 0.13, 65], middle: 0.03 },
      { low: [0.27, 0, 250], high: [0.84, 0.1, 235], middle: 0.03 },
    ],
  },
};

export const isDark = () => getComputedStyle(document.documentElement).colorScheme === "dark";

/** A colour of the OKLCH space as red, green and blue between 0 and 255. */
export function fromOklch(lightness, chroma, hue) {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((part) => {
    const seen = part <= 0.0031308 ? 12.92 * part : 1.055 * part ** (1 / 2.4) - 0.055;
    return Math.round(255 * Math.min(1, Math.max(0, seen)));
  });
}

function ramp({ low, high, middle }, share) {
  const [lightness, chroma, hue] = low.map((part, i) => part + share * (high[i] - part));
  const rgb = fromOklch(lightness, chroma + middle * 4 * share * (1 - share), hue);
  const seen = rgb.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  const luminance = 0.2126 * seen[0] + 0.7152 * seen[1] + 0.0722 * seen[2];
  return { fill: `rgb(${rgb.join(" ")})`, ink: luminance < 0.179 ? "#fff" : "#000" };
}

const tables = new Map();

/**
 * The colours of the present theme for values of a kind: "open" from 0 to 1, or "signed" from -1 to 1.
 * Returns a function from a value to {fill, ink}: the colour, and black or white to write on it.
 */
export function scale(kind, dark = isDark()) {
  const key = `${kind} ${dark}`;
  if (!tables.has(key)) {
    const arms = SCALES[dark ? "dark" : "light"][kind];
    tables.set(
      key,
      arms.map((arm) => Array.from({ length: STEPS + 1 }, (_, i) => ramp(arm, i / STEPS))),
    );
  }
  const arms = tables.get(key);
  return (value) => arms[value >= 0 ? 0 : arms.length - 1][Math.round(STEPS * Math.min(1, Math.abs(value) || 0))];
}

/** A strip of the colours of a scale, for a legend. */
export function strip(kind) {
  const element = document.createElement("span");
  element.className = "ramp painted";
  const low = kind === "signed" ? -1 : 0;
  element.paint = () => {
    const at = scale(kind);
    const stops = Array.from({ length: 17 }, (_, i) => at(low + (i / 16) * (1 - low)).fill);
    element.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  };
  element.paint();
  return element;
}
