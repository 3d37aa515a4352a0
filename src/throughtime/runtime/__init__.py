"""Exported models at work, on onnxruntime, numpy and tokenizers alone: nothing here imports torch.

model = throughtime.runtime.load("FOLDER")
model.translate(["Where is the station?"])[0].text
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from throughtime.errors import InputError
from throughtime.runtime.forecast import History as History
from throughtime.runtime.session import ExportFolder


def load(path: Path | str, *, threads: int | None = None) -> Any:
    """Open what `throughtime export` wrote: a model with the methods of that which `throughtime.load` opens.

    `threads` is how many cores it has for itself: its threads then wait busily for each other. By default it
    takes as many as there are, and shares them with other work.
    """
    folder = ExportFolder.at(path, threads)
    from throughtime.tasks import TASKS

    declaration = TASKS[folder.task]
    if declaration.runner is None:
        raise InputError(str(path), f"holds a model of the task {folder.task!r}, which runs with torch only")
    return declaration.part("runner")(folder)
