// Warnings and problems in the language of the page; the engine has them in English.

import { endSentence } from "./dom.js";
import { say, word } from "./words.js";

const LITTLE = ", so the answer means little$";
const WARNINGS = [
  ["^the text is empty", word("The text is empty, so the answer means little.")],
  [
    "^the text is in (?<script>.+), which the model never saw",
    word("The text is in {script}, which the model never saw, so the answer means little."),
  ],
  [
    "^the text has only tokens that are not in the vocabulary",
    word("The text has only tokens that are not in the vocabulary, so the answer means little."),
  ],
  [
    "^the text has (?<count>\\d+) of (?<all>\\d+) tokens that are not in the vocabulary",
    word("{count} of {all} tokens of the text are not in the vocabulary, so the answer means little."),
  ],
  [
    "^the text has only characters that are rare in training",
    word("The text has only characters that are rare in training, so the answer means little."),
  ],
].map(([pattern, sentence]) => [new RegExp(pattern + LITTLE), sentence]);

const PROBLEMS = [
  ["^text: has no blank", word("The text has no blank; write ___ where a word is missing.")],
  ["^sentence: is empty", word("The sentence is empty; write some words.")],
  [
    "^sentence: has (?<count>[\\d,]+) tokens.*?(?<most>[\\d,]+);",
    word("The sentence has {count} tokens, more than {most}; write a shorter one."),
  ],
  [
    "^series .*: has (?<rows>[\\d,]+) rows, but a forecast needs (?<needed>[\\d,]+)",
    word("The series has {rows} rows, but a forecast needs {needed}; give more rows."),
  ],
  [
    "^h: is (?<steps>\\d+), but the model was trained for the next (?<most>\\d+) rows",
    word("The model forecasts at most {most} steps ahead, not {steps}."),
  ],
  [
    "trained on (one position|numbered rows)",
    word("The model was trained on numbered rows, but these rows have dates; leave the dates out."),
  ],
  ["^calendar: needs dates|^data: has steps of one position", word("The model needs dates; give one for each row.")],
  [
    "^data: has steps of one (?<own>.+), the model was trained on one (?<wanted>.+?)\\.?$",
    word("These rows have steps of one {own}, but the model was trained on steps of one {wanted}."),
  ],
  ["^the training data of .* are not available", word("The training data are not available; paste some data.")],
  [
    "^(prefix|forbid): is (?<text>.+), which (has no token|is not) in the model's vocabulary",
    word("{text} is not in the model's vocabulary."),
  ],
  [
    "^prefix: is (?<text>.+), which forbid=(?<other>.+) rules out",
    word("A translation cannot begin with {text} and be without {other}; take back one of them."),
  ],
  [
    "^prefix: is for one sentence, but this text is translated in (?<count>\\d+) parts",
    word("Only a single sentence can begin with a given text; this text has {count} parts."),
  ],
  [
    "^vector: has (?<count>\\d+) numbers, .* (?<needed>\\d+)",
    word("The vector has {count} numbers, but needs {needed}."),
  ],
  ["^vector: ", word("The vector must be a list of numbers.")],
  ["^the models of this file could not be opened", word("The models of this file could not be opened.")],
].map(([pattern, sentence]) => [new RegExp(pattern, "i"), sentence]);

// Values that are words of the engine, not of the reader.
const NAMES = [
  word("Chinese characters"),
  word("Japanese kana"),
  word("Latin letters"),
  word("Cyrillic letters"),
  word("Greek letters"),
  word("Arabic letters"),
  word("Hebrew letters"),
  word("Hangul letters"),
  word("Thai letters"),
  word("Devanagari letters"),
  word("hour"),
  word("day"),
  word("week"),
  word("month"),
  word("quarter"),
  word("year"),
];

function sayKnown(known, message) {
  for (const [pattern, sentence] of known) {
    const found = pattern.exec(message);
    if (!found) continue;
    const values = Object.entries(found.groups ?? {});
    return say(sentence, Object.fromEntries(values.map(([gap, one]) => [gap, NAMES.includes(one) ? say(one) : one])));
  }
  return endSentence(message);
}

/** One warning as a sentence; one that is not known stays as it is. */
export const sayWarning = (warning) => sayKnown(WARNINGS, warning);

/** What went wrong as a sentence; one that is not known stays as it is. */
export const sayProblem = (problem) => sayKnown(PROBLEMS, problem);
