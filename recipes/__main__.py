"""`python -m recipes [NAME ...]`: run the recipes, write what was measured into RESULTS.md.

A recipe that cannot run on this machine, for want of its corpus or of a GPU, is skipped with the reason; its
last figure stays.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recipes.measure import Row, checked_row, measure, refuses, succeeding, written
from recipes.page import page, stale
from recipes.recipe import HERE, Recipe, read_recipes
from recipes.sources import sources
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
            return store.check()
        if asked.rows is not None:
            store.take_in(_rows(asked.rows))
            return 0
        return _run(asked.names or list(recipes), recipes, store, asked.keep)
    except ThroughtimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


class Measured:
    """measured.json, and RESULTS.md that is made of it; both are written with every new row."""

    def __init__(self, folder: Path, recipes: Mapping[str, Recipe]) -> None:
        self.path, self.results = folder / "measured.json", folder.parent / "RESULTS.md"
        self.recipes, self.now = recipes, sources(recipes)

    def take_in(self, rows: Mapping[str, Row]) -> dict[str, Row]:
        """Add rows, or replace those of the same recipes, whose figures are kept as earlier readings."""
        for name in rows:
            if name not in self.recipes:
                raise unknown("recipe", name, self.recipes)
        # Read anew, so that two runs side by side do not undo each other.
        before = json.loads(self.path.read_text()) if self.path.exists() else {}
        measured = {**before, **{name: succeeding(before.get(name, {}), row) for name, row in rows.items()}}
        with whole_file(self.path) as file:
            json.dump(measured, file, indent=2, sort_keys=True, ensure_ascii=False)
            file.write("\n")
        with whole_file(self.results) as file:
            file.write(page(self.recipes, measured, self.now))
        return measured

    def check(self) -> int:
        """Write the page and list the stale rows; 1 where there are some."""
        rows = self.take_in({})
        found = {name: stale(self.recipes[name], row, self.now[name]) for name, row in rows.items()}
        print("\n".join(f"{name:32} {changed} changed" for name, changed in found.items() if changed))
        return int(any(found.values()))


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
        "--check", action="store_true", help="list the stale rows, bring RESULTS.md up to date and stop"
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
