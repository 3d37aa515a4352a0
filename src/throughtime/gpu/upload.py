"""Small copies from pinned memory to an NVIDIA GPU by a kernel, which starts without waking a copy engine."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections import deque
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from throughtime.gpu import driver

FILES = ("primitives.cuh", "upload.cu")
WARPS = 4
VECTOR = 16
"""Number of bytes that a thread copies."""
MAX_BYTES = 2**20
"""Maximum size of a copy; for a larger one, the time to wake a copy engine does not matter."""
TOGETHER = 16
"""Number of copies that share an event, which takes the host as long as a copy."""


class _Upload(ctypes.Structure):
    _fields_ = [("source", ctypes.c_void_p), ("to", ctypes.c_void_p), ("vectors", ctypes.c_longlong)]


def can_upload(memory: Tensor) -> bool:
    """Whether `upload` can copy from this memory: it is pinned, on a boundary of 16 bytes, and small."""
    size = memory.nbytes
    return size <= MAX_BYTES and not (size | memory.data_ptr()) % VECTOR and memory.is_pinned()


def upload(into: Tensor, memory: Tensor) -> None:
    """Copy bytes into a tensor on a GPU; the memory must not change until the current stream has done it."""
    vectors = memory.nbytes // VECTOR
    arguments = _Upload(memory.data_ptr(), into.data_ptr(), vectors)
    _prepare_kernel(into.get_device())(-(-vectors // (32 * WARPS)), arguments)


class Uploads:
    """Copies from pinned memory, and keeps it until the GPU has read it.

    torch gives pinned memory to its next user as soon as nobody refers to it. It waits for its own copies
    only: it does not know about those of a kernel.
    """

    def __init__(self) -> None:
        self._device: torch.device | None = None
        self._latest: list[Tensor] = []
        self._marked: deque[tuple[torch.cuda.Event, list[Tensor]]] = deque()

    def copy(self, into: Tensor, memory: Tensor) -> None:
        """Copy bytes into a tensor on a GPU, in the order of the current stream; by torch if need be."""
        if not (is_available(into.get_device()) and can_upload(memory)):
            into.copy_(memory, non_blocking=True)
            return
        upload(into, memory)
        self._device = into.device
        self._latest.append(memory)
        if len(self._latest) == TOGETHER:
            event = torch.cuda.Event()
            event.record()
            self._marked.append((event, self._latest))
            self._latest = []
            while self._marked and self._marked[0][0].query():
                self._marked.popleft()

    def __del__(self) -> None:
        """Wait for the copies that the GPU has not begun."""
        if self._latest or self._marked:
            with contextlib.suppress(RuntimeError):  # a GPU that has failed reads nothing any more
                torch.cuda.synchronize(self._device)


@functools.cache
def is_available(device: int) -> bool:
    """Whether the kernel compiles for a GPU."""
    from throughtime.gpu import driver

    if driver.unavailable(device) is not None:
        return False
    return driver.try_build(lambda: _prepare_kernel(device), "batches are copied without a GPU kernel")


@functools.cache
def _prepare_kernel(device: int) -> driver.LaunchKernel:
    from throughtime.gpu import driver

    return driver.build("upload", FILES, {"WARPS": WARPS}, device)
