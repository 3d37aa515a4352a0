"""Launches described once for a shape, and copies made together by one launch.

Each copy alone would cost the host more than the GPU, and so would describing a launch again at each call.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from throughtime.gpu.elements import ElementKind

if TYPE_CHECKING:
    from throughtime.gpu import driver


FILES = ("primitives.cuh", "elements.cuh", "moves.cu")
FEW, MAX_MOVES = 8, 36
"""Maximum number of copies of a small and of a large launch: the arguments of a kernel take 4 KB."""
TILE, WARPS, LANES = 64, 8, 32
FILLED = 1 << 15
"""Bytes that one block fills."""
UNWRITTEN = 0xFFFFFFFF
"""The word that marks memory as not written."""
NO_CONVERSION, FROM_FLOAT, TO_FLOAT = range(3)
"""Whether a copy of elements of 16 bits converts: as moves.cu numbers it."""


class At(NamedTuple):
    """An address that is known only at the call: an offset in bytes into the tensor of this number."""

    tensor: int
    offset: int = 0

    def behind(self, size: int) -> At:
        """Return the address this number of bytes behind it."""
        return At(self.tensor, self.offset + size)


Task = tuple[int, tuple[int | At, ...]]
"""One of several tasks of a launch: its number of blocks, and the fields that describe it."""


class Launch:
    """A launch whose arguments are known, except for the addresses of tensors."""

    def __init__(self, kernel: driver.LaunchKernel, blocks: int, arguments: Sequence[int | At]) -> None:
        self._kernel, self._blocks = kernel, blocks
        self._type = ctypes.c_longlong * len(arguments)
        self._known = bytes(self._type(*(0 if isinstance(one, At) else one for one in arguments)))
        self._open = [(at, *one) for at, one in enumerate(arguments) if isinstance(one, At)]

    def __call__(self, addresses: Sequence[int], stream: int | None = None) -> None:
        """Launch it with these addresses of all tensors; 0 for one that is not there."""
        arguments = self._type.from_buffer_copy(self._known)
        for at, tensor, offset in self._open:
            arguments[at] = addresses[tensor] + offset
        self._kernel(self._blocks, arguments, stream)

    def bind(self) -> Callable[[Sequence[int]], None]:
        """Return the same launch with memory of its own for the arguments: faster, but for one thread."""
        arguments = self._type.from_buffer_copy(self._known)
        start, numbers = self._kernel.bind(self._blocks, arguments), memoryview(arguments).cast("B").cast("q")

        def launch(addresses: Sequence[int]) -> None:
            for at, tensor, offset in self._open:
                numbers[at] = addresses[tensor] + offset
            start()

        return launch


class Matrix(NamedTuple):
    """A matrix in memory: where it begins, how many rows and columns it has, and how far apart rows lie."""

    at: At | int  # or its address, if that is known
    rows: int
    columns: int
    pitch: int


class Copies:
    """Collects copies of matrices on one GPU, to be made together and in any order.

    Their elements are of this kind; with a conversion, those of one side are float32. A matrix is padded with
    zeros where it has more rows or columns than what is copied into it, and cropped where it has fewer.
    """

    def __init__(self, kind: ElementKind, device: int) -> None:
        self.kind, self.device = kind, device
        self._all: list[Task] = []

    def mark_unwritten(self, to: At, size: int) -> None:
        """Mark this number of bytes, a multiple of 16, as not written yet."""
        self._all.append((-(-size // FILLED), (to, 0, size // 16, UNWRITTEN, *[0] * 9)))

    def clear(self, into: Matrix) -> None:
        """Set a matrix to zero."""
        self.copy(into, Matrix(into.at, 0, 0, 0))

    def copy(self, into: Matrix, source: Matrix, groups: int = 1, conversion: int = NO_CONVERSION) -> None:
        """Copy a matrix, or several that follow each other on both sides without a gap."""
        blocks = groups * -(-into.rows // TILE) * -(-into.columns // TILE)
        self._add(blocks, into, source, _find_steps(into, source), conversion)

    def add_up(
        self,
        into: Matrix,
        source: Matrix,
        parts: int,
        apart: int,
        groups: int = 1,
        conversion: int = NO_CONVERSION,
    ) -> None:
        """Copy the sum of this number of float32 matrices, which lie `apart` numbers from each other.

        With TO_FLOAT, the sum is float32 as well.
        """
        blocks = groups * -(-into.rows // WARPS) * -(-into.columns // LANES)
        self._add(blocks, into, source, _find_steps(into, source), conversion, parts, apart)

    def transpose(
        self,
        into: At,
        pitch: int,
        extent: int,
        source: Matrix,
        groups: int = 1,
        conversion: int = NO_CONVERSION,
    ) -> None:
        """Write rows as columns of `extent` numbers; those of the next group lie beside them.

        Both are padded with zeros to `extent`.
        """
        steps = extent, 1, pitch, source.rows * source.pitch, source.pitch
        blocks = groups * (-(-extent // TILE)) ** 2
        self._add(blocks, Matrix(into, extent, extent, 1), source, steps, conversion)

    def _add(
        self,
        blocks: int,
        into: Matrix,
        source: Matrix,
        steps: tuple[int, ...],
        conversion: int,
        parts: int = 0,
        apart: int = 0,
    ) -> None:
        given = min(source.rows, into.rows), min(source.columns, into.columns)
        fields: tuple[int | At, ...] = (
            into.at,
            source.at,
            into.rows,
            into.columns,
            *given,
            *steps,
            conversion | parts << 32,
            apart,
        )
        self._all.append((blocks, fields))

    def prepare(self) -> list[Launch]:
        """Return the launches that make all copies."""
        launches = []
        for first in range(0, len(self._all), MAX_MOVES):
            some = self._all[first : first + MAX_MOVES]
            most = FEW if len(some) <= FEW else MAX_MOVES
            arguments = list_tasks(some, most)
            launches.append(Launch(_prepare_kernel(self.kind, self.device, most), *arguments))
        return launches


def _find_steps(into: Matrix, source: Matrix) -> tuple[int, ...]:
    """Numbers from one group, row and column to the next, and from one group and row of the source."""
    return into.rows * into.pitch, into.pitch, 1, source.rows * source.pitch, source.pitch


def list_tasks(tasks: Sequence[Task], most: int) -> tuple[int, list[int | At]]:
    """Return the blocks of a launch, and its arguments: where those of each task end, then the fields of all.

    The kernel has room for this number of tasks, an even one: ends are integers of 32 bits.
    """
    ends = list(itertools.accumulate(blocks for blocks, _ in tasks))
    total, unused = ends[-1], most - len(tasks)
    ends += [total] * unused
    pairs = [low | high << 32 for low, high in zip(ends[::2], ends[1::2], strict=True)]
    return total, [
        *pairs,
        *(number for _, task in tasks for number in task),
        *[0] * unused * len(tasks[0][1]),
    ]


@functools.cache
def _prepare_kernel(kind: ElementKind, device: int, most: int) -> driver.LaunchKernel:
    from throughtime.gpu import driver

    shared = TILE * (TILE + 1) * 4
    constants = {"KIND": kind, "WARPS": WARPS, "MAX_MOVES": most, "FILLED": FILLED, "SHARED_BYTES": shared}
    return driver.build("moves", FILES, constants, device)
