"""`python -m recipes [NAME ...]`: run the recipes, write what was measured into RESULTS.md.

A recipe that cannot run on this machine, for want of its corpus or of a GPU, is skipped with the reason; its
last figure stays.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from recipes.first_losses import first_losses
from recipes.measure import (
    Row,
    checked_row,
    come_out,
    first_figures,
    lacks_data,
    measure,
    refuses,
    succeeding,
)
from recipes.page import page, stale
from recipes.recipe import HERE, Recipe, read_recipes, written
from throughtime.errors import InputError, ThroughtimeError, unknown
from throughtime.files import whole_file


def main(words: Sequence[str] | None = None, folder: Path = HERE) -> int:
    """Run those named, or all; 1 where one of them failed, 2 for a wrong word."""
    asked = _parser().parse_args(words)
    try:
        recipes = read_recipes(folder)
        for name in asked.names:
            if name not in recipes:
                raise unknown("recipe", name, recipes)
        if asked.list:
            print("\n".join(f"{name:28}{recipe.title}" for name, recipe in recipes.items()))
            return 0
        if asked.config:
            print(_config(asked.names, recipes), end="")
            return 0
        store = Measured(folder, recipes)
        if asked.check:
            return store.check(asked.names or list(recipes))
        if asked.rows is not None:
            store.take_in(_rows(asked.rows))
            return 0
        return _run(asked.names or list(recipes), recipes, store, asked.keep)
    except ThroughtimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


NUMBERS = re.compile(r"\[[-+.\de,\s]+\]")
"""Lists of numbers in JSON, each of which is written on one line."""


class Measured:
    """measured.json, and RESULTS.md that is made of it; both are written with every new row."""

    def __init__(self, folder: Path, recipes: Mapping[str, Recipe]) -> None:
        self.path, self.results = folder / "measured.json", folder.parent / "RESULTS.md"
        self.recipes = recipes

    def take_in(self, rows: Mapping[str, Row]) -> dict[str, Row]:
        """Add rows, or replace those of the same recipes, whose figures are kept as earlier readings."""
        for name in rows:
            if name not in self.recipes:
                raise unknown("recipe", name, self.recipes)
        # Read anew, so that two runs side by side do not undo each other.
        before = json.loads(self.path.read_text()) if self.path.exists() else {}
        measured = {**before, **{name: succeeding(before.get(name, {}), row) for name, row in rows.items()}}
        with whole_file(self.path) as file:
            text = json.dumps(measured, indent=2, sort_keys=True, ensure_ascii=False)
            file.write(NUMBERS.sub(lambda numbers: " ".join(numbers[0].split()), text) + "\n")
        with whole_file(self.results) as file:
            file.write(page(self.recipes, measured))
        return measured

    def check(self, names: Sequence[str]) -> int:
        """Compare first figures of rows with what the code gives now, and list stale rows; 1 if any."""
        rows = self.take_in({})
        chosen = [name for name in names if name in rows]
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # each training is a process on one core
            waiting = {
                name: pool.submit(first_losses, self.recipes[name]) for name in chosen if self._trains(name)
            }
            for name in chosen:
                recipe = self.recipes[name]
                if (reason := lacks_data(recipe)) is not None:
                    print(f"== {name} is not checked: {reason}", file=sys.stderr)
                    continue
                try:
                    figures = waiting[name].result() if name in waiting else first_figures(recipe)
                except ThroughtimeError as error:
                    print(f"== {name} failed: {error}", file=sys.stderr)
                    figures = [math.nan]
                needed = any(rows[other]["stale"] for other in recipe.needed if other in rows)
                rows[name]["stale"] = needed or not come_out(recipe, rows[name], figures)
                print(f"== {name}: {'stale' if rows[name]['stale'] else 'comes out'}", file=sys.stderr)
        rows = self.take_in({name: rows[name] for name in chosen})
        changes = {name: stale(self.recipes[name], rows[name]) for name in chosen}
        print("\n".join(f"{name:32} {change} changed" for name, change in changes.items() if change))
        return int(any(changes.values()))

    def _trains(self, name: str) -> bool:
        """Whether the first figures of a recipe are losses that can be computed here."""
        recipe = self.recipes[name]
        return recipe.commanded and not recipe.needs and lacks_data(recipe) is None


def _run(names: Sequence[str], recipes: Mapping[str, Recipe], store: Measured, keep: Path | None) -> int:
    code = 0
    store.take_in({})
    for name in names:
        if (reason := refuses(recipes[name])) is not None:
            print(f"== {name} skipped: {reason}", file=sys.stderr)
            continue
        try:
            row = measure(name, recipes, keep)
        except ThroughtimeError as error:
            print(f"== {name} failed: {error}", file=sys.stderr)
            code = 1
            continue
        store.take_in({name: row})
        print(f"== {name}: {row['value']:.4f} in {row['seconds']:.0f} s", file=sys.stderr)
    return code


def _config(names: Sequence[str], recipes: Mapping[str, Recipe]) -> str:
    if len(names) != 1 or not recipes[names[0]].commanded:
        known = ", ".join(name for name, recipe in recipes.items() if recipe.commanded)
        raise InputError("--config", f"goes with the name of one recipe of `throughtime train`: {known}")
    return written(recipes[names[0]].runs()[0])


def _rows(path: Path) -> dict[str, Row]:
    try:
        rows: Any = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(str(path), f"cannot be read as JSON: {error}") from None
    if not isinstance(rows, dict):
        raise InputError(str(path), "holds no rows: expected an object with a row for each recipe")
    return {name: checked_row(name, row) for name, row in rows.items()}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m recipes", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a recipe; all where none is named")
    parser.add_argument("--list", action="store_true", help="name the recipes and stop")
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare losses of the first updates and counted figures with those of the rows; list the stale "
        "rows, mark them in RESULTS.md and stop",
    )
    parser.add_argument("--config", action="store_true", help="print the settings of a recipe and stop")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="leave the run folders under DIR, and go on with those there"
    )
    parser.add_argument(
        "--import", dest="rows", type=Path, metavar="FILE", help="take in a measured.json of another machine"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
