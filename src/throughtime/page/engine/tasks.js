// The tasks that this page can run: for each a function that takes a model and returns what it answers, by path.

/** By the name of the task; each function is openNAME of tasks/NAME.js. */
export const OPENERS = {};
