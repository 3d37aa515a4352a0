"""Which backend runs which cell: the table of backends, and the measured preferences of `auto`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from throughtime.accelerate import GPU_BACKENDS, choose_gpu_backend
from throughtime.cells.base import Cell
from throughtime.recurrence.backend import Backend
from throughtime.registry import Registry

BACKENDS = Registry[Backend](
    "backend",
    "throughtime.backends",
    {
        **GPU_BACKENDS,
        "native": "throughtime.recurrence.native:BACKEND",
        "fused": "throughtime.recurrence.fused:BACKEND",
        "associative": "throughtime.recurrence.associative:BACKEND",
        "reference": "throughtime.recurrence.backend:BACKEND",
    },
)
"""All backends, imported when they are first used. A new one is one file and one line here, placed before
every backend that is slower wherever both can run. `auto` uses these; others are used by name."""

SPEED: dict[str, dict[str, tuple[float, ...]]] = {
    # training:  many rows   one row     inference:  many rows   one row
    #            full ragged full ragged             full ragged full ragged
    "gru": {
        "native": (1.00, 0.99, 1.01, 1.06, 0.99, 0.97, 0.98, 1.04),
        "fused": (1.19, 1.79, 3.04, 3.01, 0.94, 0.98, 1.00, 1.04),
    },
    "rnn": {
        "native": (1.01, 0.98, 1.06, 1.31, 0.98, 0.91, 1.02, 1.08),
        "fused": (1.27, 1.83, 2.78, 4.41, 1.08, 1.08, 0.96, 1.01),
    },
}
"""Speed relative to torch's own module, for cells that several backends run on a CPU and none always wins.

Geometric means over the shapes of `python -m benchmarks.recurrence_cpu --table`, which prints these lines.
"""

FEW = 4
"""With fewer steps, rearranging an LSTM's weights or sorting rows for `fused` costs more than it saves."""
ASSOCIATIVE_FROM = 8
"""With fewer steps, `reference` is faster than `associative` (measured on a CPU)."""


def choose_backend(cell: Cell, x: Tensor, lengths: Tensor | None, carry: Tensor | None) -> Backend:
    """Return the fastest backend that can run this call and whose fixed costs pay off for its steps."""
    return choose_for_layers([[cell]], x, lengths, carry)


def choose_for_layers(
    layers: Sequence[Sequence[Cell]],
    x: Tensor,
    lengths: Tensor | None = None,
    carry: Tensor | None = None,
) -> Backend:
    """Return the backend for layers that `are_alike` accepts; `x` has the precision of the run."""
    if x.is_cuda and (chosen := choose_gpu_backend(layers, x, lengths, carry)) is not None:
        return chosen
    return choose_portable_backend(layers[-1][-1], x, lengths, carry)


def choose_portable_backend(cell: Cell, x: Tensor, lengths: Tensor | None, carry: Tensor | None) -> Backend:
    """Return the fastest backend of those that do not need an NVIDIA GPU."""
    for name in rank_backends(cell, x, lengths):
        if name in GPU_BACKENDS or not _pays(name, cell, x):
            continue
        backend = BACKENDS[name]
        if backend.refuses(cell, x, lengths, carry) is None:
            return backend
    raise AssertionError("the reference refuses nothing")


def prefers_one_call(x: Tensor) -> bool:
    """Whether running all layers of a stack in one call is faster on this device than layer after layer."""
    return x.is_cuda


def are_alike(layers: Sequence[Sequence[Cell]]) -> bool:
    """Whether all cells are of one kind and size, as the layers of one module of torch's are.

    >>> from throughtime.cells import LSTM
    >>> are_alike([[LSTM(3, 4)], [LSTM(4, 4)]]), are_alike([[LSTM(3, 4)], [LSTM(4, 5)]])
    (True, False)
    """
    first, *others = (cell for layer in layers for cell in layer)
    return all(
        type(cell) is type(first) and getattr(cell, option, None) == getattr(first, option, None)
        for cell in others
        for option in ("hidden_size", "state_sizes", "activation", "reset")
    )


def rank_backends(cell: Cell, x: Tensor, lengths: Tensor | None) -> Sequence[str]:
    """Return the names of all backends, the fastest for such a call first, whether they can run it or not.

    >>> from throughtime.cells import GRU
    >>> cell, x = GRU(4, 8), torch.zeros(5, 3, 4)
    >>> rank_backends(cell, x, None)
    ['fused', 'native', 'persistent', 'linear', 'associative', 'reference']
    """
    speed = SPEED.get(cell.equations) if x.device.type == "cpu" else None
    if speed is None:
        return BACKENDS.own
    column = 4 * (not needs_gradient(cell, x)) + 2 * (x.shape[1] == 1) + (lengths is not None)
    return sorted(BACKENDS.own, key=lambda name: speed[name][column] if name in speed else 0.0, reverse=True)


def _pays(name: str, cell: Cell, x: Tensor) -> bool:
    """Whether a backend repays its fixed costs, as measured on a CPU."""
    if x.device.type != "cpu":
        return True
    if name == "associative":
        return x.shape[0] >= ASSOCIATIVE_FROM
    return x.shape[0] >= FEW or not (name == "fused" or (name == "native" and cell.equations == "lstm"))


def needs_gradient(cell: Cell, x: Tensor) -> bool:
    """Whether a gradient will be needed."""
    if not torch.is_grad_enabled():
        return False
    return x.requires_grad or any(weight.requires_grad for weight in cell.weights().values())
