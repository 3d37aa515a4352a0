"""Packed batches: several written at once, each padded to one of a few shapes as `Batch.pack` does it.

Most of the time that it takes to prepare a small batch goes into starting operations, which a GPU that trains
a small model has to wait for. Here each operation of numpy serves all batches of a chunk. A process may have
no row of a batch.

A GPU replays the update of a shape that it has seen before. A batch of texts is as long as its longest text,
so hardly two batches have the same shape; padded to one of a few shapes, they do. The shapes are chosen so
that there is little padding: of all shapes that occur, the two whose union adds the least are merged, again
and again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from throughtime.data.batching.batch import HEADER, Batch, Layout, TensorKind
from throughtime.data.batching.buckets import RaggedIds

Numbers = NDArray[np.int64]
WORD = 8
"""Bytes of a number: all tensors of these batches are int64."""


class Positions(NamedTuple):
    """All positions of some ragged columns: the lengths of the columns, and the step of each position."""

    lengths: Numbers
    step: Numbers

    @classmethod
    def number(cls, lengths: Numbers) -> Positions:
        """Number the positions of columns of these lengths."""
        return cls(lengths, np.arange(lengths.sum()) - np.repeat(find_starts(lengths), lengths))

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the value of its column for each position: in a third of the time of an index."""
        return np.repeat(values, self.lengths)

    def take(self, ragged: RaggedIds, rows: Numbers) -> Numbers:
        """Return the ids of all positions of some rows; numpy writes numbers of another type slowly."""
        return np.asarray(ragged.flat).take(self.spread(ragged.offsets[rows]) + self.step).astype(np.int64)


def find_starts(sizes: Numbers) -> Numbers:
    """Return where each of some parts of these sizes begins, if they lie one after another.

    >>> find_starts(np.array([3, 1, 4]))
    array([0, 3, 4])
    """
    return np.asarray(np.cumsum(sizes) - sizes)


class BatchColumns(NamedTuple):
    """Columns of several batches, one after another: the batch of each, and its number there."""

    batch: Numbers
    column: Numbers

    @classmethod
    def number(cls, counts: Numbers) -> BatchColumns:
        """Number the columns of batches with these numbers of columns."""
        batch = np.repeat(np.arange(len(counts)), counts)
        return cls(batch, np.arange(len(batch)) - np.repeat(find_starts(counts), counts))

    def belong_to(self, rank: int, world_size: int) -> NDArray[np.bool_]:
        """Return which columns belong to a process: column i of a batch to that of rank i mod world_size."""
        return np.asarray(self.column % world_size == rank)


class BatchRows(NamedTuple):
    """Rows of several batches, one after another, and how many of them each batch has."""

    rows: Numbers
    counts: Numbers

    @classmethod
    def select(cls, plan: RaggedIds, indices: range) -> BatchRows:
        """Select the rows of some adjacent batches of a plan."""
        ends = plan.offsets[indices.start : indices.stop + 1]
        return cls(plan.flat[ends[0] : ends[-1]].astype(np.int64), np.diff(ends))

    def share(self, rank: int, world_size: int) -> BatchRows:
        """Return the rows of one process."""
        if world_size == 1:
            return self
        columns = BatchColumns.number(self.counts)
        mine = columns.belong_to(rank, world_size)
        return BatchRows(self.rows[mine], np.bincount(columns.batch[mine], minlength=len(self.counts)))


class BatchChunk:
    """The memory of several batches of one kind, into which their tensors are written.

    `sizes` has the size of each axis of each batch; they are padded to `shapes`. What is not written is the
    filling. `vectors` are the tensors that are not int64 or have further axes, with the sizes of these.
    """

    def __init__(
        self,
        kind: type[Batch],
        sizes: Mapping[str, Numbers],
        shapes: PaddedShapes | None,
        pin: bool,
        vectors: tuple[TensorKind, ...] = (),
    ) -> None:
        axes = tuple(dict.fromkeys(axis for names in kind.axes.values() for axis in names))
        exact = [*zip(*(sizes[axis].tolist() for axis in axes), strict=True)]
        padded = exact if shapes is None else [shapes.find_sizes(size) or size for size in exact]
        self._layouts = [_lay_out(cast(Any, kind), axes, size, vectors) for size in padded]
        self._kind, self._bytes = kind, [layout.size for layout in self._layouts]
        starts = find_starts(np.array(self._bytes))
        self._memory = torch.empty(sum(self._bytes), dtype=torch.uint8, pin_memory=pin)
        self.words: Numbers = self._memory.numpy().view(np.int64)
        begin = np.array([[*layout.starts.values()] for layout in self._layouts]) + starts[:, None]
        self._first, self._begin = starts, dict(zip(kind.axes, begin.T // WORD, strict=True))
        self._padded = dict(zip(axes, np.array(padded).T, strict=True))
        self.words.fill(0)
        for name, value in kind.fillings.items():
            self.fill(name, [value] * len(padded))

    def fill(self, name: str, values: Sequence[int]) -> None:
        """Fill a tensor of each batch with one number."""
        ends = self._begin[name] + math.prod(self._padded[axis] for axis in self._kind.axes[name])
        for begin, end, value in zip(self._begin[name].tolist(), ends.tolist(), values, strict=True):
            self.words[begin:end] = value

    def write(self, columns: BatchColumns, **tensors: NDArray[Any]) -> None:
        """Write one number of each column into tensors [columns], or [1, columns]."""
        for name, values in tensors.items():
            self.words[self._begin[name][columns.batch] + columns.column] = values

    def write_steps(
        self, columns: BatchColumns, at: Positions, tensors: Mapping[str, Numbers], layer: int = 0
    ) -> None:
        """Write the numbers of all positions of each column into tensors [steps, columns].

        Tensors [layers, steps, columns] are written one layer at a time.
        """
        for name, values in tensors.items():
            self.words[self.locate(name, columns, at, layer)] = values

    def write_vectors(self, columns: BatchColumns, name: str, values: NDArray[Any]) -> None:
        """Write one vector for each column into tensors [1, columns, width]."""
        whole, begins = self._memory.numpy(), self._begin[name] * WORD
        ends = np.searchsorted(columns.batch, np.arange(1, len(begins)))
        for begin, vectors in zip(begins.tolist(), np.split(values, ends), strict=True):
            np.ndarray(vectors.shape, values.dtype, whole, begin)[:] = vectors

    def locate(self, name: str, columns: BatchColumns, at: Positions, layer: int = 0) -> Numbers:
        """Return where among the `words` all positions of each column of tensors [steps, columns] are."""
        *_, steps, rows = self._kind.axes[name]
        width = self._padded[rows][columns.batch]
        top = self._begin[name][columns.batch] + columns.column
        top += layer * self._padded[steps][columns.batch] * width
        return np.asarray(at.spread(top) + at.step * at.spread(width))

    def find_begin(self, name: str) -> Numbers:
        """Return the first of the `words` of a tensor of each batch."""
        return np.asarray(self._begin[name])

    def finish(self, counts: Numbers) -> list[Any]:
        """Return the batches, which have these counts."""
        self.words[self._first // WORD] = counts  # `write_header` fills in the rest
        memory = self._memory.numpy().data
        headers = [memory[begin : begin + HEADER] for begin in self._first.tolist()]
        pieces = zip(self._layouts, self._memory.split(self._bytes), counts.tolist(), headers, strict=True)
        return [self._kind.in_memory(*piece) for piece in pieces]


@functools.lru_cache(maxsize=4096)
def _lay_out(
    kind: type[Batch], axes: tuple[str, ...], sizes: tuple[int, ...], vectors: tuple[TensorKind, ...]
) -> Layout:
    """Return where the tensors of a batch of these sizes lie in its memory."""
    size = dict(zip(axes, sizes, strict=True))
    special = {name: (inner, dtype) for name, inner, dtype in vectors}
    tensors: list[TensorKind] = []
    for name, names in kind.axes.items():
        inner, dtype = special.get(name, ((), torch.int64))
        tensors.append((name, (*(size[axis] for axis in names), *inner), dtype))
    return Layout.place(tensors)


def sum_each(values: NDArray[Any], counts: Numbers) -> Numbers:
    """Return the sum of the values of each batch, which has `counts` of them.

    >>> sum_each(np.array([3, 1, 4]), np.array([2, 0, 1]))
    array([4, 0, 4])
    """
    sums, ends = np.append(0, np.cumsum(values)), np.cumsum(counts)
    return np.asarray(sums[ends] - sums[ends - counts])


def find_longest(lengths: Numbers, counts: Numbers) -> Numbers:
    """Return the largest length of each batch; 0 for a batch without any."""
    longest, full = np.zeros_like(counts), counts > 0
    longest[full] = np.maximum.reduceat(lengths, find_starts(counts)[full]) if full.any() else 0
    return longest


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
