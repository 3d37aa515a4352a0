"""Exported models at work, on onnxruntime, numpy and tokenizers alone: nothing here imports torch.

    model = throughtime.runtime.load("FOLDER")
    model.translate(["Where is the station?"])[0][0].text

A new task is one new file and one line in RUNNERS.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from throughtime.errors import unknown
from throughtime.runtime.folder import ExportFolder

RUNNERS = {
    "translate": "throughtime.tasks.translate.runner",
    "language": "throughtime.tasks.language.runner",
    "tag": "throughtime.tasks.tag.runner",
    "classify": "throughtime.tasks.classify.runner",
    "fill": "throughtime.tasks.fill.runner",
    "forecast": "throughtime.tasks.forecast.runner",
}
"""Each task's module has an `opened(folder)`; imported only when such a model is opened."""


def load(path: Path | str, *, threads: int | None = None) -> Any:
    """Open what `throughtime export` wrote: a model with the methods of that which `throughtime.load` opens.

    `threads` is how many cores it has for itself: its threads then wait busily for each other. By default it
    takes as many as there are, and shares them with other work.
    """
    folder = ExportFolder.at(path, threads)
    if folder.task not in RUNNERS:
        raise unknown("task", folder.task, RUNNERS)
    return importlib.import_module(RUNNERS[folder.task]).opened(folder)
