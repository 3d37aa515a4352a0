"""Several batches prepared at once, each padded and packed as `Batch.pack` does it.

Most of the time that it takes to prepare a small batch goes into starting operations, which a GPU that trains
a small model has to wait for. Here each operation of numpy serves all batches of a chunk. A process may have
no row of a batch.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from throughtime.data.batching.batch import HEADER, Batch, Layout, TensorKind
from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.shapes import PaddedShapes

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
    kind: type[Batch],
    axes: tuple[str, ...],
    sizes: tuple[int, ...],
    vectors: tuple[TensorKind, ...],
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
