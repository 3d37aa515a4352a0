// The tasks that this page can run: for each a function that takes a model and returns what it answers, by path.

import { openClassify } from "./tasks/classify.js";
import { openCompose } from "./tasks/compose.js";
import { openFill } from "./tasks/fill.js";
import { openForecast } from "./tasks/forecast.js";
import { openLanguage } from "./tasks/language.js";
import { openNgram } from "./tasks/ngram.js";
import { openTag } from "./tasks/tag.js";
import { openTranslate } from "./tasks/translate.js";

/** By the name of the task. */
export const OPENERS = {
  classify: openClassify,
  compose: openCompose,
  fill: openFill,
  forecast: openForecast,
  language: openLanguage,
  ngram: openNgram,
  tag: openTag,
  translate: openTranslate,
};
