"""Exported models at work, on onnxruntime, numpy and tokenizers alone: nothing here imports torch.

    model = throughtime.runtime.load("FOLDER")
    model.translate(["Where is the station?"])[0][0].text

A new task is one new file and one line in RUNNERS.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from throughtime.registry import Registry
from throughtime.runtime.forecast import History as History
from throughtime.runtime.session import ExportFolder

RUNNERS = Registry[Callable[[ExportFolder], Any]](
    "task",
    "throughtime.runners",
    {
        "translate": "throughtime.tasks.translate.runner:Translator",
        "language": "throughtime.tasks.language.runner:LanguageModel",
        "tag": "throughtime.tasks.tag.runner:Tagger",
        "classify": "throughtime.tasks.classify.runner:Classifier",
        "fill": "throughtime.tasks.fill.runner:Filler",
        "forecast": "throughtime.tasks.forecast.runner:Forecaster",
    },
)
"""What opens an export of each task; imported only when such a model is opened."""


def load(path: Path | str, *, threads: int | None = None) -> Any:
    """Open what `throughtime export` wrote: a model with the methods of that which `throughtime.load` opens.

    `threads` is how many cores it has for itself: its threads then wait busily for each other. By default it
    takes as many as there are, and shares them with other work.
    """
    folder = ExportFolder.at(path, threads)
    return RUNNERS[folder.task](folder)
