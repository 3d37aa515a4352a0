"""Which backend serves which cell: the table of backends, and the measured preferences of `auto`."""

from __future__ import annotations

import torch
from torch import Tensor

from throughtime.cells.base import Cell
from throughtime.cells.elman import RNN
from throughtime.cells.gru import GRU
from throughtime.recurrence.associative import PAYS_FROM, Associative
from throughtime.recurrence.backend import Backend
from throughtime.recurrence.fused import Fused
from throughtime.recurrence.native import Native
from throughtime.recurrence.reference import Reference

BACKENDS: dict[str, Backend] = {
    backend.name: backend for backend in (Native(), Fused(), Associative(), Reference())
}
"""A new backend is one file and one name here, before all that are slower wherever both serve."""

SPEED: dict[type[Cell], dict[str, tuple[float, ...]]] = {
    # training:  many rows   one row     inference:  many rows   one row
    #            full ragged full ragged             full ragged full ragged
    GRU: {
        "native": (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
        "fused": (1.2, 1.6, 3.0, 3.3, 0.96, 0.99, 0.98, 1.0),
    },
    RNN: {
        "native": (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
        "fused": (1.2, 1.6, 2.7, 3.3, 0.96, 0.99, 0.98, 1.0),
    },
}
"""Where several backends serve a cell on a CPU and none always wins: speed against torch's own module.

Geometric means over the shapes of `python -m benchmarks.recurrence_cpu --table`, which prints these lines.
"""


def chosen(cell: Cell, x: Tensor, lengths: Tensor | None, carry: Tensor | None) -> Backend:
    """The first backend, fastest first, that does not refuse."""
    for backend in ranked(cell, x, lengths):
        few = backend.name == "associative" and x.shape[0] < PAYS_FROM
        if not few and backend.refuses(cell, x, lengths, carry) is None:
            return backend
    raise AssertionError("the reference refuses nothing")


def ranked(cell: Cell, x: Tensor, lengths: Tensor | None) -> list[Backend]:
    """All backends, the fastest for such a call first, whether they serve it or not.

    >>> cell, x = GRU(4, 8), torch.zeros(5, 3, 4)
    >>> [backend.name for backend in ranked(cell, x, None)]
    ['fused', 'native', 'associative', 'reference']
    """
    speed = SPEED.get(type(cell), {}) if x.device.type == "cpu" else {}
    column = 4 * (not _trains(cell, x)) + 2 * (x.shape[1] == 1) + (lengths is not None)
    return sorted(
        BACKENDS.values(),
        key=lambda backend: speed[backend.name][column] if backend.name in speed else 0.0,
        reverse=True,
    )


def _trains(cell: Cell, x: Tensor) -> bool:
    """Whether a gradient will be asked for."""
    return torch.is_grad_enabled() and (
        x.requires_grad or any(weight.requires_grad for weight in cell.weights().values())
    )
