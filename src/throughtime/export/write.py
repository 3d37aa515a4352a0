"""From a run to a folder that needs no torch: whole and checked, or not at all."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

from throughtime.errors import InputError, unknown
from throughtime.export.card import card
from throughtime.export.exported import Exported
from throughtime.export.verify import verified
from throughtime.files import check_place, whole_folder
from throughtime.folder import ModelFolder
from throughtime.tasks import load
from throughtime.version import __version__

FORMATS = ("onnx",)
FORMAT, VERSION = "throughtime-onnx", 1
EXPORTERS = {
    "translate": "throughtime.tasks.translate.export",
    "language": "throughtime.tasks.language.export",
    "tag": "throughtime.tasks.tag.export",
    "classify": "throughtime.tasks.classify.export",
    "fill": "throughtime.tasks.fill.export",
    "forecast": "throughtime.tasks.forecast.export",
}
"""Each module has an `exported(model)`; imported only when such a model is exported."""


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
    out = Path(out)
    if format_ not in FORMATS:
        raise unknown("format", format_, FORMATS)
    folder = ModelFolder.at(run)
    task, _ = folder.read_config()
    if task not in EXPORTERS:
        raise InputError(
            str(run),
            f"holds a model of the task {task!r}, which has no export; known: {', '.join(sorted(EXPORTERS))}",
        )
    check_place(out)
    if out.exists():
        raise InputError("--out", f"{out} exists already; choose another folder or remove it")
    say(f"Exporting {run}, and checking it against torch.")
    exported: Exported = importlib.import_module(EXPORTERS[task]).exported(load(run, "cpu"))
    models = {name: graph.model() for name, graph in exported.graphs(False).items()}
    checks = {"float32": verified(models, exported.cases(), "float32")}
    if int8:
        models = {name: graph.model() for name, graph in exported.graphs(True).items()}
        checks["int8"] = verified(models, exported.cases(), "int8")
    values = {
        "format": FORMAT,
        "version": VERSION,
        "throughtime": __version__,
        "task": task,
        "precision": "int8" if int8 else "float32",
        "parts": {name: f"{name}.onnx" for name in models},
        "bytes": {name: model.ByteSize() for name, model in models.items()},
        "settings": exported.settings,
        "verified": checks,
    }
    with whole_folder(out) as temporary:
        for name, model in models.items():
            onnx.save(model, temporary / f"{name}.onnx")
        exported.save(temporary)
        written = ModelFolder(temporary)
        written.write_json("export.json", values)
        written.write_card(card(Path(run).name, values, exported.usage))
    return values
