"""The end of an update on an NVIDIA GPU in one launch: check that it is finite, count it, clip it."""

from __future__ import annotations

import ctypes
import functools
import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from throughtime.gpu import driver

FILES = ("primitives.cuh", "tally.cu")


class Counts(NamedTuple):
    """The counts of all updates, on the device; `tally.cu` says what each number is."""

    totals: Tensor
    gradients: Tensor
    updates: Tensor
    last_skip: Tensor
    skipped: Tensor
    rate_factor: Tensor
    stepped: Tensor
    stopped: Tensor
    clipping: Tensor

    @classmethod
    def start(cls, device: torch.device) -> Counts:
        """Count from zero."""
        return cls(
            totals=torch.zeros(2, dtype=torch.float64, device=device),
            gradients=torch.zeros(2, dtype=torch.float64, device=device),
            updates=torch.zeros((), dtype=torch.int64, device=device),
            last_skip=torch.full((), -1, dtype=torch.int64, device=device),
            skipped=torch.zeros(4, dtype=torch.int64, device=device),
            rate_factor=torch.ones((), device=device),
            stepped=torch.ones((), dtype=torch.bool, device=device),
            stopped=torch.zeros((), device=device),
            clipping=torch.ones((), device=device),
        )


class _Tally(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("total", "norms", "count", "rate")),
        *((name, ctypes.c_void_p) for name in (*Counts._fields, "stepping")),
        ("many", ctypes.c_longlong),
        ("clip", ctypes.c_float),
    ]


def count_update(
    counts: Counts,
    total: Tensor,
    norms: Tensor,
    targets: Tensor,
    clip: float | None,
    rate: Tensor,
    stepping: Tensor,
) -> None:
    """Add the loss of an update, the norm of its gradient and its number of targets; skip it if not finite.

    `norms` are those of the gradients of each weight, [N]. `rate`, times the factor that skipped updates have
    left, is written to `stepping`. All are tensors on the device: numbers in float32, the targets in int64.
    """
    given = total.to(torch.float32), norms.to(torch.float32), targets, rate
    addresses = [tensor.data_ptr() for tensor in (*given, *counts, stepping)]
    largest = math.inf if clip is None else clip
    _prepare_kernel(total.get_device())(1, _Tally(*addresses, len(norms), largest))


@functools.cache
def is_available(device: int) -> bool:
    """Whether the kernel compiles for a GPU."""
    from throughtime.gpu import driver

    if driver.unavailable(device) is not None:
        return False
    return driver.try_build(lambda: _prepare_kernel(device), "updates are counted without a GPU kernel")


@functools.cache
def _prepare_kernel(device: int) -> driver.LaunchKernel:
    from throughtime.gpu import driver

    return driver.build("tally", FILES, {"WARPS": 1}, device)
