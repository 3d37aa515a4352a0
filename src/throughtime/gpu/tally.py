"""The end of an update on an NVIDIA GPU in one launch: check that it is finite, count it, clip it."""

from __future__ import annotations

import ctypes
import functools
import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from throughtime.fit.tally import Counts, Tally

if TYPE_CHECKING:
    from throughtime.gpu import driver

FILES = ("primitives.cuh", "tally.cu")


class UpdateEnd(NamedTuple):
    """What the last steps of an update need to know, on the device."""

    finite: Tensor  # whether it is
    stopped: Tensor  # whether it is not, as a number: 0 or 1
    clipping: Tensor  # the factor of its gradient


class RecordedTally(Tally):
    """Counts updates with many operations, as every tally does, or with one kernel."""

    def __init__(self, device: torch.device, clip: float | None = None) -> None:
        super().__init__(device, clip)
        self._stopped, self._clipping = torch.zeros((), device=device), torch.ones((), device=device)

    def add_at_once(
        self, total: Tensor, norms: Tensor, targets: Tensor, rate: Tensor, stepping: Tensor
    ) -> UpdateEnd:
        """Do the same as `add` with one kernel, given the norms of all weights' gradients [N].

        If the update is not finite, it is skipped. `rate` times `rate_factor` is written to `stepping`.
        All are tensors on the device: numbers in float32, the targets in int64.
        """
        inputs = total.to(torch.float32), norms.to(torch.float32), targets, rate
        outputs = *self.counts, self._stopped, self._clipping, stepping
        addresses = [tensor.data_ptr() for tensor in (*inputs, *outputs)]
        largest = math.inf if self.clip is None else self.clip
        _prepare_kernel(total.get_device())(1, _Tally(*addresses, len(norms), largest))
        return UpdateEnd(self.stepped, self._stopped, self._clipping)


class _Tally(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("total", "norms", "count", "rate")),
        *((name, ctypes.c_void_p) for name in (*Counts._fields, "stopped", "clipping", "stepping")),
        ("many", ctypes.c_longlong),
        ("clip", ctypes.c_float),
    ]


@functools.cache
def is_available(device: int) -> bool:
    """Return whether the kernel compiles for a GPU."""
    from throughtime.gpu import driver

    if driver.unavailable(device) is not None:
        return False
    return driver.try_build(lambda: _prepare_kernel(device), "updates are counted without a GPU kernel")


@functools.cache
def _prepare_kernel(device: int) -> driver.LaunchKernel:
    from throughtime.gpu import driver

    return driver.build("tally", FILES, {"WARPS": 1}, device)
