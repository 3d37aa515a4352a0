"""The gates of one step of a GRU or an LSTM on an NVIDIA GPU, without gradients, as a search needs them.

torch has such a kernel, but it wants both products in the precision of the state, and a bias added before.
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import linear

from throughtime.gpu.elements import KINDS, ElementKind

if TYPE_CHECKING:
    from throughtime.cells.base import Cell, State
    from throughtime.gpu import driver
    from throughtime.recurrence.steps import AlikeRows


FILES = ("primitives.cuh", "elements.cuh", "cell.cu")
WARPS = 4


class _CellArguments(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("from_input", "from_state", "bias", "before")),
        *((name, ctypes.c_void_p) for name in ("memory_before", "after", "memory_after")),
        *((name, ctypes.c_longlong) for name in ("rows", "units")),
    ]


def step_cell(cell: Cell, x: Tensor, state: State, alike: AlikeRows | None) -> State | None:
    """Compute one whole step with our kernel or torch's, which have no gradients."""
    if not x.is_cuda or torch.is_grad_enabled():
        return None
    if cell.equations == "lstm":
        return _step_lstm(cell, x, state)
    if cell.equations == "gru" and vars(cell)["reset"] == "after":
        return _step_gru(cell, x, state)
    return None


def _step_gru(cell: Cell, x: Tensor, state: State) -> State:
    (h,), w = state, cell.weights()
    from_state, from_input = linear(h, w["weight_hh"]), cell.project(x)
    if (after := compute_next(from_input, from_state, state, w["bias_hn"])) is not None:
        return after
    from_state, from_input = from_state.to(h.dtype), from_input.to(h.dtype)
    from_state[:, 2 * cell.hidden_size :] += w["bias_hn"]
    with torch.autocast("cuda", enabled=False):  # which would round the state
        return (torch.ops.aten._thnn_fused_gru_cell(from_input, from_state, h)[0],)


def _step_lstm(cell: Cell, x: Tensor, state: State) -> State:
    h, c = state
    from_state, from_input = linear(h, cell.weights()["weight_hh"]), cell.project(x)
    if (after := compute_next(from_input, from_state, state)) is not None:
        return after
    from_state, from_input = from_state.to(c.dtype), from_input.to(c.dtype)
    with torch.autocast("cuda", enabled=False):  # which would round the state
        h, c, _ = torch.ops.aten._thnn_fused_lstm_cell(from_input, from_state, c)
    return h, c


def compute_next(
    from_input: Tensor, from_state: Tensor, state: State, bias: Tensor | None = None
) -> State | None:
    """Return the next state of a GRU (h) or an LSTM (h, c), in float32; None if the kernel does not fit.

    It is computed from W_ih x + b and W_hh h, which are of one type and may have 16 bits: [B, 3H], where
    W_hn h still lacks its `bias` [H], or [B, 4H].
    """
    if torch._C._are_functorch_transforms_active():
        return None
    kind, units = KINDS.get(from_input.dtype), state[0].shape[1]
    exact = [*state, *([] if bias is None else [bias])]
    if kind is None or from_state.dtype != from_input.dtype or units % 2 or not len(from_input):
        return None
    if any(part.dtype != torch.float32 or not part.is_contiguous() for part in exact):
        return None
    if not (from_input.is_contiguous() and from_state.is_contiguous()):
        return None
    kernel = _prepare_kernel(kind, len(state) == 2, from_input.get_device())
    if kernel is None:
        return None
    after = tuple(map(torch.empty_like, state))
    ends = ((part.data_ptr(), *(one.data_ptr() for one in rest), 0)[:2] for part, *rest in (state, after))
    tensors = from_input.data_ptr(), from_state.data_ptr(), 0 if bias is None else bias.data_ptr()
    rows = len(state[0])
    arguments = _CellArguments(*tensors, *(address for end in ends for address in end), rows, units)
    kernel(-(-rows * units // (64 * WARPS)), arguments)
    return after


@functools.cache
def _prepare_kernel(kind: ElementKind, lstm: bool, device: int) -> driver.LaunchKernel | None:
    from throughtime.gpu import driver

    if driver.unavailable(device) is not None:
        return None
    found: list[driver.LaunchKernel] = []
    constants = {"KIND": kind, "WARPS": WARPS, "LSTM": int(lstm)}
    driver.try_build(
        lambda: found.append(driver.build("cell", FILES, constants, device)),
        "cells step without their kernel",
    )
    return found[0] if found else None
