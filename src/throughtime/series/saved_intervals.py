"""Conformal intervals in a model folder: one safetensors file, with what they are in its header."""

from __future__ import annotations

import json
from typing import Any

from throughtime.errors import InputError
from throughtime.files import whole_file
from throughtime.folder import ModelFolder
from throughtime.series.conformal import KINDS, Intervals

FILE = "intervals.safetensors"


def save_intervals(folder: ModelFolder, intervals: Intervals) -> None:
    """Keep intervals with the model; `forecast --level` uses them from then on."""
    from safetensors.numpy import save

    about = {"kind": intervals.kind, "series": list(intervals.series), "season": intervals.season}
    with whole_file(folder.path / FILE, "wb") as file:
        file.write(save(intervals.tensors(), metadata={"intervals": json.dumps(about)}))


def saved_intervals(folder: ModelFolder) -> Intervals | None:
    """The intervals that were kept with a model, if any were."""
    from safetensors import SafetensorError, safe_open

    path = folder.path / FILE
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            about: dict[str, Any] = json.loads(file.metadata()["intervals"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        kind = KINDS[about["kind"]]
        found: Intervals = kind.restored(tuple(about["series"]), about["season"], tensors)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            str(path), f"cannot be read ({error}); make it anew with `throughtime backtest --save-intervals`"
        ) from None
    return found
