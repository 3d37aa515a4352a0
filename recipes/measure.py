"""Run a recipe as the terminal would, and write down the figure with all that it depends on."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import Any

from recipes.recipe import Recipe
from recipes.translated import said, training_loss
from throughtime.cli.main import main as throughtime
from throughtime.data.datasets import open_dataset
from throughtime.errors import InputError, ThroughtimeError
from throughtime.version import __version__

Row = dict[str, Any]
"""What is known of a measured recipe; one object of measured.json."""
ROW_KEYS = ("value", "seconds", "machine", "date", "version", "signature", "fingerprint")


def refuses(recipe: Recipe) -> str | None:
    """Why the recipe cannot run on this machine, or None."""
    if recipe.machine == "gpu":
        import torch

        if not torch.cuda.is_available():
            return "it needs a GPU, and torch sees none"
    if recipe.data is not None:
        try:
            open_dataset(recipe.data)
        except ThroughtimeError as error:
            return str(error)
    return None


def measure(name: str, recipes: Mapping[str, Recipe], keep: Path | None = None) -> Row:
    """Train and judge, once for each seed; the row is the mean.

    Run folders stay under `keep`; one that is there is gone on with, or only judged if it is finished.
    """
    recipe = recipes[name]
    with contextlib.ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found = []
        for number, config in enumerate(recipe.runs()):
            run = _folder(name, recipe, config, folder)
            print(f"== {name}, run {number + 1} of {len(recipe.runs())}", file=sys.stderr)
            found.append(_once(recipe, {**config, **_runs(recipe, recipes, folder)}, run))
    row = {**found[0], "value": mean(one["value"] for one in found)}
    row["seconds"] = round(mean(one["seconds"] for one in found), 1)
    row["also"] = {label: mean(one["also"][label] for one in found) for label in found[0]["also"]}
    if recipe.seeds:
        row["values"] = {str(seed): one["value"] for seed, one in zip(recipe.seeds, found, strict=True)}
    if recipe.asks:
        told = zip(*(one["said"] for one in found), strict=True)  # by sentence, then by run
        row["said"] = {sentence: list(texts) for sentence, texts in zip(recipe.asks, told, strict=True)}
    return {
        **row,
        "machine": _machine(recipe.machine),
        "date": datetime.now(UTC).date().isoformat(),
        "version": __version__,
        "fingerprint": recipe.fingerprint,
    }


def _runs(recipe: Recipe, recipes: Mapping[str, Recipe], folder: Path) -> dict[str, Any]:
    """The settings that are run folders of other recipes, which are trained where they are not yet.

    A recipe with several seeds stands for all of its runs.
    """

    def trained(name: str) -> str | list[str]:
        needed = recipes[name]
        runs = {_folder(name, needed, config, folder): config for config in needed.runs()}
        for run, config in runs.items():
            trained_run(needed.task, {**config, **_runs(needed, recipes, folder)}, run)
        first, *others = map(str, runs)
        return [first, *others] if others else first

    return {
        key: trained(names) if isinstance(names, str) else [trained(name) for name in names]
        for key, names in recipe.needs.items()
    }


def _folder(name: str, recipe: Recipe, config: dict[str, Any], folder: Path) -> Path:
    return folder / (f"{name}-{config['seed']}" if recipe.seeds else name)


def _once(recipe: Recipe, config: dict[str, Any], run: Path) -> Row:
    began = time.perf_counter()
    if recipe.task == "ngram":
        trained = command("train", "ngram", *recipe.train, "--out", str(run), "--resume")
        seconds = time.perf_counter() - began
    elif recipe.commanded:
        trained = trained_run(recipe.task, config, run)
        seconds = trained["seconds"]
    else:
        measured: Row = importlib.import_module(f"recipes.{recipe.task}").measured(config)
        return {"seconds": time.perf_counter() - began, "also": {}, **measured}
    if recipe.source == "train":
        words = [f"data:{recipe.data}", f"measure:{recipe.measure}", f"device:{trained['device']}"]
        signature = "|".join([*words, f"precision:{config.get('precision', 'float32')}"])
        return {"value": _at(trained, recipe.measure), "seconds": seconds, "also": {}, "signature": signature}
    judged = command("evaluate", str(run), *recipe.evaluate)
    also = {
        label: _at(command("evaluate", str(run), *words), recipe.measure)
        for label, words in recipe.also.items()
    }
    value, signature = _at(judged, recipe.measure), judged["signature"]
    row: Row = {"value": value, "seconds": seconds, "also": also, "signature": signature}
    if recipe.task == "translate":
        also |= {"chrF": judged["chrf"], "training loss": training_loss(run)}
    if recipe.asks:
        row["said"] = said(run, recipe.asks)
    return row


def trained_run(task: str, config: dict[str, Any], run: Path) -> dict[str, Any]:
    """What `train TASK` writes down at its end, whether it ran now or before."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(written(config))
        command("train", task, "--config", str(file), "--out", str(run), "--resume")
    values: dict[str, Any] = json.loads((run / "training.json").read_text())
    return values


def command(*words: str) -> dict[str, Any]:
    """What `throughtime WORDS --json` prints; an error where it fails."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = throughtime([*words, "--json"])
    if code and not out.getvalue():
        raise SystemExit(code)  # Ctrl-C; what was kept is gone on with by the same words
    if code:
        raise ThroughtimeError(f"throughtime {' '.join(words)} failed: {json.loads(out.getvalue())['error']}")
    values: dict[str, Any] = json.loads(out.getvalue())
    return values


def written(config: dict[str, Any]) -> str:
    """Settings as a YAML file."""
    import yaml

    return str(yaml.safe_dump(config, sort_keys=False))


def checked_row(name: str, row: object) -> Row:
    """A row of another machine, or a sentence about what it lacks."""
    if not isinstance(row, dict):
        raise InputError(name, "is no row of measured.json: expected a table of values")
    for key in ROW_KEYS:
        if key not in row:
            raise InputError(name, f"the row lacks {key!r}; was it written by `python -m recipes`?")
    return row


def _at(values: dict[str, Any], place: str) -> float:
    found: Any = values
    for key in place.split("."):
        if not isinstance(found, dict) or key not in found:
            raise InputError("measure", f"{place!r} is not in the JSON; known there: {', '.join(values)}")
        found = found[key]
    return float(found)


def _machine(kind: str) -> str:
    import torch

    version = f"torch {torch.__version__}"
    if kind == "gpu":
        return f"{torch.cuda.get_device_name()}, {version}"
    return f"{torch.get_num_threads()} of {os.cpu_count()} cores, {platform.machine()}, {version}"
