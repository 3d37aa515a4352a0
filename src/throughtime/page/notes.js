// Warnings of an answer in the language of the page; answers have them in English.

import { endSentence } from "./dom.js";
import { say, word } from "./words.js";

const LITTLE = ", so the answer means little$";
const KNOWN = [
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

/** One warning as a sentence; one that is not known stays as it is. */
export function sayWarning(warning) {
  for (const [pattern, sentence] of KNOWN) {
    const found = pattern.exec(warning);
    if (found) return say(sentence, found.groups);
  }
  return endSentence(warning);
}
