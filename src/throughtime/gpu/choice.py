"""Which backend runs a call on a GPU: ours where they are predicted to be faster and their kernels work."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator

import torch
from torch import Tensor

from throughtime.cells.base import Cell
from throughtime.recurrence.backend import Backend
from throughtime.recurrence.choice import BACKENDS, GPU_ONLY, choose_portable_backend, needs_gradient

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
    """Return the fastest backend for a call on a GPU.

    A kernel of ours that does not compile or start is passed over, with a warning.
    """
    trains = needs_gradient(cell, x)
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
    for name in GPU_ONLY:
        if not _pays(name, cell, x, lengths, carry, trains, layers, directions):
            continue
        backend = BACKENDS[name]
        if backend.refuses(cell, x, lengths, carry) is not None:
            continue
        works = _works(backend, cell, x, carry, trains)
        if works is not False:
            return backend, works is True
    return choose_portable_backend(cell, x, lengths, carry), True


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
    from throughtime.gpu import comparison

    return comparison.is_faster(cell, x, lengths, carry, trains, layers, directions)


def _works(backend: Backend, cell: Cell, x: Tensor, carry: Tensor | None, trains: bool) -> bool | None:
    from throughtime.gpu import trials

    return trials.works(backend, cell, x, carry, trains)
