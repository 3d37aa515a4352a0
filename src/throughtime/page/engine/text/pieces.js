// The models of subword tokenizers: how a word becomes pieces.

const KEPT = 20000;
const utf8 = new TextEncoder();

/** The pieces of the bytes of a text, such as <0xE4>; null if the vocabulary lacks one. */
function bytePieces(text, ids) {
  const pieces = Array.from(utf8.encode(text), (byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
  return pieces.every((piece) => ids.has(piece)) ? pieces : null;
}

/** Byte pair encoding: the pair that was learnt first is joined first. */
function openPairs({ tokens, model }, ids) {
  const { merges, unk, prefix, suffix, fuse, bytes, whole } = model;
  const ranks = new Map();
  for (let at = 0; at < merges.length; at += 2) {
    const [left, right] = [merges[at], merges[at + 1]];
    const joined = ids.get(tokens[left] + tokens[right].slice(prefix.length));
    ranks.set(left * tokens.length + right, { rank: at, joined });
  }

  function firstIds(word) {
    const found = [], all = [...word];
    // Whether an unknown piece is not written yet.
    let unknown = false;
    all.forEach((one, place) => {
      const piece = (place ? prefix : "") + one + (place === all.length - 1 ? suffix : "");
      if (ids.has(piece)) {
        if (unknown) found.push(ids.get(unk));
        unknown = false;
        found.push(ids.get(piece));
        return;
      }
      const own = bytes ? bytePieces(piece, ids) : null;
      if (own) found.push(...own.map((byte) => ids.get(byte)));
      else if (unk) {
        if (unknown && !fuse) found.push(ids.get(unk));
        unknown = true;
      }
    });
    if (unknown) found.push(ids.get(unk));
    return found;
  }

  return (word) => {
    if (whole && ids.has(word)) return [word];
    const found = firstIds(word);
    const pair = (at) => (at + 1 < found.length ? ranks.get(found[at] * tokens.length + found[at + 1]) : undefined);
    const pairs = found.map((_, at) => pair(at));
    for (;;) {
      let best = -1;
      for (let at = 0; at < pairs.length; at++) {
        if (pairs[at] && (best < 0 || pairs[at].rank < pairs[best].rank)) best = at;
      }
      if (best < 0) return found.map((id) => tokens[id]);
      found.splice(best, 2, pairs[best].joined);
      pairs.splice(best, 1);
      pairs[best] = pair(best);
      if (best) pairs[best - 1] = pair(best - 1);
    }
  };
}

/** WordPiece: the longest known piece first. */
function openLongest({ model }, ids) {
  const { unk, prefix, longest } = model;
  return (word) => {
    const all = [...word], found = [];
    if (all.length > longest) return [unk];
    for (let start = 0; start < all.length;) {
      let end = all.length, piece = "";
      for (; end > start; end--) {
        piece = (start ? prefix : "") + all.slice(start, end).join("");
        if (ids.has(piece)) break;
      }
      if (end === start) return [unk];
      found.push(piece);
      start = end;
    }
    return found;
  };
}

/** Unigram: the most probable sequence of pieces. */
function openLikeliest({ tokens, model }, ids) {
  const { scores, unk, bytes } = model;
  const longest = tokens.reduce((most, token) => Math.max(most, token.length), 0);
  const unknownScore = scores.reduce((least, score) => Math.min(least, score), Infinity) - 10;

  function bestPath(word) {
    const best = Array.from({ length: word.length + 1 }, () => null);
    const offer = (start, end, score, id) => {
      if (!best[end] || score > best[end].score) best[end] = { start, score, id };
    };
    for (let start = 0; start < word.length;) {
      const single = String.fromCodePoint(word.codePointAt(start)).length, score = best[start]?.score ?? 0;
      for (let end = start + 1; end <= Math.min(word.length, start + longest); end++) {
        const id = ids.get(word.slice(start, end));
        if (id !== undefined) offer(start, end, score + scores[id], id);
      }
      if (!ids.has(word.slice(start, start + single))) offer(start, start + single, score + unknownScore, unk);
      start += single;
    }
    return best;
  }

  return (word) => {
    const best = bestPath(word), found = [];
    let unknown = false;
    for (let end = word.length; end > 0; end = best[end].start) {
      const piece = word.slice(best[end].start, end), isUnknown = best[end].id === unk;
      if (isUnknown && unknown) found.push(piece + found.pop());
      else found.push(piece);
      unknown = isUnknown;
    }
    found.reverse();
    return bytes ? found.flatMap((piece) => (ids.has(piece) ? [piece] : bytePieces(piece, ids) ?? [piece])) : found;
  };
}

const MODELS = {
  BPE: openPairs,
  WordPiece: openLongest,
  Unigram: openLikeliest,
  WordLevel: ({ model }, ids) => (word) => [ids.has(word) ? word : model.unk],
};

/** The function from a word to its pieces; words are remembered, as texts repeat them. */
export function openPieces(definition) {
  const ids = new Map(definition.tokens.map((token, number) => [token, number]));
  for (const number of definition.model.outside) ids.delete(definition.tokens[number]);
  const split = MODELS[definition.model.type](definition, ids), known = new Map();
  return (word) => {
    if (!known.has(word)) {
      if (known.size >= KEPT) known.clear();
      known.set(word, split(word));
    }
    return known.get(word);
  };
}
