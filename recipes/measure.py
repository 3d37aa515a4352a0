"""Run a recipe as the terminal would, and write down the figure with all that it depends on."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import Any

from recipes.asked import fillings, trained_on, training_loss, translations
from recipes.first_losses import first_losses
from recipes.recipe import Recipe, written
from throughtime.cli.main import main as throughtime
from throughtime.data.datasets import open_dataset
from throughtime.errors import InputError, ThroughtimeError
from throughtime.tasks import TASKS
from throughtime.version import __version__

Row = dict[str, Any]
"""What is known of a measured recipe; one object of measured.json."""
ROW_KEYS = ("value", "seconds", "machine", "date", "version", "signature", "fingerprint", "first")
COUNTED = ("ngram", "windows", "retrieval")
TOLERANCE, GROWTH = 1e-3, 100
"""How far a figure of a trained model may be from the stored one, relative; or this many times as far as any
figure before it. Other processors round differently, and updates magnify that: `ptb-zaremba-large`, whose
loss jumps from 9 to 23 at its start, from 1e-7 to 1e-5, 3e-4 and 1 % in six updates. A change of the code is
far at once."""


def refuses(recipe: Recipe) -> str | None:
    """Why the recipe cannot run on this machine, or None."""
    if recipe.machine == "gpu":
        import torch

        if not torch.cuda.is_available():
            return "it needs a GPU, and torch sees none"
    return lacks_data(recipe)


def lacks_data(recipe: Recipe) -> str | None:
    """Why the data of the recipe cannot be read here, or None."""
    if recipe.data is not None:
        try:
            open_dataset(recipe.data)
        except ThroughtimeError as error:
            return str(error)
    return None


def first_figures(recipe: Recipe) -> list[float]:
    """What the code gives first on a CPU: the losses of the first updates of a training; else its figure.

    A recipe that needs runs of others has none: its row is stale if a row that it needs is.
    """
    if recipe.needs:
        return []
    if recipe.commanded:
        return first_losses(recipe)
    with tempfile.TemporaryDirectory() as folder:
        alone = recipe.model_copy(update={"also": {}})
        return [_once(alone, {**recipe.config, **recipe.first}, Path(folder) / "run")["value"]]


def come_out(recipe: Recipe, row: Row, figures: Sequence[float]) -> bool:
    """Whether the first figures are those of the row, but for rounding."""
    stored = row.get("first", [])
    if len(stored) != len(figures):
        return False
    differences = [
        abs(old - new) / max(abs(old), abs(new), 1e-12) for old, new in zip(stored, figures, strict=True)
    ]
    if recipe.task in COUNTED:
        return max(differences, default=0.0) <= 1e-9
    largest = 0.0
    for difference in differences:
        if difference > max(TOLERANCE, GROWTH * largest):
            return False
        largest = max(largest, difference)
    return True


def measure(name: str, recipes: Mapping[str, Recipe], keep: Path | None = None) -> Row:
    """Train and judge, once for each seed; the row is the mean.

    Run folders stay under `keep`; one that is there is gone on with, or only judged if it is finished.
    """
    recipe = recipes[name]
    begun: list[Row] = []
    with contextlib.ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found = []
        for number, config in enumerate(recipe.runs()):
            run = _folder(name, recipe, config, folder)
            print(f"== {name}, run {number + 1} of {len(recipe.runs())}", file=sys.stderr)
            needed, earlier = _runs(recipe, recipes, folder)
            begun += [_begun(run, recipe), *earlier]
            found.append(_once(recipe, {**config, **needed}, run))
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
        "machine": "; ".join(dict.fromkeys(one["machine"] for one in begun)),
        "date": datetime.now(UTC).date().isoformat(),
        "version": __version__,
        "fingerprint": recipe.fingerprint,
        "first": begun[0].get("first", [row["value"]]),
    }


def _begun(run: Path, recipe: Recipe) -> Row:
    """The machine on which a run was started, and the first figures of the code that started it.

    A run may be kept and continued by later code, so both are written beside it.
    """
    if recipe.task == "ngram" or (recipe.task not in TASKS and not recipe.first):
        return {"machine": machine(recipe)}  # its figure is its first
    stamp = run.with_name(f"{run.name}.begun.json")
    if not (stamp.exists() and run.exists()):
        first = [] if run.exists() else first_figures(recipe)  # of a run of unknown code nothing is known
        run.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(json.dumps({"machine": machine(recipe), "first": first}))
    begun: Row = json.loads(stamp.read_text())
    return begun


def _runs(recipe: Recipe, recipes: Mapping[str, Recipe], folder: Path) -> tuple[dict[str, Any], list[Row]]:
    """The settings that are run folders of other recipes, and how these were started.

    They are trained if they do not exist yet. A recipe with several seeds stands for all of its runs.
    """
    begun: list[Row] = []

    def trained(name: str) -> str | list[str]:
        needed = recipes[name]
        runs = {_folder(name, needed, config, folder): config for config in needed.runs()}
        for run, config in runs.items():
            settings, earlier = _runs(needed, recipes, folder)
            begun.extend([_begun(run, needed), *earlier])
            trained_run(needed.task, {**config, **settings}, run)
        first, *others = map(str, runs)
        return [first, *others] if others else first

    runs = {
        key: trained(names) if isinstance(names, str) else [trained(name) for name in names]
        for key, names in recipe.needs.items()
    }
    return runs, begun


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
    if recipe.task == "forecast":
        also |= {name: figures[recipe.measure] for name, figures in judged["baselines"].items()}
    if recipe.asks:
        row["said"] = (translations if recipe.task == "translate" else fillings)(run, recipe.asks)
        row["trained_on"] = trained_on(run, recipe.asks) if recipe.task == "translate" else []
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


def checked_row(name: str, row: object) -> Row:
    """A row of another machine, or a sentence about what it lacks."""
    if not isinstance(row, dict):
        raise InputError(name, "is no row of measured.json: expected a table of values")
    for key in ROW_KEYS:
        if key not in row:
            raise InputError(name, f"the row lacks {key!r}; was it written by `python -m recipes`?")
    return row


def succeeding(before: Row, row: Row) -> Row:
    """A row with the earlier readings of the row that it replaces; equal figures count as one reading."""

    def same(one: Row, other: Row) -> bool:
        rounded = [
            [round(value, 4) for value in (each["value"], *each.get("also", {}).values())]
            for each in (one, other)
        ]
        return rounded[0] == rounded[1] and one.get("fingerprint") == other.get("fingerprint")

    last: Row = {key: before[key] for key in ("date", "value", "also", "fingerprint") if key in before}
    if last:
        same_settings = last["fingerprint"] == row["fingerprint"]
        last["setting"] = "the same settings" if same_settings else f"settings {last['fingerprint']}"
    earlier: list[Row] = []
    for one in (*before.get("earlier", ()), *([last] if last else ()), *row.get("earlier", ())):
        if not same(one, row) and not any(same(one, other) for other in earlier):
            earlier.append(one)
    return {**row, "earlier": earlier} if earlier else row


def _at(values: dict[str, Any], place: str) -> float:
    found: Any = values
    for key in place.split("."):
        if not isinstance(found, dict) or key not in found:
            raise InputError("measure", f"{place!r} is not in the JSON; known there: {', '.join(values)}")
        found = found[key]
    return float(found)


def machine(recipe: Recipe) -> str:
    """The machine that computes it: the GPU if torch finds one, else the processor."""
    import torch

    versions = f"torch {torch.__version__}, Python {platform.python_version()}"
    refused = recipe.task in COUNTED or recipe.config.get("device") == "cpu"
    if torch.cuda.is_available() and not refused:
        return f"{torch.cuda.get_device_name()}, {versions}"
    told = re.search(r"^model name\s*: (.+)$", _cpu_info(), re.MULTILINE)
    processor = told[1] if told else platform.processor() or platform.machine()
    return f"{processor}, {torch.get_num_threads()} of {os.cpu_count()} cores, {versions}"


def _cpu_info(path: Path = Path("/proc/cpuinfo")) -> str:
    return path.read_text("utf-8", errors="replace") if path.exists() else ""
