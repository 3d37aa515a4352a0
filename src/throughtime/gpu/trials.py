"""Whether the kernels of a backend compile and start on a GPU: each is tried before it is relied on."""

from __future__ import annotations

import warnings
from collections.abc import Hashable

import torch
from torch import Tensor

from throughtime.cells.base import Cell
from throughtime.errors import ThroughtimeError, ThroughtimeWarning, first_line
from throughtime.recurrence.backend import Backend

_found: dict[Hashable, bool] = {}
_reported: set[str] = set()


def works(backend: Backend, cell: Cell, x: Tensor, carry: Tensor | None, trains: bool) -> bool | None:
    """Return whether one step of such a call runs, forward and, for training, backward; None if unknown.

    Kernels are compiled for a cell, its size, the number of rows and the precision; each combination is tried
    once. The reason for a failure is reported once, as a warning. While a CUDA graph is recorded nothing is
    tried, as the trial would be recorded too.
    """
    own = vars(cell)  # without the lookups of `nn.Module`, which are slow for what is not there
    variant = own.get("activation") or own.get("reset", "")
    size = (cell.equations, variant, cell.hidden_size, x.shape[1])
    precision = x.dtype, torch.backends.cudnn.allow_tf32
    key = (backend.name, x.device, *size, *precision, carry is None, trains)
    found = _found.get(key)
    if found is not None:
        return found
    if torch.cuda.is_current_stream_capturing():
        return None
    try:
        _run_one_step(backend, cell, x, carry, trains)
    except torch.OutOfMemoryError:  # it says nothing about the kernels
        return None
    except (ThroughtimeError, RuntimeError) as error:
        _report(f"backend {backend.name!r} cannot run {type(cell).__name__} here", error)
        _found[key] = False
    else:
        _found[key] = True
    return _found[key]


def forget() -> None:
    """Try every kernel again, and report its failure again."""
    _found.clear()
    _reported.clear()


def _run_one_step(backend: Backend, cell: Cell, x: Tensor, carry: Tensor | None, trains: bool) -> None:
    with torch.inference_mode(False), torch.set_grad_enabled(trains):
        # Under autocast the weights may have another type than x, in which the kernels will compute.
        weights = {name: weight.detach().to(x.dtype) for name, weight in cell.weights().items()}
        shape = 1, x.shape[1], cell.input_size  # of the top layer, whose input is not x
        first = torch.zeros(shape, dtype=x.dtype, device=x.device, requires_grad=trains)
        state = tuple(first.new_zeros(x.shape[1], size) for size in cell.state_sizes)
        factors = None if carry is None else first.new_ones(1, x.shape[1])
        with cell.replacing(weights):
            outputs, _ = backend.run(cell, first, state, None, factors)
        if trains:
            torch.autograd.grad(outputs, first, torch.zeros_like(outputs))


def _report(problem: str, error: Exception) -> None:
    reason = first_line(error)
    if reason in _reported:
        return
    _reported.add(reason)
    warnings.warn(f"{problem}, so `auto` uses another one: {reason}", ThroughtimeWarning, stacklevel=2)
