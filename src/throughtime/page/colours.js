// Scales of colour that keep their order for the colour-blind and in grey.

const OPEN = [
  [0, 32, 77],
  [52, 70, 107],
  [108, 110, 114],
  [171, 157, 114],
  [255, 234, 70],
]; // cividis
const SIGNED = [
  [84, 39, 136],
  [153, 142, 195],
  [247, 247, 247],
  [241, 163, 64],
  [179, 88, 6],
]; // PuOr

function between(stops, share) {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  const colour = stops[low].map((part, i) => Math.round(part + (place - low) * (stops[low + 1][i] - part)));
  return `rgb(${colour.join(" ")})`;
}

/** From 0 to 1, dark to light. */
export const open = (value) => between(OPEN, value);

/** From -1 through white to 1. */
export const signed = (value) => between(SIGNED, (value + 1) / 2);

/** A strip of colours for a legend. */
export const strip = (scale, low, high) =>
  `linear-gradient(to right, ${Array.from({ length: 9 }, (_, i) => scale(low + (i / 8) * (high - low))).join(", ")})`;
