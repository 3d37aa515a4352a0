"""Which backend runs which cell: the table of backends, and the measured preferences of `auto`."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator, Sequence

import torch
from torch import Tensor

from throughtime.cells.base import Cell
from throughtime.recurrence.backend import Backend
from throughtime.registry import Registry

BACKENDS = Registry[Backend](
    "backend",
    "throughtime.backends",
    {
        "persistent": "throughtime.recurrence.persistent:BACKEND",
        "linear": "throughtime.recurrence.linear_scan:BACKEND",
        "native": "throughtime.recurrence.native:BACKEND",
        "fused": "throughtime.recurrence.fused:BACKEND",
        "associative": "throughtime.recurrence.associative:BACKEND",
        "reference": "throughtime.recurrence.backend:BACKEND",
    },
)
"""All backends, imported when they are first used. A new one is one file and one line here, placed before
every backend that is slower wherever both can run. `auto` uses these; others are used by name."""

GPU_ONLY = ("persistent", "linear")

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

MAX_CHOICES = 4096
"""Maximum number of choices that are remembered."""
_chosen: dict[Hashable, Backend] = {}
"""The choices made for GPUs: to make one takes the host longer than to launch a kernel."""


def choose_backend(
    cell: Cell,
    x: Tensor,
    lengths: Tensor | None,
    carry: Tensor | None,
    layers: int = 1,
    directions: int = 1,
) -> Backend:
    """Return the fastest backend that can run this call and whose fixed costs pay off for its steps.

    `layers` and `directions` say how many such cells run in one call. A kernel of ours that does not compile
    or start is passed over, with a warning.
    """
    if not x.is_cuda:
        # On a CPU nothing but `rank_backends` depends on training, and it asks itself.
        return _choose(cell, x, lengths, carry, False, layers, directions)[0]
    trains = _trains(cell, x)
    if lengths is not None:  # whether torch can pack a ragged batch depends on more than the shape
        return _choose(cell, x, lengths, carry, trains, layers, directions)[0]
    own = vars(cell)  # without the lookups of `nn.Module`, which are slow for what is not there
    key = (
        type(cell),
        own.get("activation"),
        own.get("reset"),
        cell.hidden_size,
        x.shape,
        x.dtype,
        torch._C._get_cudnn_allow_tf32(),  # `torch.backends.cudnn.allow_tf32` takes four times as long
        x.get_device(),
        carry is None,
        trains,
        is_recorded(),
        layers,
        directions,
    )
    found = _chosen.get(key)
    if found is None:
        found, settled = _choose(cell, x, lengths, carry, trains, layers, directions)
        if settled and not torch.cuda.is_current_stream_capturing():
            if len(_chosen) >= MAX_CHOICES:
                _chosen.clear()
            _chosen[key] = found
    return found


def forget() -> None:
    """Make every choice again, as after a new measurement."""
    _chosen.clear()


_expecting: list[None] = []
"""One entry for each block that expects graphs. All threads share it: a backward pass, which may run layers
again, has a thread of its own."""


@contextlib.contextmanager
def expecting_graphs() -> Iterator[None]:
    """Choose inside this block as while a CUDA graph is recorded, so that recording changes no result."""
    _expecting.append(None)
    try:
        yield
    finally:
        _expecting.pop()


def is_recorded() -> bool:
    """Whether what runs on the GPU now is recorded in a CUDA graph, or will be when it recurs."""
    return bool(_expecting) or torch.cuda.is_current_stream_capturing()


def _choose(
    cell: Cell,
    x: Tensor,
    lengths: Tensor | None,
    carry: Tensor | None,
    trains: bool,
    layers: int,
    directions: int,
) -> tuple[Backend, bool]:
    """Return a backend, and whether the choice is settled: a kernel of ours has been tried."""
    for name in rank_backends(cell, x, lengths):
        if not _pays(name, cell, x, lengths, carry, trains, layers, directions):
            continue
        backend = BACKENDS[name]
        if backend.refuses(cell, x, lengths, carry) is not None:
            continue
        if name not in GPU_ONLY or not x.is_cuda:
            return backend, True
        works = _works(backend, cell, x, carry, trains)
        if works is not False:
            return backend, works is True
    raise AssertionError("the reference refuses nothing")


def prefers_one_call(x: Tensor) -> bool:
    """Whether running all layers of a stack in one call is faster on this device than layer after layer."""
    return x.is_cuda


def choose_for_layers(
    layers: Sequence[Sequence[Cell]],
    x: Tensor,
    lengths: Tensor | None = None,
    carry: Tensor | None = None,
) -> Backend:
    """Return the backend for layers that `are_alike` accepts; `x` has the precision of the run."""
    # The top cell decides: where some cells are frozen and some are trained, those on top are trained.
    return choose_backend(layers[-1][-1], x, lengths, carry, len(layers), len(layers[0]))


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
    column = 4 * (not _trains(cell, x)) + 2 * (x.shape[1] == 1) + (lengths is not None)
    return sorted(BACKENDS.own, key=lambda name: speed[name][column] if name in speed else 0.0, reverse=True)


def _pays(
    name: str,
    cell: Cell,
    x: Tensor,
    lengths: Tensor | None,
    carry: Tensor | None,
    trains: bool,
    layers: int,
    directions: int,
) -> bool:
    """Whether a backend repays its fixed costs: as predicted on a GPU, as measured on a CPU."""
    device = x.device.type
    if name in GPU_ONLY:
        if device != "cuda":
            return False
        from throughtime.recurrence import comparison

        return comparison.is_faster(cell, x, lengths, carry, trains, layers, directions)
    if device != "cpu":
        return True
    if name == "associative":
        return x.shape[0] >= ASSOCIATIVE_FROM
    return x.shape[0] >= FEW or not (name == "fused" or (name == "native" and cell.equations == "lstm"))


def _works(backend: Backend, cell: Cell, x: Tensor, carry: Tensor | None, trains: bool) -> bool | None:
    from throughtime.recurrence import trials

    return trials.works(backend, cell, x, carry, trains)


def _trains(cell: Cell, x: Tensor) -> bool:
    """Whether a gradient will be needed."""
    if not torch.is_grad_enabled():
        return False
    return x.requires_grad or any(weight.requires_grad for weight in cell.weights().values())
