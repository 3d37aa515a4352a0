// The language of the page. English sentences are the keys; another language has a table of them.

import { CHINESE } from "./chinese.js";

const TABLES = { en: {}, zh: CHINESE };
let current = "en";

/** The languages of the page, by their codes, in their own words. */
export const LANGUAGES = { en: "English", zh: "中文" };

/** The code of the language that the page is in. */
export const language = () => current;

/** Use the language that was chosen earlier, or else the first one of the browser's that the page has. */
export function rememberLanguage() {
  let chosen = null;
  try {
    chosen = localStorage.getItem("language");
  } catch {
    // Storage may be forbidden; then the choice lasts as long as the page.
  }
  const wanted = [chosen, ...navigator.languages].map((code) => String(code).slice(0, 2));
  current = wanted.find((code) => code in TABLES) ?? "en";
}

/** Use a language from now on, and remember it. */
export function chooseLanguage(code) {
  current = code;
  try {
    localStorage.setItem("language", code);
  } catch {
    // As above.
  }
}

/** A sentence in the language of the page, with values in the place of {names}. */
export function say(sentence, values = {}) {
  const said = TABLES[current][sentence] ?? sentence;
  return said.replace(/\{(\w+)\}/g, (gap, name) => (name in values ? String(values[name]) : gap));
}

/** Marks a sentence that `say` is given later, for example one in a table: a test looks for all of them. */
export const word = (sentence) => sentence;
