"""Trained models as one HTML file that shows how they work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from throughtime.errors import InputError, unknown
from throughtime.graphs import check_new_file
from throughtime.graphs.describe import WEIGHTS, pack_model
from throughtime.graphs.html import write_html
from throughtime.graphs.write import copy_to_cpu
from throughtime.models.cell_titles import find_titles
from throughtime.tasks import TASKS
from throughtime.tasks.description import describe_model


def export_html(
    models: Sequence[Any], out: Path | str, *, weights: str = "int8", sample: bool = True
) -> dict[str, Any]:
    """Write trained models to one file; return its size and what it holds.

    `weights` is "int8", "float16" or "float32": smaller files are a little less exact. With
    `sample`, the file holds a few of the data: texts to try a model with, or the last rows of a series.
    """
    if weights not in WEIGHTS:
        raise unknown("weights", weights, WEIGHTS)
    if not models:
        raise InputError("models", "are missing; give one or more")
    check_new_file(out)
    names = name_models(models)
    blocks = [pack(model, name, weights, sample) for model, name in zip(models, names, strict=True)]
    sizes = write_html(Path(out), blocks, {model.task for model in models}, names)
    listed = [{"name": name, "task": model.task} for model, name in zip(models, names, strict=True)]
    return {"weights": weights, **sizes, "models": listed}


def name_models(models: Sequence[Any]) -> list[str]:
    """The names of their folders, or of their tasks; readers choose models by name, so all must differ."""
    names = [
        model.task if getattr(model, "folder", None) is None else model.folder.path.resolve().name
        for model in models
    ]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(
            f"two models have the name {twice!r}, and the page tells them apart by name; rename a folder"
        )
    return names


def pack(model: Any, name: str, weights: str = "int8", sample: bool = True) -> bytes:
    """One model as a block of bytes; see `graphs.describe`."""
    own = copy_to_cpu(model)
    exported = TASKS[model.task].part("exporter")(own)
    about = describe_model(name, model.task, own, examples=model.examples if sample else ())
    return pack_model(exported, about, find_titles(own.model), weights, sample)
