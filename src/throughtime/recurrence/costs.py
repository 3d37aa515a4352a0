"""Measurements on GPUs: where our kernels are faster than torch's, and which plan suits them best.

`costs.json` has the figures of known GPUs. `throughtime doctor --measure` writes those of this machine into
the user's cache folder, and they take precedence. Without measurements, `auto` leaves a call to torch.
"""

from __future__ import annotations

import functools
import json
import math
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from throughtime.cells.base import Cell
from throughtime.files import cache_folder
from throughtime.recurrence.choice import GPU_ONLY
from throughtime.recurrence.persistent_plan import KernelTask, Plan

NEVER = sys.maxsize
ALIGNED = 8


def find_break_even(backend: str, cell: Cell, x: Tensor, trains: bool, layers: int = 1) -> int:
    """Return the number of steps from which this backend is faster than torch, at the nearest measured shape.

    `layers` is the number of layers that torch would run side by side.
    """
    if backend not in GPU_ONLY:
        return 0
    if x.device.type != "cuda":
        return NEVER
    name = name_use(cell, x.dtype, trains)
    return _steps(gpu(x.get_device()), backend, name, cell.hidden_size, x.shape[1], layers)


@functools.cache
def _steps(name: str, backend: str, name_use: str, hidden: int, batch: int, layers: int) -> int:
    """Look up `find_break_even` once: every call of `scan` asks."""
    return nearest(figures(name).get(backend, {}).get(name_use, []), hidden, batch, layers)


def nearest(rows: list[list[Any]], hidden: int, batch: int, layers: int = 1) -> int:
    """Return the steps of the row whose shape is nearest.

    A row is hidden size, batch, and the steps with one layer, with two, and with three or more (null: at no
    length). In rows of three numbers the steps hold for any number of layers. Sizes that are not a multiple
    of 8 are far from those that are, as torch is much slower there.

    >>> rows = [[256, 16, 35, 128, None], [1024, 16, 128, 128, 128]]
    >>> nearest(rows, hidden=300, batch=20), nearest(rows, hidden=300, batch=20, layers=2)
    (35, 128)
    >>> nearest([], hidden=300, batch=20) == NEVER
    True
    """

    def distance(row: list[Any]) -> float:
        apart = 0.5 if (row[0] % ALIGNED == 0) != (hidden % ALIGNED == 0) else 0.0
        return abs(math.log(row[0] / hidden)) + abs(math.log(row[1] / batch)) + apart

    if not rows:
        return NEVER
    row = min(rows, key=distance)
    steps = row[min(1 + layers, len(row) - 1)]
    return NEVER if steps is None else int(steps)


def name_use(cell: Cell, dtype: torch.dtype, trains: bool) -> str:
    """Return the name under which figures of such calls are stored."""
    reset = getattr(cell, "reset", "after")
    name = (cell.equations or type(cell).__name__) + ("-before" if reset == "before" else "")
    return f"{name} {str(dtype).removeprefix('torch.')} {'trained' if trains else 'forward'}"


def plan(device: int, task: KernelTask) -> Plan | None:
    """Return the plan measured as the best for exactly this task on this GPU, or None."""
    numbers = figures(gpu(device)).get("plans", {}).get(plan_name(task))
    return None if numbers is None else Plan(**numbers)


def plan_name(task: KernelTask) -> str:
    """Return the name under which the best plan of a task is stored."""
    way = "backward" if task.backward else "forward"
    return f"{task.form.name} {task.kind.name} {way} {task.width} {task.batch}"


@functools.cache
def gpu(device: int) -> str:
    """Return the name of a GPU."""
    return torch.cuda.get_device_name(device)


@functools.cache
def figures(name: str) -> dict[str, Any]:
    """Return all measurements on GPUs of this name; the user's own take precedence."""
    result: dict[str, Any] = {}
    for path in (Path(__file__).with_name("costs.json"), own_file()):
        if path.exists():
            result.update(json.loads(path.read_text(encoding="utf-8")).get(name, {}))
    return result


def forget() -> None:
    """Read the files again at the next use, after a new measurement."""
    figures.cache_clear()
    _steps.cache_clear()


def own_file() -> Path:
    """Return the file that `throughtime doctor --measure` writes."""
    return cache_folder() / "costs.json"
