"""RESULTS.md: the measured figures beside the published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import stdev
from typing import Any, get_args

from recipes.commands import judging, training
from recipes.measure import Row
from recipes.recipe import Published, Recipe
from throughtime.tasks import TASKS

HEAD = """# Results

This page compares the figures of our models with published ones. You can measure each row again with
`python -m recipes NAME ...`, where NAME is its recipe, a file of the folder `recipes/`; `make results-check`
looks for stale rows. The page is written by `python -m recipes`. Below each table are the commands
that trained and evaluated its rows; they read the settings that this command writes:

```sh
python -m recipes NAME --config > NAME.yaml
```

Corpora are read from the folder `THROUGHTIME_DATA`, or downloaded; see `throughtime data list`.

- Choices are made on validation data unless a note says otherwise. Test data are read once per setting;
  earlier results, of other settings or of earlier code, are listed under the tables.
- Figures of language models are perplexities; other rows say what they are. A mean is shown with the standard
  deviation over its seeds, and a row of one seed says so.
- A published figure is called a tie if ours differs from it by less than the range over our seeds (the
  largest minus the smallest), or, with one seed or none, by less than MARGIN % of it. "Not traced" marks a
  figure whose source could not be checked.
- The column `on` names the machine as the code recorded it, unless it says that it was noted by hand. Times
  are those of the training, on a machine that may have been busy with other work.
- A row is stale if its settings have changed since it was measured, or if the losses of the first 50 updates
  of its training no longer come out on a CPU (of a counted model: its figure), but for rounding.
"""
ONE_SEED_MARGIN = 0.02
GROUPS: tuple[str, ...] = get_args(Recipe.model_fields["group"].annotation)
UNSEEDED = ("ngram", "windows", "searches", "retrieval", "together", "sine")
COLUMNS = ("what", "measured", "published", "seeds", "trained in", "on", "date", "stale", "recipe")


def page(recipes: Mapping[str, Recipe], measured: Mapping[str, Row]) -> str:
    """The whole page; recipes that were never measured are named at the end of their section."""
    sections = [HEAD.replace("MARGIN", f"{100 * ONE_SEED_MARGIN:g}")]
    for group in GROUPS:
        chosen = [name for name, recipe in recipes.items() if recipe.group == group]
        if chosen:
            sections.append(_section(group, chosen, recipes, measured))
    return "\n".join(sections)


def stale(recipe: Recipe, row: Row) -> str:
    """What has changed since the row was measured, code as far as the last check knows; "" if nothing has."""
    changed = {"settings": row["fingerprint"] != recipe.fingerprint, "code": row.get("stale", False)}
    return ", ".join(word for word, is_changed in changed.items() if is_changed)


def _section(
    group: str,
    names: Sequence[str],
    recipes: Mapping[str, Recipe],
    measured: Mapping[str, Row],
) -> str:
    known = [name for name in names if name in measured]
    parts = [f"## {group}\n"]
    if known:
        parts.append(table(COLUMNS, [_row(name, recipes[name], measured[name]) for name in known]))
    tables = [measured[name]["table"] for name in known if "table" in measured[name]]
    parts += [table(one["columns"], [tuple(map(_shown, line)) for line in one["rows"]]) for one in tables]
    parts += [_said(name, measured[name]) for name in known if "said" in measured[name]]
    parts += [f"`{name}`: {recipes[name].note}\n" for name in names if recipes[name].note is not None]
    parts += [_earlier(name, measured[name]["earlier"]) for name in known if "earlier" in measured[name]]
    parts.append(_judged(names, recipes))
    if waiting := [f"`{name}`" for name in names if name not in measured]:
        parts.append(f"Not measured yet: {', '.join(waiting)}.\n")
    return "\n".join(parts)


def _row(name: str, recipe: Recipe, row: Row) -> tuple[str, ...]:
    value = _figure(row["value"])
    if len(values := row.get("values", {}).values()) > 1:
        value += f" ± {stdev(values):.2f}"
    seeds = recipe.seeds or (() if recipe.task in UNSEEDED else (recipe.config.get("seed", 0),))
    return (
        recipe.title,
        value + _further(row),
        "; ".join(_compared(one, recipe, row) for one in recipe.published) or "-",
        (", ".join(map(str, seeds)) or "-") + (" (one seed)" if len(seeds) == 1 else ""),
        _duration(row["seconds"]),
        row["machine"],
        row["date"],
        stale(recipe, row) or "-",
        f"`{name}`",
    )


def _further(row: Row) -> str:
    return "".join(f"; {label} {_figure(one)}" for label, one in sorted(row.get("also", {}).items()))


def _compared(other: Published, recipe: Recipe, row: Row) -> str:
    """A published figure with its source, and whether ours is better."""
    shown = f"{other.of} " * (other.of is not None) + f"{other.figure} ({other.source})"
    ours = row["value"] if other.of is None else row.get("also", {}).get(other.of)
    if isinstance(other.figure, str):
        return shown
    if ours is None:
        return f"{shown}: ours is not measured"
    values = row.get("values", {}).values() if other.of is None else ()
    margin = max(values) - min(values) if len(values) > 1 else ONE_SEED_MARGIN * other.figure
    if abs(ours - other.figure) < margin:
        return f"{shown}: tie"
    return f"{shown}: {'better' if (ours > other.figure) == recipe.higher_is_better else 'worse'}"


def _earlier(name: str, readings: Sequence[Row]) -> str:
    told = [f"{_figure(one['value'])}{_further(one)} on {one['date']} ({one['setting']})" for one in readings]
    return f"`{name}`, earlier results: {'; '.join(told)}.\n"


def _judged(names: Sequence[str], recipes: Mapping[str, Recipe]) -> str:
    """The commands of a section; rows with the same commands share a line."""
    groups: dict[str, list[str]] = {}
    for name in names:
        told = [f"`{training('NAME', recipes[name])}`"] if recipes[name].task in TASKS else []
        for label, typed in judging(name, recipes).items():
            told.append(": ".join(word for word in (label, typed and f"`{typed}`") if word))
        if needed := recipes[name].needed:
            told.append(f"with the runs of {', '.join(f'`{one}`' for one in needed)}")
        groups.setdefault("; ".join(told), []).append(f"`{name}`")
    return "".join(f"- {', '.join(known)}: {told}\n" for told, known in groups.items())


def _said(name: str, row: Row) -> str:
    """Sentences and what became of them, run by run.

    >>> print(_said("toy", {"said": {"Go!": ["Va !", "Pars !"]}, "trained_on": ["Go!"]}), end="")
    `toy`: “Go!” (a sentence of the training part) becomes “Va !”, “Pars !”.
    """
    told = []
    for sentence, texts in row["said"].items():
        known = " (a sentence of the training part)" if sentence in row["trained_on"] else ""
        told.append(f"“{sentence}”{known} becomes {', '.join(f'“{text}”' for text in texts)}")
    return f"`{name}`: {'; '.join(told)}.\n"


def _figure(value: float) -> str:
    """Shares and small errors in four digits, others in two.

    >>> _figure(0.95668), _figure(78.192), _figure(1234.5)
    ('0.9567', '78.19', '1234')
    """
    return f"{value:.{4 if value < 1 else 2 if value < 1000 else 0}f}"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown.

    >>> print(table(("a", "b"), [("1", "2|3")]), end="")
    | a | b |
    |---|---|
    | 1 | 2\\|3 |
    """
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in (columns, *rows)]
    first, *others = [f"| {' | '.join(line)} |\n" for line in escaped]
    return "".join([first, f"|{'---|' * len(columns)}\n", *others])


def _duration(seconds: float) -> str:
    """Time as people say it.

    >>> _duration(0.14), _duration(75.2), _duration(1500)
    ('0.1 s', '75 s', '25.0 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
