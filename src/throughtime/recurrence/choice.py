"""Which backend serves which cell: the table of backends, and the measured preferences of `auto`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from throughtime.cells.base import Cell
from throughtime.cells.elman import RNN
from throughtime.cells.gru import GRU
from throughtime.cells.lstm import LSTM
from throughtime.recurrence import costs
from throughtime.recurrence.associative import PAYS_FROM, Associative
from throughtime.recurrence.backend import Backend, Reference
from throughtime.recurrence.fused import Fused
from throughtime.recurrence.linear_scan import LinearScan
from throughtime.recurrence.native import Native
from throughtime.recurrence.persistent import Persistent

BACKENDS: dict[str, Backend] = {
    backend.name: backend
    for backend in (Persistent(), LinearScan(), Native(), Fused(), Associative(), Reference())
}
"""A new backend is one file and one name here, before all that are slower wherever both serve."""

SPEED: dict[type[Cell], dict[str, tuple[float, ...]]] = {
    # training:  many rows   one row     inference:  many rows   one row
    #            full ragged full ragged             full ragged full ragged
    GRU: {
        "native": (1.00, 0.99, 1.01, 1.06, 0.99, 0.97, 0.98, 1.04),
        "fused": (1.19, 1.79, 3.04, 3.01, 0.94, 0.98, 1.00, 1.04),
    },
    RNN: {
        "native": (1.01, 0.98, 1.06, 1.31, 0.98, 0.91, 1.02, 1.08),
        "fused": (1.27, 1.83, 2.78, 4.41, 1.08, 1.08, 0.96, 1.01),
    },
}
"""Where several backends serve a cell on a CPU and none always wins: speed against torch's own module.

Geometric means over the shapes of `python -m benchmarks.recurrence_cpu --table`, which prints these lines.
"""


LAYERED = ("cuda",)
"""Devices on which all layers of a stack in one call are faster than layer after layer."""

FEW = 4
"""Fewer steps than this do not pay for rearranging an LSTM's weights or for `fused` laying out its rows."""


def choose_backend(
    cell: Cell, x: Tensor, lengths: Tensor | None, carry: Tensor | None, layers: int = 1
) -> Backend:
    """The first backend, fastest first, that does not refuse and whose fixed costs so many steps repay.

    `layers` is how many such cells torch would run side by side.
    """
    trains = x.device.type != "cpu" and _trains(cell, x)  # on a CPU only the ranking asks
    for backend in rank_backends(cell, x, lengths):
        pays = x.shape[0] >= _pays_from(backend, cell, x, trains, layers)
        if pays and backend.refuses(cell, x, lengths, carry) is None:
            return backend
    raise AssertionError("the reference refuses nothing")


def choose_for_layers(layers: Sequence[Sequence[Cell]], x: Tensor) -> Backend:
    """The backend for layers that are `alike`; x as precise as the run would be.

    Side by side torch runs all layers of a stack, each some steps behind the one below, or the two directions
    of a layer: the next layer then needs what both wrote.
    """
    side_by_side = len(layers) if len(layers[0]) == 1 else 2
    # Asked of the top cell: where some are frozen and some are trained, those on top are.
    return choose_backend(layers[-1][-1], x, None, None, side_by_side)


def rank_backends(cell: Cell, x: Tensor, lengths: Tensor | None) -> list[Backend]:
    """All backends, the fastest for such a call first, whether they serve it or not.

    >>> cell, x = GRU(4, 8), torch.zeros(5, 3, 4)
    >>> [backend.name for backend in rank_backends(cell, x, None)]
    ['fused', 'native', 'persistent', 'linear', 'associative', 'reference']
    """
    speed = SPEED.get(type(cell)) if x.device.type == "cpu" else None
    if speed is None:
        return list(BACKENDS.values())
    column = 4 * (not _trains(cell, x)) + 2 * (x.shape[1] == 1) + (lengths is not None)
    return sorted(
        BACKENDS.values(),
        key=lambda backend: speed[backend.name][column] if backend.name in speed else 0.0,
        reverse=True,
    )


def _pays_from(backend: Backend, cell: Cell, x: Tensor, trains: bool, layers: int) -> int:
    """From how many steps on a backend is worth its fixed costs: measured on a CPU with 1 to 8 steps."""
    if x.device.type != "cpu":
        return costs.pays_from(backend.name, cell, x, trains, layers)
    if backend.name == "associative":
        return PAYS_FROM
    return FEW if backend.name == "fused" or (backend.name == "native" and isinstance(cell, LSTM)) else 0


def _trains(cell: Cell, x: Tensor) -> bool:
    """Whether a gradient will be asked for."""
    return torch.is_grad_enabled() and (
        x.requires_grad or any(weight.requires_grad for weight in cell.weights().values())
    )
