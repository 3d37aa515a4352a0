"""The commands with which a recipe trains and evaluates; RUN is the folder of the model."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from recipes.recipe import Recipe
from recipes.together import Together, words


def training(name: str, recipe: Recipe) -> str:
    """The command that trains the model; for a module of this folder, the recipe itself."""
    if recipe.task == "ngram":
        return _typed("train", "ngram", *recipe.train, "--out", "RUN")
    if recipe.commanded:
        return _typed("train", recipe.task, "--config", f"{name}.yaml", "--out", "RUN")
    return f"python -m recipes {name}"


def judging(name: str, recipes: Mapping[str, Recipe]) -> dict[str, str]:
    """The commands that measure the figures, by their names; the name of the main figure is "".

    A figure that is written by training needs no further command.
    """
    recipe = recipes[name]
    if recipe.task == "together":
        (needed,) = recipe.needed
        runs = [f"{needed}-{seed}" for seed in recipes[needed].seeds]
        asked = Together(**{**recipe.config, "runs": runs})
        return {label: _typed("evaluate", *words(asked, label or "test")) for label in ("", "valid")}
    if recipe.task == "backtests":
        tests: list[dict[str, Any]] = recipe.config["tests"]
        return {
            one["train"]["data"] if len(tests) > 1 else "": _typed("backtest", "RUN", *one["backtest"])
            for one in tests
        }
    if not (recipe.commanded or recipe.task == "ngram"):
        return {"": f"python -m recipes {name}"}
    if recipe.source == "train":
        return {f"{recipe.measure} in RUN/training.json": ""}
    own = {"": recipe.evaluate, **recipe.also}
    return {label: _typed("evaluate", "RUN", *told) for label, told in own.items()}


def _typed(*typed: str) -> str:
    return shlex.join(("throughtime", *typed))
