// What went wrong, as one sentence for the reader.

export class Problem extends Error {}

/** Refuses numbers of a model's answer among which some are none. */
export function checkNumbers(values) {
  if (!values.some(Number.isNaN)) return;
  const why = "its weights are damaged or far too large; train the model again";
  throw new Problem(`the model's answer is not a number (NaN): ${why}`);
}
