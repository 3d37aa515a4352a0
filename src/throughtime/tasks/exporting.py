"""Export a trained model, whatever its task."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from throughtime.errors import InputError, unknown
from throughtime.export.write import FORMATS, Exported, check_out, write_export
from throughtime.folder import ModelFolder
from throughtime.tasks import load

EXPORTERS = {
    "translate": "throughtime.tasks.translate.export",
    "language": "throughtime.tasks.language.export",
    "tag": "throughtime.tasks.tag.export",
    "classify": "throughtime.tasks.classify.export",
    "fill": "throughtime.tasks.fill.export",
    "forecast": "throughtime.tasks.forecast.export",
}
"""Each module has a `build_export(model)`; imported only when such a model is exported."""


def export(
    run: Path | str,
    out: Path | str,
    *,
    format_: str = "onnx",
    int8: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Write the model of a run to a folder for `throughtime.runtime`; what it holds and how far it is off.

    `int8` keeps weights in one byte each: a smaller and faster model whose numbers are a little off. `say` is
    told when the work begins.
    """
    if format_ not in FORMATS:
        raise unknown("format", format_, FORMATS)
    task, _ = ModelFolder.at(run).read_config()
    if task not in EXPORTERS:
        raise InputError(
            str(run),
            f"holds a model of the task {task!r}, which has no export; known: {', '.join(sorted(EXPORTERS))}",
        )
    check_out(Path(out))
    say(f"Exporting {run}, and checking it against torch.")
    exported: Exported = importlib.import_module(EXPORTERS[task]).build_export(load(run, "cpu"))
    return write_export(exported, task, Path(out), name=Path(run).name, int8=int8)
