"""Gradients of weights and biases: products over all rows of all steps, in one launch.

Such a product has a long inner dimension and a small result. torch gives each tile of the result to one
block, so that few multiprocessors are busy; `gradients.cu` cuts the inner dimension into parts, which the
closing copies add up.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from throughtime.gpu.batched_copies import At, Launch, Task, list_tasks
from throughtime.gpu.elements import ElementKind

if TYPE_CHECKING:
    from throughtime.gpu import driver


FILES = ("primitives.cuh", "elements.cuh", "gradients.cu")
FEW, MAX_TASKS = 8, 48
"""Maximum number of products of a small and of a large launch: the arguments of a kernel take 4 KB."""
TILE, STEP_BYTES, RING, WARPS = 64, 128, 3, 4
"""As gradients.cu has them: rows and columns of a tile, bytes of a column of a step, and steps in memory."""
MIN_PART_ROWS, BESIDE = 64, 3
"""Minimum number of rows of a part, and the blocks that each multiprocessor gets."""
RATES = {4: (0.0123, 0.0, 0.010, 3.5), 2: (0.0062, 0.0065, 0.002, 2.2)}
"""Microseconds on an H200, by the size of an element: of a row of a tile on a multiprocessor here, which the
cache limits (16 or 32 operations for each byte of it); of a tile of 16 bits that is first written in float32;
of a row in torch's products, if there is a multiprocessor for each tile, as measured; and of their launch."""


def count_tiles(rows: int, columns: int) -> int:
    """Return the number of blocks that the parts of a result need."""
    return -(-rows // TILE) * -(-columns // TILE)


def is_joined(kind: ElementKind, depth: int, tiles: int, multiprocessors: int) -> bool:
    """Return whether a product over so many rows is computed here: of few tiles, or with few rows.

    Otherwise torch's are faster, which have larger tiles; in 16 bits they cut the inner dimension, too.
    """
    own, tile, row, launch = RATES[kind.size]
    return tiles * (own * depth / multiprocessors + tile) < launch + row * depth


class JointProducts:
    """Collects products over the same number of rows, to be computed by one launch.

    Of each result there are `parts` in float32, which remain to be added up. `tiles` is how many all results
    have: the parts of all of them fill the GPU a few times, which bounds their memory, too.
    """

    def __init__(self, kind: ElementKind, device: int, depth: int, tiles: int, multiprocessors: int) -> None:
        self.kind, self.device, self.depth = kind, device, depth
        wanted = max(1, min(depth // MIN_PART_ROWS, BESIDE * multiprocessors // max(1, tiles)))
        step = STEP_BYTES // kind.size
        self.each = -(-depth // (wanted * step)) * step
        self.parts = -(-depth // self.each)
        self._all: list[Task] = []

    def multiply(self, left: tuple[At, int, int], right: tuple[At, int, int], into: At, apart: int) -> None:
        """Multiply the left matrix, transposed, by the right one.

        Both are an address, numbers from one row to the next, and a number of columns, a multiple of 8. The
        parts of the result lie `apart` numbers from each other.
        """
        (first, first_pitch, rows), (second, second_pitch, columns) = left, right
        blocks = self.parts * count_tiles(rows, columns)
        self._all.append((blocks, (first, second, into, rows, columns, first_pitch, second_pitch, apart)))

    def add_rows(self, matrix: tuple[At, int, int], into: At) -> None:
        """Add up the rows of a matrix; the parts of the sum follow each other."""
        first, pitch, columns = matrix
        blocks = self.parts * count_tiles(columns, 1)
        self._all.append((blocks, (first, 0, into, columns, 1, pitch, 0, columns)))

    def prepare(self) -> list[Launch]:
        """Return the launches that compute all products."""
        launches = []
        for begin in range(0, len(self._all), MAX_TASKS):
            some = self._all[begin : begin + MAX_TASKS]
            most = FEW if len(some) <= FEW else MAX_TASKS
            blocks, arguments = list_tasks(some, most)
            kernel = _prepare_kernel(self.kind, self.device, most)
            launches.append(Launch(kernel, blocks, [*arguments, self.depth, self.each]))
        return launches


@functools.cache
def _prepare_kernel(kind: ElementKind, device: int, most: int) -> driver.LaunchKernel:
    from throughtime.gpu import driver

    shared = 2 * RING * STEP_BYTES // kind.size * (TILE * kind.size + 32)
    constants = {"KIND": kind, "WARPS": WARPS, "MAX_TASKS": most, "SHARED_BYTES": shared}
    return driver.build("gradients", FILES, constants, device)
