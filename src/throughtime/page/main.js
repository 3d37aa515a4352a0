// The page: one section for each thing that the loaded models can show.

import { answerSection } from "./answering.js";
import { beamSection } from "./beam.js";
import { classifySection } from "./classifying.js";
import { addComparison, copyFields } from "./compare.js";
import { composeSection } from "./composing.js";
import { make } from "./dom.js";
import { engine, useEngine } from "./engine.js";
import { Problem } from "./engine/problem.js";
import { fillSection } from "./filling.js";
import { forecastSection } from "./forecast.js";
import { gatesSection } from "./gates.js";
import { openLocal } from "./local.js";
import { sayProblem } from "./notes.js";
import { server, useKey } from "./server.js";
import { tagSection } from "./tagging.js";
import { translateSection } from "./translate.js";
import { LANGUAGES, chooseLanguage, language, rememberLanguage, say, word } from "./words.js";
import { writingSection } from "./writing.js";

// Each section is for models with one ability, which the engine lists for every model.
const SECTIONS = [
  { name: word("Translate"), ability: "translate", id: "translate", build: translateSection },
  { name: word("Search"), ability: "translate", id: "search", build: beamSection },
  { name: word("Write"), ability: "generate", id: "write", build: writingSection },
  { name: word("Tag"), ability: "tag", id: "tag", build: tagSection },
  { name: word("Classify"), ability: "classify", id: "classify", build: classifySection },
  { name: word("Fill in"), ability: "fill", id: "fill", build: fillSection },
  { name: word("Compose"), ability: "compose", id: "compose", build: composeSection },
  { name: word("Forecast"), ability: "forecast", id: "forecast", build: forecastSection },
  { name: word("Gates"), ability: "gates", id: "gates", build: gatesSection },
];

/** Sections for the abilities of tasks that the page does not know, such as those of other packages. */
function otherSections() {
  const known = new Set(SECTIONS.map((one) => one.ability));
  const others = new Set(models.flatMap((one) => one.abilities).filter((ability) => !known.has(ability)));
  return [...others].map((ability) => ({
    name: ability,
    ability,
    id: ability,
    build: (own) => answerSection(own, ability),
  }));
}

const find = (id) => document.getElementById(id);
let models = null;
let shown = [];

async function begin() {
  translateFrame();
  try {
    models = await engine.get("models");
  } catch (error) {
    if (!(error instanceof Problem)) console.error(error);
    find("state").className = "problem";
    find("state").textContent =
      error instanceof Problem ? sayProblem(error.message) : say("The models could not be listed.");
    return;
  }
  translateFrame();
  build();
}

/** Build all sections, with the models, texts and settings that were in them before. */
function build() {
  const before = new Map(shown.map((section) => [section.element.id, section]));
  for (const section of shown) {
    section.close();
    section.element.remove();
  }
  shown = [];
  find("contents").replaceChildren();
  const old = (section) => before.get(section.element.id);
  for (const { name, ability, id, build: make_ } of [...SECTIONS, ...otherSections()]) {
    const own = models.filter((one) => one.abilities.includes(ability));
    if (!own.length) continue;
    const choose = (chosen) => make_(Object.assign([...own], { chosen }));
    const section = choose(before.get(id)?.model.name);
    addComparison(section, choose);
    if (old(section)) {
      copyFields(old(section), section, true);
      section.interventions?.restore(old(section).interventions);
    }
    shown.push(section);
    find("contents").append(make("a", { href: `#${section.element.id}` }, say(name)));
  }
  find("sections").append(...shown.map((section) => section.element));
  find("state").hidden = shown.length > 0;
  if (!shown.length) find("state").textContent = say("None of these models has anything to show on this page.");
  for (const section of shown) {
    watchPlace.observe(section.element);
    section.begin?.();
    if (old(section)?.second) section.compare(old(section).second);
  }
}

/** Put the words around the sections into the language of the page. */
function translateFrame() {
  document.documentElement.lang = language() === "zh" ? "zh-Hans" : "en";
  document.title = models?.length
    ? `${models.map((one) => one.name).join(", ")} – throughtime`
    : say("throughtime: see inside a model");
  for (const one of document.querySelectorAll("[data-say]")) one.textContent = say(one.dataset.say);
  for (const one of document.querySelectorAll("[data-label]"))
    one.setAttribute("aria-label", say(one.dataset.label));
  for (const one of document.querySelectorAll("[data-engine]")) one.hidden = one.dataset.engine !== engine.kind;
  const other = Object.keys(LANGUAGES).find((code) => code !== language());
  find("language").textContent = LANGUAGES[other];
  find("language").lang = other === "zh" ? "zh-Hans" : "en";
}

// The menu shows which section is being read.
const watchPlace = new IntersectionObserver(
  () => {
    const middle = innerHeight / 3;
    const now = shown.find((section) => section.element.getBoundingClientRect().bottom > middle);
    for (const link of find("contents").children)
      if (link.hash === `#${now?.element.id}`) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
  },
  { rootMargin: "-33% 0px -66% 0px" },
);

function openMenu(open) {
  find("menu").setAttribute("aria-expanded", String(open));
  find("contents").classList.toggle("open", open);
}
find("menu").addEventListener("click", () => openMenu(find("menu").getAttribute("aria-expanded") !== "true"));
find("contents").addEventListener("click", () => openMenu(false));
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || find("menu").getAttribute("aria-expanded") !== "true") return;
  openMenu(false);
  find("menu").focus();
});
find("language").addEventListener("click", () => {
  chooseLanguage(Object.keys(LANGUAGES).find((code) => code !== language()));
  translateFrame();
  if (models) build();
});
addEventListener("theme", () => {
  for (const section of shown) section.redraw();
});
find("key").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey(new FormData(find("key")).get("key"));
  for (const problem of document.querySelectorAll(".problem")) problem.textContent = "";
  for (const section of shown) section.begin?.();
});
useEngine(openLocal() ?? server);
rememberLanguage();
begin();
