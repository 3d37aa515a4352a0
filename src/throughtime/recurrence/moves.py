"""Copies that one launch makes together: each alone would cost the host more than it costs the GPU."""

from __future__ import annotations

import ctypes
import functools
from array import array

from torch import Tensor

from throughtime.recurrence.kernels import driver

FILES = ("primitives.cuh", "moves.cu")
MOST, FIELDS = 8, 12
"""Copies in one launch, and numbers that describe one."""
TILE, WARPS = 64, 8
FILLED = 1 << 16
"""Bytes that one block makes void."""

_Arguments = ctypes.c_longlong * (MOST * FIELDS)
_NOTHING = [0] * (MOST * FIELDS)


class Moves:
    """Copies of matrices whose elements have so many bytes, on one GPU, all made by `launch` in no order.

    Rows of `size` numbers are tight, those padded with zeros to `width` numbers are wide. What a method
    returns has no contents before `launch`.
    """

    def __init__(self, element: int, device: int) -> None:
        self.element, self.device = element, device
        self._numbers: list[int] = []
        self._blocks = 0
        self._read: list[Tensor] = []  # kept alive until they have been

    def void(self, address: int, size: int) -> None:
        """So many bytes, a multiple of 16, say that nothing has been written there yet."""
        blocks = -(-size // FILLED)
        self._blocks += blocks
        self._numbers += (blocks, address, 0, size // 16, 0, 0, 0, 0, 0, 0, 0, 0)

    def wide(self, tensor: Tensor, size: int, width: int, into: Tensor | None = None) -> Tensor:
        """Rows of `size` numbers, of which the last dimension may hold several, made wide.

        Without `into` a tensor that lacks nothing and begins on a boundary of 16 bytes is not copied.
        """
        tensor = tensor.contiguous()
        if into is None:
            if size == width and tensor.data_ptr() % 16 == 0:
                return tensor
            *others, last = tensor.shape
            into = tensor.new_empty(*others, last // size * width)
        elif into.dtype is not tensor.dtype:
            tensor = tensor.to(into.dtype)
        rows = tensor.numel() // size
        self._copy(into.data_ptr(), tensor, (rows, width), (rows, size), (width, size))
        return into

    def tight(self, tensor: Tensor, size: int, width: int) -> Tensor:
        """The way back."""
        *others, last = tensor.shape
        into = tensor.new_empty(*others, last // width * size)
        rows = into.numel() // size
        self._copy(into.data_ptr(), tensor, (rows, size), (rows, width), (size, width))
        return into

    def wide_gates(self, weight: Tensor, size: int, width: int, columns: int) -> Tensor:
        """Each gate's rows, and all columns: [G * size, C] -> [G * width, columns]."""
        many, given = weight.shape
        if size == width:
            return self.wide(weight, given, columns)
        weight, into = weight.contiguous(), weight.new_empty(many // size * width, columns)
        shapes = (width, columns), (size, given), (columns, given)
        self._copy(into.data_ptr(), weight, *shapes, groups=many // size)
        return into

    def tight_gates(self, weight: Tensor, size: int, width: int, columns: int, first: int = 0) -> Tensor:
        """The way back; the gate at `first` becomes the first, those before it the last."""
        gates, given = len(weight) // width, weight.shape[1]
        into = weight.new_empty(gates * size, columns)
        shapes = (size, columns), (width, given), (columns, given)
        self._copy(into.data_ptr(), weight, *shapes, groups=gates - first, skipped=first * width)
        if first:
            behind = into.data_ptr() + (gates - first) * size * columns * self.element
            self._copy(behind, weight, *shapes, groups=first)
        return into

    def turned(self, address: int, weight: Tensor, first: int, end: int, pitch: int) -> None:
        """These rows of a weight become columns at this address, in rows of `pitch` numbers."""
        shape = (end - first, weight.shape[1])
        self._copy(address, weight, shape, shape, (1, shape[1]), column=pitch, skipped=first)

    def _copy(
        self,
        address: int,
        tensor: Tensor,
        shape: tuple[int, int],
        given: tuple[int, int],
        pitches: tuple[int, int],
        *,
        groups: int = 1,
        column: int = 1,
        skipped: int = 0,
    ) -> None:
        """Rows and columns to write in each group, those to read, and numbers from one row to the next."""
        (rows, columns), (pitch, given_pitch) = shape, pitches
        blocks = groups * -(-rows // TILE) * -(-columns // TILE)
        self._blocks += blocks
        self._read.append(tensor)
        source = tensor.data_ptr() + skipped * given_pitch * self.element
        self._numbers += (blocks, address, source, rows, columns, *given)
        self._numbers += (rows * pitch, pitch, column, given[0] * given_pitch, given_pitch)

    def launch(self) -> None:
        """Make the copies asked for since the last launch."""
        if not self._blocks:
            return
        assert len(self._numbers) <= MOST * FIELDS
        numbers = array(
            "q", self._numbers + _NOTHING[len(self._numbers) :]
        )  # ctypes alone takes thrice as long
        _prepared(self.element, self.device)(self._blocks, _Arguments.from_buffer(numbers))
        self._blocks, self._numbers, self._read = 0, [], []


@functools.cache
def _prepared(element: int, device: int) -> driver.Kernel:
    shared = TILE * (TILE + 1) * element
    constants = {"ELEMENT": element, "WARPS": WARPS, "MOST": MOST, "FILLED": FILLED, "SHARED_BYTES": shared}
    return driver.build("moves", FILES, constants, device)
