// Translate while one types, with alternatives: a matrix of the attention for every sentence, and interventions.

import { scale, strip } from "./colours.js";
import { copyButton, make, percent, short, within } from "./dom.js";
import { Explanation, tellAttention } from "./explain.js";
import { choiceBar, Interventions } from "./intervene.js";
import { fromRight, isolate, matrix } from "./matrix.js";
import { Section, textForm } from "./section.js";
import { say } from "./words.js";

const END = "⟨end⟩";

export function translateSection(models) {
  const section = new Section(
    "translate",
    say("Translate, and see what each word looked at"),
    say(
      "Point at a word of the translation, or move to it with the keyboard: the source words that it attended to light up.",
    ),
    models,
  );
  const many = make(
    "select",
    {},
    [0, 2, 4].map((count) => make("option", { value: count, selected: count === 2 }, String(count))),
  );
  const interventions = new Interventions(() => form.requestSubmit());
  section.interventions = interventions;
  const picture = new Alignments(section, interventions);
  const { form, box } = textForm({
    section,
    label: say("Source"),
    button: say("Translate"),
    live: true,
    extra: [make("label", {}, say("alternatives"), many)],
    send: (q) => {
      interventions.begin(`${section.model.name}\n${q}`);
      const body = { q, alternatives: Number(many.value), ...interventions.fields() };
      section.ask("inspect/attention", body, (answer) => picture.show(answer));
    },
  });
  many.addEventListener("change", () => form.requestSubmit());
  section.controls.append(form);
  section.onModel(() => form.requestSubmit());
  section.begin = () => box.value && form.requestSubmit();
  return section;
}

class Alignments {
  constructor(section, interventions) {
    this.interventions = interventions;
    this.explanation = new Explanation();
    this.bar = choiceBar(interventions);
    this.choices = make("div", { class: "choices", role: "group", "aria-label": say("Translations") });
    this.place = make("div", { class: "parts" });
    this.legend = make(
      "p",
      { class: "legend" },
      "0 ",
      strip("open"),
      ` ${percent(1)}`,
      make("span", {}, say("of the attention of a word")),
    );
    section.view.append(
      make(
        "div",
        { class: "result" },
        this.choices,
        copyButton(() => this.best ?? ""),
      ),
      make("p", { class: "legend" }, say("score: nearer to 0 is better")),
      interventions.element,
      make(
        "div",
        { class: "duo" },
        make("div", { class: "picture" }, this.bar.element, this.place, this.legend),
        this.explanation.element,
      ),
    );
  }

  show(answer) {
    if (this.answer === answer) return; // matrices follow the width and the theme themselves
    this.answer = answer;
    const { source, translations, parts } = answer;
    this.parts = parts?.length ? parts : [{ source, translations }];
    const buttons = translations.map((one, number) =>
      make(
        "button",
        {
          type: "button",
          class: "choice",
          "aria-pressed": String(number === 0),
          onclick: () => {
            buttons.forEach((other, at) => other.setAttribute("aria-pressed", String(at === number)));
            this.draw(number, one);
          },
        },
        make("bdi", { class: "said" }, one.text || say("(nothing)")),
        make("span", { class: "score", title: say("ln P / length^alpha; nearer to 0 is better") }, short(one.score)),
      ),
    );
    this.choices.replaceChildren(...buttons);
    this.interventions.compare(translations[0]);
    this.draw(0, translations[0]);
  }

  /** Draw the matrices of one of the translations. */
  draw(number, { text }) {
    this.best = text;
    const own = this.parts.map((part) => part.translations[Math.min(number, part.translations.length - 1)]);
    const views = own.map((one, at) => one?.alignment && this.drawPart(one, at, own.length));
    this.place.classList.toggle("several", views.length > 1);
    const drawn = views.filter(Boolean);
    this.legend.hidden = !drawn.length;
    this.bar.element.hidden = !drawn.length;
    if (!drawn.length) {
      this.place.replaceChildren(
        make("p", { class: "hint" }, say("There are no words to align, or this model has no attention.")),
      );
      this.explanation.tell(
        make(
          "p",
          {},
          say(
            "A model with attention looks back at all source words before it writes a word; a model without it reads the source into one vector.",
          ),
        ),
      );
      return;
    }
    this.place.replaceChildren(...drawn.map((view) => view.element));
    for (const view of drawn) view.paint();
    drawn[0].choose(0);
  }

  /** One sentence: its words, the words of its translation, and the matrix between them. */
  drawPart(one, at, count) {
    const { source, target, weights } = one.alignment;
    const sources = make(
      "div",
      {
        class: "words painted",
        role: "group",
        "aria-label": say("Source words"),
        dir: fromRight(source) ? "rtl" : "ltr",
      },
      source.map((word) => make("span", { class: "word" }, word)),
    );
    let lit = null;
    sources.paint = () => {
      const colour = scale("open");
      [...sources.children].forEach((word, column) => {
        const weight = lit === null ? 0 : weights[lit][column];
        const { fill, ink } = colour(weight);
        word.style.setProperty("--weight", String(weight));
        word.style.background = lit === null ? "" : fill;
        word.style.color = lit === null ? "" : ink;
      });
    };
    const readout = make("p", { class: "readout", "aria-live": "polite" });
    const light = (row) => {
      if (lit === row) return;
      lit = row;
      targets.forEach((button, number) => button.classList.toggle("lit", number === row));
      sources.paint();
      map.show(null, row);
      readout.textContent = describeAttention(target[row], source, weights[row]);
    };
    const choose = (row) => {
      light(row);
      targets.forEach((button, number) => button.setAttribute("tabindex", number === row ? "0" : "-1"));
      map.from(row, 0);
      const ends = target[row] === END;
      this.bar.choose({
        label: target[row],
        prefix: ends || count > 1 ? null : textUpTo(one.text, target, row),
        forbid: ends ? null : target[row],
      });
      this.explain(one, row);
    };
    const targets = target.map((word, row) =>
      make(
        "button",
        {
          type: "button",
          class: "word",
          tabindex: row ? -1 : 0,
          "aria-label": describeAttention(word, source, weights[row]),
          onpointerenter: () => light(row),
          onfocus: () => choose(row),
          onclick: () => choose(row),
        },
        word,
      ),
    );
    const direction = fromRight(target) ? "rtl" : "ltr";
    const group = {
      class: "words target",
      role: "group",
      "aria-label": say("Words of the translation"),
      dir: direction,
    };
    const written = make("div", group, targets);
    written.addEventListener("keydown", (event) => {
      const ahead = direction === "rtl" ? "ArrowLeft" : "ArrowRight";
      const back = direction === "rtl" ? "ArrowRight" : "ArrowLeft";
      const now = targets.indexOf(document.activeElement);
      const next = { [ahead]: now + 1, [back]: now - 1, Home: 0, End: targets.length - 1 }[event.key];
      if (next === undefined || now < 0) return;
      event.preventDefault();
      targets[next]?.focus();
    });
    const map = matrix({
      name: say(
        "Alignment: a row for each word of the translation, a column for each source word. Choose a row with the arrow keys.",
      ),
      rows: target,
      columns: source,
      values: weights,
      high: count > 1 ? 24 : within(360 / target.length, 28, 40),
      write: (weight) => (weight >= 0.1 ? String(Math.round(100 * weight)) : null),
      onPoint: (row, column, chosen) => {
        if (chosen) choose(row);
        else light(row);
        map.show([row, column], row);
        readout.textContent = chosen
          ? `${describeAttention(target[row], source, weights[row])}; ${source[column]}: ${percent(weights[row][column])}`
          : describeAttention(target[row], source, weights[row]);
      },
    });
    const title = count > 1 ? make("h3", {}, say("Sentence {number}", { number: at + 1 })) : null;
    const element = make("div", { class: "part" }, title, sources, written, readout, map.element);
    return { element, choose, paint: map.paint };
  }

  /** The row of a word, from scores to weights; a word of several tokens has several rows. */
  explain(one, row) {
    const { target } = one.alignment;
    if (!one.steps?.scores) {
      this.explanation.tell(
        make("h3", {}, say("What “{word}” looked at", { word: target[row] })),
        make(
          "p",
          {},
          say(
            "Before it writes a word, the model gives each source word a weight. The weights of a row add up to 1: they say how much each source word counts for this word of the translation.",
          ),
        ),
      );
      return;
    }
    const tokens = tokensOf(one.steps.target, target, row);
    const tell = (token) => {
      const others =
        tokens.length > 1 &&
        make(
          "div",
          { class: "row tokens", role: "group", "aria-label": say("Tokens of this word") },
          tokens.map((each) =>
            make(
              "button",
              { type: "button", "aria-pressed": String(each === token), onclick: () => tell(each) },
              one.steps.target[each].trim() || "␣",
            ),
          ),
        );
      const merged = say(
        "In the matrix, weights are added up over the tokens of a source word, and averaged over those of a word of the translation.",
      );
      const same = one.steps.target.length === target.length && one.steps.source.length === one.alignment.source.length;
      this.explanation.tell(others, ...tellAttention(one.steps, token), !same && make("p", { class: "hint" }, merged));
    };
    tell(tokens[0]);
  }
}

/** The text of a translation up to the end of one of its words. */
export function textUpTo(text, words, row) {
  let end = 0;
  for (const word of words.slice(0, row + 1)) {
    const found = text.indexOf(word, end);
    if (found < 0) return words.slice(0, row + 1).join(" ");
    end = found + word.length;
  }
  return text.slice(0, end).trim();
}

/** The numbers of the tokens that spell a word: both are the same text, so their letters are counted. */
export function tokensOf(tokens, words, row) {
  const letters = (one) => one.replace(/[\s·␣]/gu, "").length;
  const ends = [];
  words.forEach((word, at) => ends.push((ends[at - 1] ?? 0) + letters(word)));
  let reached = 0;
  const owners = tokens.map((token, at) => {
    reached += letters(token);
    const owner = ends.findIndex((end) => reached <= end);
    return at === tokens.length - 1 && words.at(-1) === END ? words.length - 1 : owner < 0 ? words.length - 1 : owner;
  });
  const own = tokens.map((_, at) => at).filter((at) => owners[at] === row);
  return own.length ? own : [Math.min(row, tokens.length - 1)];
}

function describeAttention(said, source, row) {
  const word = isolate(said);
  const looks = row
    .map((weight, column) => [weight, source[column]])
    .filter(([weight]) => weight >= 0.1)
    .sort(([one], [other]) => other - one)
    .map(([weight, from]) => `${isolate(from)} ${percent(weight)}`)
    .join(say(", "));
  return looks
    ? say("{word} looked at {looks}", { word, looks })
    : say("{word} looked at no word in particular", { word });
}
