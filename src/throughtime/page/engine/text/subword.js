// Subword tokenizers: the steps that change and split a text, and those that join pieces.

import { range } from "./characters.js";
import { openPieces } from "./pieces.js";
import { openReplacements } from "./replacements.js";

const SIGNS = [], BYTES = new Map();
for (let byte = 0, others = 256; byte < 256; byte++) {
  const visible = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  SIGNS.push(String.fromCharCode(visible ? byte : others++));
  BYTES.set(SIGNS[byte], byte);
}
const utf8 = new TextEncoder(), lossy = new TextDecoder("utf-8", { ignoreBOM: true });
const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });

/** The byte of each sign in the tokens of byte-level tokenizers. */
export const BYTE_OF_SIGN = BYTES;

const toSigns = (text) => Array.from(utf8.encode(text), (byte) => SIGNS[byte]).join("");

/** The class of characters, as part of a regular expression, for runs outside and inside of it by turns. */
function readSet(written) {
  let place = 0, found = "";
  (written ? written.split(" ") : []).forEach((value, number) => {
    const end = place + parseInt(value, 36);
    if (number % 2) found += range(place, end - 1);
    place = end;
  });
  return `[${found}]`;
}

/** The parts of a text: [part, whether the pattern found it]. */
function findParts(text, pattern) {
  const parts = [];
  let place = 0;
  for (const match of text.matchAll(pattern)) {
    const end = match.index + match[0].length;
    if (match.index > place) parts.push([text.slice(place, match.index), false]);
    parts.push([match[0], true]);
    place = end;
  }
  if (place < text.length) parts.push([text.slice(place), false]);
  return parts;
}

const BEHAVIORS = {
  Isolated: (parts) => parts.map(([part]) => part),
  Removed: (parts) => parts.filter(([, found]) => !found).map(([part]) => part),
  Contiguous: (parts) => merge(parts, (found, before) => found === before),
  MergedWithPrevious: (parts) => merge(parts, (found, before) => found && !before),
  MergedWithNext: (parts) => merge(parts, (found, before) => before && !found),
};

/** Join parts to the part before them where a rule says so. */
function merge(parts, joins) {
  const merged = [];
  parts.forEach(([part, found], place) => {
    if (place && joins(found, parts[place - 1][1])) merged.push(merged.pop() + part);
    else merged.push(part);
  });
  return merged;
}

/** A function for each step that changes a text. */
function openNormalizer(step, { characters, definition, pattern, sets }) {
  if (step.type === "Precompiled") return openReplacements(step.table, sets[step.joining], sets[step.alone]);
  if (step.type === "Prepend") return (text) => (text ? step.text + text : text);
  if (step.type === "Replace") {
    const found = pattern(step);
    return (text) => text.replace(found, step.content);
  }
  if (step.type === "Bytes") return toSigns;
  if (step.type === "Lowercase") {
    const lower = (one) => (characters.isAssigned(one) ? one.toLowerCase() : definition.lower[one] ?? one);
    return (text) => Array.from(text, lower).join("");
  }
  const inert = new RegExp(`(${readSet(definition.inert)}+)`, "u");
  return (text) => text.split(inert).map((part, place) => (place % 2 ? part : part.normalize(step.type))).join("");
}

/** A function for each step that splits a list of parts further. */
function openSplitter(step, tools) {
  if (step.type === "Prefix") {
    return (parts) => parts.map((part, place) =>
      (part.startsWith(step.text) || (step.first && place) ? part : step.text + part));
  }
  if (step.type !== "Split") return (parts) => parts.map(openNormalizer(step, tools));
  const found = tools.pattern(step), split = BEHAVIORS[step.behavior];
  const invert = (parts) => (step.invert ? parts.map(([part, hit]) => [part, !hit]) : parts);
  return (parts) => parts.flatMap((part) => split(invert(findParts(part, found)))).filter(Boolean);
}

/** Turn pieces such as <0xE4> into the characters of these bytes. */
function joinBytes(pieces) {
  const joined = [];
  let held = [];
  const release = () => {
    if (!held.length) return;
    try {
      joined.push(strict.decode(Uint8Array.from(held)));
    } catch {
      joined.push(...held.map(() => "\ufffd"));
    }
    held = [];
  };
  for (const piece of pieces) {
    if (/^<0x[0-9a-fA-F]{2}>$/.test(piece)) held.push(parseInt(piece.slice(3, 5), 16));
    else {
      release();
      joined.push(piece);
    }
  }
  release();
  return joined;
}

function joinSigns(pieces) {
  const bytes = [];
  for (const piece of pieces) {
    const own = Array.from(piece, (sign) => BYTES.get(sign));
    for (const byte of own.includes(undefined) ? utf8.encode(piece) : own) bytes.push(byte);
  }
  return [lossy.decode(Uint8Array.from(bytes))];
}

const CLEANED = [[" .", "."], [" ?", "?"], [" !", "!"], [" ,", ","], [" ' ", "'"], [" n't", "n't"], [" 'm", "'m"],
  [" do not", " don't"], [" 's", "'s"], [" 've", "'ve"], [" 're", "'re"]];

function stripPiece(piece, { content, start, stop }) {
  const all = [...piece];
  for (let count = 0; count < start && all[0] === content; count++) all.shift();
  for (let count = 0; count < stop && all.at(-1) === content; count++) all.pop();
  return all.join("");
}

/** A function for each step that joins pieces: from a list of pieces to another. */
function openDecoder(step, { pattern }) {
  const { prefix, suffix, cleanup, sign, keepsFirst } = step;
  const openers = {
    Fuse: () => (pieces) => [pieces.join("")],
    ByteFallback: () => joinBytes,
    ByteLevel: () => joinSigns,
    Strip: () => (pieces) => pieces.map((piece) => stripPiece(piece, step)),
    Replace: () => {
      const found = pattern(step);
      return (pieces) => pieces.map((piece) => piece.replace(found, step.content));
    },
    WordPiece: () => (pieces) => pieces.map((piece, place) => {
      const inside = piece.startsWith(prefix);
      const own = !place ? piece : inside ? piece.slice(prefix.length) : ` ${piece}`;
      return cleanup ? CLEANED.reduce((text, [before, after]) => text.replaceAll(before, after), own) : own;
    }),
    BPEDecoder: () => (pieces) => pieces.map((piece, place) =>
      piece.replaceAll(suffix, place === pieces.length - 1 ? "" : " ")),
    Metaspace: () => (pieces) => pieces.map((piece, place) =>
      piece.replaceAll(sign, place || keepsFirst ? " " : "")),
  };
  return openers[step.type]();
}

/** Split a text at tokens that are found as they are, the longest first: [part, whether it is a token]. */
function openAdded(added) {
  if (!added.length) return (text) => (text ? [[text, false]] : []);
  const special = new Map(added);
  const ordered = [...special.keys()].sort((one, other) => other.length - one.length);
  const found = new RegExp(ordered.map((one) => one.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|"), "gu");
  // A special token in a text is text.
  return (text) => joinText(findParts(text, found).map(([part, hit]) => [part, hit && !special.get(part)]));
}

/** Join neighbouring parts that are no tokens. */
function joinText(parts) {
  const merged = [];
  for (const [part, hit] of parts) {
    if (!hit && merged.length && !merged.at(-1)[1]) merged.at(-1)[0] += part;
    else merged.push([part, hit]);
  }
  return merged;
}

/** The tokenizer of a description, which the exporter has made of a tokenizer.json. */
export function openSubword(name, definition, characters) {
  const sets = definition.sets.map(readSet);
  const pattern = (step) =>
    new RegExp(step.pattern.map((part) => (typeof part === "number" ? sets[part] : part)).join(""), "gu");
  const tools = { characters, definition, pattern, sets };
  const normalizers = definition.normalizers.map((step) => openNormalizer(step, tools));
  const splitters = definition.splitters.map((step) => openSplitter(step, tools));
  const decoders = definition.decoders.map((step) => openDecoder(step, tools));
  const findAdded = openAdded(definition.added), toPieces = openPieces(definition);
  const change = (text) => normalizers.reduce((changed, step) => step(changed), text);

  function tokenize(text) {
    const tokens = [];
    for (const [part, added] of findAdded(text)) {
      if (added) tokens.push(part);
      else {
        const words = splitters.reduce((parts, step) => step(parts), [change(part)].filter(Boolean));
        for (const word of words) for (const piece of toPieces(word)) tokens.push(piece);
      }
    }
    return tokens;
  }

  const detokenize = (tokens) => decoders.reduce((pieces, step) => step(pieces), tokens).join("");
  const marked = (text) => change(text).slice(1).replaceAll("▁", " ");
  const normalise = { bpe: change, wordpiece: marked, unigram: marked }[name] ??
    ((text) => detokenize(tokenize(text)));
  return { name, options: {}, subword: true, inBytes: definition.inBytes, tokenize, detokenize, normalise };
}
