// The tasks that this page can run: for each a function that takes a model and returns what it answers, by path.

import { openClassify } from "./tasks/classify.js";
import { openFill } from "./tasks/fill.js";
import { openForecast } from "./tasks/forecast.js";
import { openTag } from "./tasks/tag.js";

/** By the name of the task; each function is openNAME of tasks/NAME.js. */
export const OPENERS = {
  classify: openClassify,
  fill: openFill,
  forecast: openForecast,
  tag: openTag,
};
