// Random numbers from a counter-based generator, Philox 4x32-10: a number is a function of the seed, the sentence,
// the choice and the step, so that this page draws the same text from a seed as Python does.

const TWO_32 = 2 ** 32;

// The product of two words of 32 bits: [high word, low word].
function product(a, b) {
  const [aHigh, aLow, bHigh, bLow] = [a >>> 16, a & 0xffff, b >>> 16, b & 0xffff];
  const low = aLow * bLow;
  const first = aHigh * bLow + (low >>> 16);
  const second = aLow * bHigh + (first & 0xffff);
  return [aHigh * bHigh + Math.floor(first / 65536) + Math.floor(second / 65536), Math.imul(a, b) >>> 0];
}

// Four words of 32 bits for a counter of four words and a key of two.
export function philox(counter, key) {
  let [a, b, c, d] = counter;
  let [left, right] = key;
  for (let round = 0; round < 10; round += 1) {
    const [firstHigh, firstLow] = product(a >>> 0, 0xd2511f53);
    const [secondHigh, secondLow] = product(c >>> 0, 0xcd9e8d57);
    [a, b, c, d] = [secondHigh ^ b ^ left, secondLow, firstHigh ^ d ^ right, firstLow];
    left = (left + 0x9e3779b9) | 0;
    right = (right + 0xbb67ae85) | 0;
  }
  return [a >>> 0, b >>> 0, c >>> 0, d >>> 0];
}

// A number in [0, 1) with 53 random bits.
function fraction(high, low) {
  return ((high >>> 5) * 2 ** 26 + (low >>> 6)) / 2 ** 53;
}

// A seed as two words of 32 bits, the low one first: of a whole number, of a string of digits (a seed has 64 bits,
// more than a JavaScript number holds exactly), or a new random one for null.
export function wholeSeed(seed) {
  if (Array.isArray(seed)) {
    return seed;
  }
  if (seed === null || seed === undefined) {
    return [...crypto.getRandomValues(new Uint32Array(2))];
  }
  if (typeof seed === "number") {
    return [seed >>> 0, Math.floor(seed / TWO_32) >>> 0];
  }
  let [low, high] = [0, 0];
  for (const digit of seed.replace(/^[+-]/, "")) {
    const next = low * 10 + Number(digit);
    [low, high] = [next % TWO_32, (high * 10 + Math.floor(next / TWO_32)) % TWO_32];
  }
  return seed.startsWith("-") ? [-low >>> 0, (low ? ~high : -high) >>> 0] : [low, high];
}

// A number in [0, 1) for a seed, a step, a sentence and a choice.
export function uniform(seed, step, sentence = 0, choice = 0) {
  const [high, low] = philox([step, choice, sentence, 0], wholeSeed(seed));
  return fraction(high, low);
}

// `count` numbers in [0, 1) for each row, a place in the beam of a sentence: one Float64Array per row.
export function uniformTable(seed, step, sentences, places, count) {
  const key = wholeSeed(seed);
  return sentences.map((sentence, row) => {
    const found = new Float64Array(count);
    for (let place = 0; place < count; place += 2) {
      const [a, b, c, d] = philox([step, place / 2, sentence, places[row] + 1], key);
      found[place] = fraction(a, b);
      if (place + 1 < count) {
        found[place + 1] = fraction(c, d);
      }
    }
    return found;
  });
}
