"""A few shapes for batches of many lengths: a GPU replays the update of a shape that it has seen before.

A batch of texts is as long as its longest text, so hardly two batches have the same shape. Padded to one of a
few shapes, they do. The shapes are chosen so that there is little padding: of all shapes that occur, the two
whose union adds the least are merged, again and again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from throughtime.data.batching.batches import Batch

Sizes = NDArray[np.int64]
"""Shapes, one in each row; a column for each axis."""

MERGED_AT_MOST = 256
"""Shapes that are compared with each other; if there are more, their sizes are rounded up first."""

MAX_FOUND = 4_096
"""Maximum number of sizes whose shape is remembered."""


@dataclass(frozen=True, eq=False)
class PaddedShapes:
    """A few shapes, the smallest first, and the names of their axes."""

    axes: tuple[str, ...]
    shapes: Sizes
    _found: dict[tuple[int, ...], tuple[int, ...] | None] = field(
        init=False, repr=False, default_factory=dict
    )

    @classmethod
    def choose(cls, batches: Sequence[Batch], most: int) -> PaddedShapes | None:
        """Return at most `most` shapes that hold all of these batches; None if their shapes are fixed."""
        if not batches or not batches[0].axes:
            return None
        axes = tuple(batches[0].sizes)
        sizes = np.array([tuple(batch.sizes.values()) for batch in batches], dtype=np.int64)
        for axis in batches[0].row_axes:
            sizes[:, axes.index(axis)] = round_rows(sizes[:, axes.index(axis)])
        distinct, counts = np.unique(sizes, axis=0, return_counts=True)
        tensors = [[axes.index(axis) for axis in names] for names in batches[0].axes.values()]

        def count_elements(shapes: Sizes) -> NDArray[np.int64]:
            return np.asarray(sum(shapes[..., names].prod(-1) for names in tensors))

        shapes = merge_shapes(distinct, counts, count_elements, most)
        for axis in batches[0].drawn_axes:
            shapes[:, axes.index(axis)] += leave_room(shapes, axes.index(axis))
        return cls(axes, shapes[np.argsort(count_elements(shapes), kind="stable")])

    def find(self, batch: Batch) -> Mapping[str, int] | None:
        """Return the sizes of the smallest shape that holds the batch; None if none does."""
        size = self.find_sizes(tuple(batch.sizes.values()))
        return None if size is None else dict(zip(self.axes, size, strict=True))

    def find_sizes(self, sizes: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the smallest shape that holds a batch of these sizes; None if none does."""
        if sizes not in self._found:
            if len(self._found) >= MAX_FOUND:
                self._found.clear()
            fitting = np.flatnonzero(np.all(self.shapes >= sizes, axis=1))
            self._found[sizes] = tuple(self.shapes[fitting[0]].tolist()) if len(fitting) else None
        return self._found[sizes]


def round_rows(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Round numbers of rows up to the largest, or to 3/4, 1/2, 3/8, ... of it.

    Kernels are compiled for each number of rows, which takes a second. Rounding leaves few numbers, and adds
    at most half of the rows.

    >>> round_rows(np.array([64, 63, 40, 30, 8]))
    array([64, 64, 48, 32,  8])
    """
    halves = float(numbers.max()) / 2.0 ** np.arange(64)
    grid = np.unique(np.ceil(np.concatenate([halves, 0.75 * halves])).astype(np.int64))
    return np.where(numbers > 0, grid[np.searchsorted(grid, numbers)], 0)


def leave_room(shapes: Sizes, axis: int) -> NDArray[np.int64]:
    """Return what to add to an axis whose sizes are drawn: five standard deviations, for the largest shapes.

    A batch that no shape holds is not replayed, and takes many times as long. Those that exceed a smaller
    shape are padded to a larger one.

    >>> leave_room(np.array([[10, 64, 100], [20, 64, 225], [15, 64, 121]]), 2).tolist()
    [0, 75, 0]
    """
    larger = np.all(shapes[:, None] <= shapes, axis=2).sum(axis=1) > 1  # some other shape holds it
    return np.where(larger, 0, np.ceil(5 * np.sqrt(shapes[:, axis]))).astype(np.int64)


def merge_shapes(
    shapes: Sizes, counts: NDArray[np.int64], cost: Callable[[Sizes], NDArray[np.int64]], most: int
) -> Sizes:
    """Merge shapes, each of which occurs `counts` times, until at most `most` are left.

    A merged shape holds both, and the two for which that adds the least to the cost of all are merged first.

    >>> merge_shapes(np.array([[4], [5], [9], [11]]), np.array([1, 9, 3, 3]), lambda one: one[..., 0], 2)
    array([[ 5],
           [11]])
    """
    shapes, counts = _round_up(shapes, counts)
    totals = cost(shapes) * counts

    def compare(number: int) -> NDArray[np.float64]:
        """Return the cost that merging one shape with each of the others adds."""
        together = cost(np.maximum(shapes[number], shapes)) * (counts[number] + counts)
        added = np.where(counts > 0, together - totals[number] - totals, math.inf)
        added[number] = math.inf
        return added

    added = np.stack([compare(number) for number in range(len(shapes))])
    for _ in range(len(shapes) - most):
        kept, gone = divmod(int(added.argmin()), len(shapes))
        shapes[kept] = np.maximum(shapes[kept], shapes[gone])
        counts[kept], counts[gone] = counts[kept] + counts[gone], 0
        totals = cost(shapes) * counts
        added[gone] = added[:, gone] = math.inf
        added[kept] = added[:, kept] = compare(kept)
    return shapes[counts > 0]


def _round_up(shapes: Sizes, counts: NDArray[np.int64]) -> tuple[Sizes, NDArray[np.int64]]:
    """Return distinct shapes and the number of times each occurs; round sizes up if there are too many."""
    unit = 1
    while True:
        distinct, which = np.unique(-(-shapes // unit) * unit, axis=0, return_inverse=True)
        if len(distinct) <= MERGED_AT_MOST:
            return distinct, np.bincount(which.ravel(), weights=counts).astype(np.int64)
        unit *= 2
