"""Several tensors in one piece of memory, so that one copy moves all of them between a GPU and the host."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

BOUNDARY = 16
"""Bytes; each tensor begins at a multiple."""
Column = tuple[torch.dtype, int]
"""The type of some elements, and their number."""


def measure(columns: Sequence[Column]) -> int:
    """Return the number of bytes of all columns."""
    return sum(_round_up(count * dtype.itemsize) for dtype, count in columns)


def carve(buffer: Tensor, columns: Sequence[Column]) -> list[Tensor]:
    """Return the columns of a buffer of bytes [..., `measure(columns)`], each [..., its number of elements].

    >>> tokens, live = carve(torch.zeros(2, 48, dtype=torch.uint8), [(torch.long, 3), (torch.bool, 3)])
    >>> tokens.shape, live.shape, live.stride()
    (torch.Size([2, 3]), torch.Size([2, 3]), (48, 1))
    """
    found, start = [], 0
    for dtype, count in columns:
        size = count * dtype.itemsize
        found.append(buffer[..., start : start + size].view(dtype))
        start += _round_up(size)
    return found


def _round_up(size: int) -> int:
    return -(-size // BOUNDARY) * BOUNDARY


class Packed:
    """Tensors like these in one piece of memory of a device, which are copied from the host at once."""

    def __init__(self, like: Sequence[Tensor], device: torch.device) -> None:
        columns = [(one.dtype, one.numel()) for one in like]
        size = measure(columns)
        self._buffer = torch.zeros(size, dtype=torch.uint8, device=device)
        self._held = torch.zeros(size, dtype=torch.uint8, pin_memory=device.type == "cuda")
        self.parts, self._held_parts = (
            [part.view(one.shape) for part, one in zip(carve(buffer, columns), like, strict=True)]
            for buffer in (self._buffer, self._held)
        )

    def hold(self, parts: Sequence[Tensor]) -> None:
        """Keep tensors of the host for the next copy; the device must have done the one before."""
        for own, new in zip(self._held_parts, parts, strict=True):
            own.copy_(new)

    def send(self) -> None:
        """Copy what is held to the device; may be recorded."""
        self._buffer.copy_(self._held, non_blocking=True)
