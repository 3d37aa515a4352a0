"""Run exported models on onnxruntime, numpy and tokenizers; nothing here imports torch.

model = throughtime.runtime.load("FOLDER")
model.translate(["Where is the station?"])[0].text
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from throughtime.runtime.forecast import History as History


def load(path: Path | str, *, threads: int | None = None, trust_changed: bool = False) -> Any:
    """Open a folder that `throughtime export` wrote: a model with the methods of the trained one.

    `threads` is the number of cores that the model has for itself: its threads then wait actively for each
    other. By default it uses all cores and shares them with other work. A folder with a file that changed
    after the export is refused, unless `trust_changed` is set.
    """
    from throughtime.errors import InputError
    from throughtime.runtime.session import ExportFolder
    from throughtime.tasks import TASKS

    folder = ExportFolder.at(path, threads, trust_changed=trust_changed)
    declaration = TASKS[folder.task]
    if declaration.runner is None:
        raise InputError(str(path), f"holds a model of the task {folder.task!r}, which runs only with torch")
    return declaration.part("runner")(folder)


def __getattr__(name: str) -> Any:
    if name != "History":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from throughtime.runtime import forecast

    return forecast.History
