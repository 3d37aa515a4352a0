// Texts to begin with: those that came with the model, or else some by task and language.

const SOURCES = {
  en: ["My mother is reading a letter in the garden.", "Where is the station?", "She likes tea."],
  de: ["Ein Mann liest einen Brief im Garten.", "Wo ist der Bahnhof?", "Sie trinkt gern Tee."],
  fr: ["Ma mère lit une lettre dans le jardin.", "Où est la gare ?", "Elle aime le thé."],
  es: ["Mi madre lee una carta en el jardín.", "¿Dónde está la estación?"],
  it: ["Mia madre legge una lettera in giardino.", "Dov'è la stazione?"],
  zh: ["我的母亲在花园里读信。", "车站在哪里？", "她喜欢喝茶。"],
  ja: ["母は庭で手紙を読んでいます。", "駅はどこですか。"],
};
const TASKS = {
  tag: ["show me flights from Boston to Paris", "play some jazz by Miles Davis", "book a table for two"],
  classify: ["play some jazz", "will it rain in Paris tomorrow", "what a wonderful film"],
  fill: ["My ___ is reading a ___.", "The old ___ went home.", "She ___ tea."],
};
const WRITTEN = ["My mother is", "The old man went home to", "Once upon a time"];

/** Texts for a model, the best one first. */
export function examplesOf(model) {
  const own = (model.examples ?? []).filter((one) => typeof one === "string" && one);
  if (own.length) return own;
  if (model.task === "translate") return SOURCES[model.source] ?? [];
  return TASKS[model.task] ?? WRITTEN;
}
