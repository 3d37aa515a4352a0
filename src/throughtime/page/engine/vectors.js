// Sequences of vectors as a model reads them: rows of numbers as text, scaled, without gaps.

import { Problem } from "./problem.js";
import { tensor } from "./tensor.js";

const MAX_FRAMES = 4096;
const LARGEST = 10;

/** How a model reads vectors; null if it reads texts. */
export function openVectors(files) {
  return files["vectors.json"] ? new Vectors(JSON.parse(files["vectors.json"])) : null;
}

class Vectors {
  constructor(settings) {
    Object.assign(this, settings, { width: settings.features.length });
    this.size = this.width * this.stride;
  }

  /** The frames of a sequence, each a list of numbers. */
  encode(text) {
    let steps = this.read(text);
    while (steps.length > MAX_FRAMES * this.stride) {
      if (steps.length % 2) steps.push(steps.at(-1));
      const means = [];
      for (let i = 0; i < steps.length; i += 2) means.push(steps[i].map((one, place) => (one + steps[i + 1][place]) / 2));
      steps = means;
    }
    const frames = [];
    for (let first = 0; first < steps.length; first += this.stride) {
      const frame = [];
      for (let step = first; step < first + this.stride; step += 1) frame.push(...(steps[step] ?? steps.at(-1)));
      frames.push(frame);
    }
    return frames;
  }

  /** The vectors of a sequence, scaled; a gap is filled from its neighbours. */
  read(text) {
    const rows = this.parse(text).map((row) =>
      row.map((value, place) => {
        const scaled = (value - this.mean[place]) / this.scale[place];
        return Number.isNaN(scaled) ? NaN : Math.max(-LARGEST, Math.min(LARGEST, scaled));
      }),
    );
    for (let place = 0; place < this.width; place += 1) fillGaps(rows, place);
    return rows;
  }

  parse(text) {
    const rows = [];
    for (const line of text.replace(/^[ \r\n;]+|[ \r\n;]+$/gu, "").split(/[\n;]/u)) {
      const cells = line.replace(/^[ \r]+|[ \r]+$/gu, "").split(/[,\t]|(?<=[^,\s]) +(?=[^,\s])/u).map((cell) => cell.trim());
      if (!rows.length && cells.join("\0") === this.features.join("\0")) continue;
      const row = cells.map((cell) => (cell === "" || /^[+-]?nan$/iu.test(cell) ? NaN : Number(cell)));
      if (row.length !== this.width || row.some((value, place) => !Number.isFinite(value) && !/^([+-]?nan)?$/iu.test(cells[place]))) {
        throw new Problem(`sequences: have the row '${line.trim().slice(0, 40)}', expected ${this.width} numbers separated by commas`);
      }
      rows.push(row);
    }
    if (!rows.length) throw new Problem("sequences: have no row of numbers");
    return rows;
  }

  /** Sequences of frames as one column each: {ids [T, B, size], lengths [B]}. */
  pad(sequences) {
    const longest = Math.max(1, ...sequences.map((one) => one.length));
    const size = sequences[0][0].length;
    const ids = tensor("float32", [longest, sequences.length, size]);
    sequences.forEach((frames, column) => {
      frames.forEach((frame, step) => ids.data.set(frame, (step * sequences.length + column) * size));
    });
    return { ids, lengths: tensor("int64", [sequences.length], sequences.map((one) => one.length)) };
  }
}

function fillGaps(rows, place) {
  const known = rows.flatMap((row, step) => (Number.isNaN(row[place]) ? [] : [step]));
  let next = 0;
  rows.forEach((row, step) => {
    while (next < known.length && known[next] < step) next += 1;
    if (!Number.isNaN(row[place])) return;
    const [before, after] = [known[next - 1] ?? known[next], known[next] ?? known[next - 1]];
    if (before === undefined) row[place] = 0;
    else if (before === after) row[place] = rows[before][place];
    else row[place] = rows[before][place] + ((step - before) / (after - before)) * (rows[after][place] - rows[before][place]);
  });
}
