// The tree of a beam search, as throughtime/inspection/translation.py describes it: every token that was kept, cut or
// ended a translation, with the reason.

import { highest, pathOf } from "./beam.js";

// Follows a search through `watch`; `nodes` are its tokens, which refer to their parents by number.
export class Tree {
  constructor({ end, alpha, width, count = 1, most, cut = 3 }) {
    Object.assign(this, { end, alpha, width, count, most, cut });
    this.nodes = [];
  }

  watch({ length, before, seen, ended, going, found }) {
    const { logProbs, size, ids } = seen;
    const columns = ids && new Map(Array.from(ids, (id, column) => [id, column]));
    const left = Float64Array.from(logProbs, (value, place) => before[Math.floor(place / size)].logProb + value);
    const likeliest = highest(left, this.width);
    const bar = likeliest.length < this.width ? -Infinity : left[likeliest.at(-1)];
    const scores = found.filter((one) => one.ended).map((one) => one.score);
    const last = scores.sort((a, b) => b - a)[this.count - 1] ?? -Infinity;
    const add = (from, token, logProb, status) => {
      const [parent, score] = [before[from].node ?? null, logProb / length ** this.alpha];
      const node = { step: length, parent, token, logProb, score, status };
      node.reason = this.reason(node, bar, last);
      left[from * size + (columns ? columns.get(token) : token)] = -Infinity;
      return this.nodes.push(node) - 1;
    };
    for (const [status, rows] of [["ended", ended], ["kept", going]]) {
      rows.forEach((row) => (row.node = add(row.from, row.token, row.logProb, status)));
    }
    for (const place of highest(left, this.cut)) {
      const column = place % size;
      add(Math.floor(place / size), ids ? ids[column] : column, left[place], "cut");
    }
  }

  // Why a node was kept, cut or ended, in one sentence.
  reason({ step, token, logProb, score, status }, bar, last) {
    if (status === "ended") {
      return `a complete translation, with the score ${signed(score)}`;
    }
    if (status === "kept") {
      return this.width > 1 ? `one of the ${this.width} best of this step` : "the best of this step";
    }
    if (logProb < bar) {
      const beaten = `ln P ${signed(logProb)}, the last has ${signed(bar)}`;
      return `not among the ${this.width} best of this step: ${beaten}`;
    }
    if (token === this.end) {
      const beaten = `its score ${signed(score)} is below the best found, ${signed(last)}`;
      return `a complete translation, but ${beaten}`;
    }
    const reach = signed(logProb / Math.max(1, this.most) ** this.alpha);
    return `cannot win: it can reach at most ${reach}, and ${signed(last)} was found already`;
  }

  // The nodes as the server answers them; `codec` spells their tokens, and those of `best`, a row, are marked.
  describe(codec, best) {
    const marked = new Set(pathOf(best).map((row) => row.node));
    const spelled = [];
    return this.nodes.map(({ step, parent, token, logProb, score, status, reason }, place) => {
      const before = parent === null ? [] : spelled[parent].tokens;
      const piece = codec.piece(before, token);
      spelled.push({ tokens: [...before, token], piece });
      const gained = logProb - (parent === null ? 0 : this.nodes[parent].logProb);
      return {
        step,
        parent,
        piece,
        label: codec.label(piece, parent === null ? "" : spelled[parent].piece),
        probability: Math.min(1, Math.exp(gained)),
        log_prob: logProb,
        score,
        status,
        reason,
        best: marked.has(place),
      };
    });
  }
}

// A number with two decimals and a real minus sign, at which no line breaks.
function signed(value) {
  return value.toFixed(2).replace("-", "−");
}
