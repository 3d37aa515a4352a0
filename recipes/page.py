"""RESULTS.md: the measured figures beside the published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import stdev
from typing import Any, get_args

from recipes.measure import Row
from recipes.recipe import Recipe

HEAD = """# Results

Written by `make results`; `python -m recipes NAME` measures one row anew. A recipe is a file of `recipes/`,
and its model is trained by the command alone: after `python -m recipes NAME --config > my.yaml`

    throughtime train language --config my.yaml --out RUN    # or translate, tag, ...: the recipe's task
    throughtime evaluate RUN --split test

do the same by hand. Corpora are found through `THROUGHTIME_DATA`, or fetched; see `throughtime data list`.
Choices are made on validation data; test is read once, at the end. Figures of language models are
perplexities; other rows say what they are. A mean stands with the standard deviation over its seeds. Times
are of the training, on a machine that may have done other things besides.
"""
GROUPS: tuple[str, ...] = get_args(Recipe.model_fields["group"].annotation)
UNSEEDED = ("ngram", "windows", "searches", "retrieval", "together", "sine")
COLUMNS = ("what", "measured", "published", "seed", "trained in", "on", "date", "command")


def page(recipes: Mapping[str, Recipe], measured: Mapping[str, Row]) -> str:
    """The whole page; recipes that were never measured are named at the end of their section."""
    sections = [HEAD]
    for group in GROUPS:
        chosen = {name: recipe for name, recipe in recipes.items() if recipe.group == group}
        if chosen:
            sections.append(_section(group, chosen, measured))
    return "\n".join(sections)


def _section(group: str, recipes: Mapping[str, Recipe], measured: Mapping[str, Row]) -> str:
    known = {name: recipe for name, recipe in recipes.items() if name in measured}
    waiting = [f"`{name}`" for name in recipes if name not in measured]
    rows = [_row(name, recipe, measured[name]) for name, recipe in known.items()]
    parts = [f"## {group}\n"]
    if rows:
        parts.append(table(COLUMNS, rows))
    tables = [measured[name]["table"] for name in known if "table" in measured[name]]
    parts += [table(one["columns"], [tuple(map(_shown, line)) for line in one["rows"]]) for one in tables]
    parts += [_said(name, measured[name]["said"]) for name in known if "said" in measured[name]]
    parts += [f"`{name}`: {recipe.note}\n" for name, recipe in recipes.items() if recipe.note is not None]
    if waiting:
        parts.append(f"Not measured yet: {', '.join(waiting)}.\n")
    return "\n".join(parts)


def _row(name: str, recipe: Recipe, row: Row) -> tuple[str, ...]:
    value = _figure(row["value"])
    if len(values := row.get("values", {}).values()) > 1:
        value += f" ± {stdev(values):.2f}"
    for label, one in sorted(row.get("also", {}).items()):  # as measured.json has them
        value += f"; {label} {_figure(one)}"
    if row["fingerprint"] != recipe.fingerprint:
        value += " (with earlier settings)"
    seeds = recipe.seeds or (() if recipe.task in UNSEEDED else (recipe.config.get("seed", 0),))
    return (
        recipe.title,
        value,
        recipe.published or "-",
        ", ".join(map(str, seeds)) or "-",
        _duration(row["seconds"]),
        row["machine"],
        row["date"],
        f"`python -m recipes {name}`",
    )


def _said(name: str, said: Mapping[str, Sequence[str]]) -> str:
    """Sentences and what became of them, run by run.

    >>> print(_said("toy", {"Go!": ["Va !", "Pars !"]}), end="")
    `toy`: “Go!” becomes “Va !”, “Pars !”.
    """
    told = {source: ", ".join(f"“{text}”" for text in texts) for source, texts in said.items()}
    return f"`{name}`: {'; '.join(f'“{source}” becomes {texts}' for source, texts in told.items())}.\n"


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
