"""Data, model, loss and measure brought together. A new task is one new file and one line in TASKS."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from throughtime.errors import unknown
from throughtime.folder import ModelFolder

TASKS = {
    "ngram": "throughtime.tasks.ngram.task",
    "language": "throughtime.tasks.language.task",
    "translate": "throughtime.tasks.translate.task",
    "tag": "throughtime.tasks.tag.task",
    "fill": "throughtime.tasks.fill.task",
    "classify": "throughtime.tasks.classify.task",
    "compose": "throughtime.tasks.compose.task",
    "forecast": "throughtime.tasks.forecast.task",
}
"""Each task's module has a `load(folder, config, device)`; imported only when such a model is opened."""


def load(path: Path | str, device: str = "auto") -> Any:
    """Open a trained model, whatever its task: `tt.load("RUN").generate("the time")`.

    A model computes on a GPU where there is one, whatever it was trained on; `device="cpu"` keeps it off.
    """
    folder = ModelFolder.at(path)
    task, config = folder.read_config()
    if task not in TASKS:
        raise unknown("task", task, TASKS)
    return importlib.import_module(TASKS[task]).load(folder, config, device)
