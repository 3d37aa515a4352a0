// Tokenizers that split text by rule, without training.

import { PYTHON_SPACE, splitWords } from "./characters.js";
import { openUnicode } from "./unicode.js";

const SEPARATORS = new RegExp(`(?:[;:]|${PYTHON_SPACE})+`, "g");

const joinBySpaces = (tokens) => tokens.join(" ");
const keepLetters = (text) => text.replace(/[^A-Za-z]+/g, " ").toLowerCase();

function openChar({ normaliser = "none" }, characters) {
  const changes = {
    none: (text) => text,
    nfc: (text) => characters.normalize("NFC", text),
    lower: characters.lower,
    letters: keepLetters,
  };
  const normalise = changes[normaliser];
  return { normalise, tokenize: (text) => [...normalise(text)], detokenize: (tokens) => tokens.join("") };
}

function openBasicEnglish(options, characters) {
  const tokenize = (given) => {
    let text = characters.lower(given).replaceAll('"', "").replace(SEPARATORS, " ");
    while (text.includes("<br />")) text = text.replaceAll("<br />", " ").replace(SEPARATORS, " ");
    return splitWords(text.replace(/[.,()!?']/g, " $& "));
  };
  return { tokenize, detokenize: joinBySpaces };
}

function openTranslation(options, characters) {
  const tokenize = (text) => characters.lower(text.replace(/[\u202f\u00a0]/g, " "))
    .replace(/(?<=[^ ])(?=[,.!?])/g, " ").split(" ").filter(Boolean);
  return { tokenize, detokenize: joinBySpaces };
}

const RULES = {
  char: openChar,
  space: () => ({ tokenize: splitWords, detokenize: joinBySpaces }),
  word: () => ({ tokenize: (text) => splitWords(keepLetters(text)), detokenize: joinBySpaces }),
  "basic-english": openBasicEnglish,
  translation: openTranslation,
  unicode: openUnicode,
};

/** The tokenizers by rule, which need no training. */
export const RULE_NAMES = Object.keys(RULES);

/** The tokenizer of a name: {name, options, tokenize, detokenize, normalise}. */
export function openRule(name, options, characters) {
  const rule = RULES[name](options, characters);
  const normalise = (text) => rule.detokenize(rule.tokenize(text));
  return { name, options, subword: false, normalise, ...rule };
}
