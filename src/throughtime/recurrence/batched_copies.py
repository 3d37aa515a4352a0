"""Copies made together by one launch: each alone would cost the host more than the GPU."""

from __future__ import annotations

import ctypes
import functools
from array import array
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from throughtime.kernels import driver


FILES = ("primitives.cuh", "moves.cu")
FEW, MOST, FIELDS = 8, 40, 12
"""Maximum number of copies of a small and of a large launch (the arguments of a kernel take 4 KB), and the
number of integers that describe one copy."""
TILE, WARPS = 64, 8
FILLED = 1 << 16
"""Bytes that one block marks as not written."""

_Arguments = {most: ctypes.c_longlong * (most * FIELDS) for most in (FEW, MOST)}
_NOTHING = [0] * (MOST * FIELDS)


class Moves:
    """Collects copies of matrices on one GPU, and makes them in any order, at the latest in `launch`.

    `element` is the size of an element in bytes. Rows of `size` numbers are *tight*; rows padded with zeros
    to `width` numbers are *wide*. The tensors that methods return have no content before `launch`.
    """

    def __init__(self, element: int, device: int) -> None:
        self.element, self.device = element, device
        self._numbers: list[int] = []
        self._blocks = 0
        self._read: list[Tensor] = []  # kept alive until they have been read

    def mark_unwritten(self, address: int, size: int) -> None:
        """Mark this number of bytes, a multiple of 16, as not written yet."""
        blocks = -(-size // FILLED)
        self._add(blocks, (blocks, address, 0, size // 16, 0, 0, 0, 0, 0, 0, 0, 0))

    def zero(self, into: Tensor, rows: int, width: int) -> None:
        """Set this number of rows to zero."""
        self._copy(into.data_ptr(), into, (rows, width), (0, 0), (width, width))

    def widen(self, tensor: Tensor, size: int, width: int, into: Tensor | None = None) -> Tensor:
        """Make rows of `size` numbers wide; the last dimension may hold several rows.

        Without `into`, a tensor that is wide already and aligned to 16 bytes is not copied.
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

    def tighten(self, tensor: Tensor, size: int, width: int) -> Tensor:
        """Make wide rows tight."""
        *others, last = tensor.shape
        into = tensor.new_empty(*others, last // width * size)
        rows = into.numel() // size
        self._copy(into.data_ptr(), tensor, (rows, size), (rows, width), (size, width))
        return into

    def widen_gates(self, weight: Tensor, size: int, width: int, columns: int) -> Tensor:
        """Make the rows of each gate and all columns wide: [G * size, C] -> [G * width, columns]."""
        many, given = weight.shape
        if size == width:
            return self.widen(weight, given, columns)
        weight, into = weight.contiguous(), weight.new_empty(many // size * width, columns)
        shapes = (width, columns), (size, given), (columns, given)
        self._copy(into.data_ptr(), weight, *shapes, groups=many // size)
        return into

    def tighten_gates(self, weight: Tensor, size: int, width: int, columns: int, first: int = 0) -> Tensor:
        """Make them tight; the gate at `first` becomes the first, those before it the last."""
        gates, given = len(weight) // width, weight.shape[1]
        into = weight.new_empty(gates * size, columns)
        shapes = (size, columns), (width, given), (columns, given)
        self._copy(into.data_ptr(), weight, *shapes, groups=gates - first, skipped=first * width)
        if first:
            behind = into.data_ptr() + (gates - first) * size * columns * self.element
            self._copy(behind, weight, *shapes, groups=first)
        return into

    def transpose(self, address: int, weight: Tensor, first: int, end: int, pitch: int) -> None:
        """Write these rows of a weight as columns at this address, in rows of `pitch` numbers."""
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
        source = tensor.data_ptr() + skipped * given_pitch * self.element
        steps = rows * pitch, pitch, column, given[0] * given_pitch, given_pitch
        self._add(blocks, (blocks, address, source, rows, columns, *given, *steps))
        self._read.append(tensor)

    def _add(self, blocks: int, numbers: tuple[int, ...]) -> None:
        if len(self._numbers) == MOST * FIELDS:
            self.launch()
        self._blocks += blocks
        self._numbers += numbers

    def launch(self) -> None:
        """Make the copies asked for since the last launch."""
        if not self._blocks:
            return
        most = FEW if len(self._numbers) <= FEW * FIELDS else MOST
        # ctypes alone takes thrice as long.
        numbers = array("q", self._numbers + _NOTHING[len(self._numbers) : most * FIELDS])
        _prepare_kernel(self.element, self.device, most)(self._blocks, _Arguments[most].from_buffer(numbers))
        self._blocks, self._numbers, self._read = 0, [], []


@functools.cache
def _prepare_kernel(element: int, device: int, most: int) -> driver.Kernel:
    from throughtime.kernels import driver

    shared = TILE * (TILE + 1) * element
    constants = {"ELEMENT": element, "WARPS": WARPS, "MOST": most, "FILLED": FILLED, "SHARED_BYTES": shared}
    return driver.build("moves", FILES, constants, device)
