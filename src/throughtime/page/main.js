// The page: one section for each thing that the loaded models can show.

import { beamSection } from "./beam.js";
import { composeSection } from "./composing.js";
import { make } from "./dom.js";
import { fillSection } from "./filling.js";
import { forecastSection } from "./forecast.js";
import { gatesSection } from "./gates.js";
import { Problem, get, useKey } from "./server.js";
import { translateSection } from "./translate.js";
import { writingSection } from "./writing.js";

// Each section is for models with one ability, which the server lists for every model.
const SECTIONS = [
  { name: "Translate", ability: "translate", build: translateSection },
  { name: "Search", ability: "translate", build: beamSection },
  { name: "Write", ability: "generate", build: writingSection },
  { name: "Gates", ability: "gates", build: gatesSection },
  { name: "Fill in", ability: "fill", build: fillSection },
  { name: "Compose", ability: "compose", build: composeSection },
  { name: "Forecast", ability: "forecast", build: forecastSection },
];

async function begin() {
  const state = document.getElementById("state");
  let models;
  try {
    models = await get("models");
  } catch (error) {
    state.className = "problem";
    state.textContent = error instanceof Problem ? error.message : "The models could not be listed.";
    return;
  }
  const place = document.getElementById("sections");
  const contents = document.getElementById("contents");
  const sections = [];
  for (const { name, ability, build } of SECTIONS) {
    const own = models.filter((one) => one.abilities.includes(ability));
    if (!own.length) continue;
    const section = build(own);
    sections.push(section);
    contents.append(make("a", { href: `#${section.element.id}` }, name));
  }
  place.append(...sections.map((section) => section.element));
  state.hidden = sections.length > 0;
  if (!sections.length) state.textContent = "None of these models has anything to show on this page.";
  for (const section of sections) section.begin?.();
}

const keyForm = document.getElementById("key");
keyForm.addEventListener("submit", (event) => {
  event.preventDefault();
  useKey(new FormData(keyForm).get("key"));
  for (const problem of document.querySelectorAll(".problem")) problem.textContent = "";
});
begin();
