"""Several batches prepared at once, each padded and packed as `Batch.pack` does it.

Most of the time that it takes to prepare a small batch goes into starting operations, which a GPU that trains
a small model has to wait for. Here each operation of numpy serves all batches of a chunk.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from throughtime.data.batching.batch import Batch, Layout
from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.shapes import PaddedShapes

Numbers = NDArray[np.int64]
WORD = 8
"""Bytes of a number: all tensors of these batches are int64."""


class BatchColumns(NamedTuple):
    """Columns of several batches, one after another: the batch of each, and its place there."""

    batch: Numbers
    place: Numbers

    @classmethod
    def number(cls, counts: Numbers) -> BatchColumns:
        """Number the columns of batches with these numbers of columns."""
        return cls(*_number_parts(counts))


class Positions(NamedTuple):
    """All positions of some ragged columns: the column of each, and its step."""

    column: Numbers
    step: Numbers

    @classmethod
    def number(cls, lengths: Numbers) -> Positions:
        """Number the positions of columns of these lengths."""
        return cls(*_number_parts(lengths))


def _number_parts(sizes: Numbers) -> tuple[Numbers, Numbers]:
    """Return for each item of parts of these sizes, one after another, its part and its place there."""
    part = np.repeat(np.arange(len(sizes)), sizes)
    return part, np.arange(len(part)) - find_starts(sizes)[part]


def find_starts(sizes: Numbers) -> Numbers:
    """Return where each of some parts of these sizes begins, if they lie one after another.

    >>> find_starts(np.array([3, 1, 4]))
    array([0, 3, 4])
    """
    return np.asarray(np.cumsum(sizes) - sizes)


class BatchChunk:
    """The memory of several batches of one kind, into which their tensors are written.

    `sizes` has the size of each axis of each batch; they are padded to `shapes`. What is not written is the
    filling.
    """

    def __init__(
        self, kind: type[Batch], sizes: Mapping[str, Numbers], shapes: PaddedShapes | None, pin: bool
    ) -> None:
        axes = tuple(dict.fromkeys(axis for own in kind.axes.values() for axis in own))
        given = [*zip(*(sizes[axis].tolist() for axis in axes), strict=True)]
        padded = given if shapes is None else [shapes.find_sizes(one) or one for one in given]
        self._layouts = [_lay_out(cast(Any, kind), axes, one) for one in padded]
        starts = np.cumsum([0, *(layout.size for layout in self._layouts)])
        self._memory = torch.empty(int(starts[-1]), dtype=torch.uint8, pin_memory=pin)
        self._words: Numbers = self._memory.numpy().view(np.int64)
        self._ends, self._kind = starts.tolist(), kind
        self._begin = {
            name: starts[:-1] // WORD + np.array([layout.starts[name] // WORD for layout in self._layouts])
            for name in kind.axes
        }
        self._padded = dict(zip(axes, np.array(padded).T, strict=True))
        self._words.fill(0)
        for name, value in kind.fillings.items():
            self.fill(name, [value] * len(padded))

    def fill(self, name: str, values: Sequence[int]) -> None:
        """Fill a tensor of each batch with one number."""
        ends = self._begin[name] + math.prod(self._padded[axis] for axis in self._kind.axes[name])
        for begin, end, value in zip(self._begin[name].tolist(), ends.tolist(), values, strict=True):
            self._words[begin:end] = value

    def write(self, name: str, values: NDArray[Any], columns: BatchColumns) -> None:
        """Write one number of each column into a tensor [columns], or [1, columns]."""
        self._words[self._begin[name][columns.batch] + columns.place] = values

    def write_steps(
        self, names: Sequence[str], values: Sequence[NDArray[Any]], columns: BatchColumns, at: Positions
    ) -> None:
        """Write the numbers of all positions of each column into tensors [steps, columns]."""
        width = self._padded[self._kind.axes[names[0]][1]]
        batch = columns.batch[at.column]
        within = at.step * width[batch] + columns.place[at.column]
        for name, own in zip(names, values, strict=True):
            self._words[self._begin[name][batch] + within] = own

    def find_width(self, axis: str) -> Numbers:
        """Return the padded size of an axis of each batch."""
        return np.asarray(self._padded[axis])

    def finish(self, counts: Iterable[int]) -> list[Any]:
        """Return the batches, which have these counts."""
        pieces = zip(self._layouts, self._ends[:-1], self._ends[1:], counts, strict=True)
        batches = []
        for layout, begin, end, count in pieces:
            batch = self._kind.in_memory(layout, self._memory[begin:end], count)
            batch.write_header(count, 0.0)
            batches.append(batch)
        return batches


@functools.lru_cache(maxsize=4096)
def _lay_out(kind: type[Batch], axes: tuple[str, ...], sizes: tuple[int, ...]) -> Layout:
    """Return where the tensors of a batch of these sizes lie in its memory."""
    size = dict(zip(axes, sizes, strict=True))
    return Layout.place(
        (name, tuple(size[axis] for axis in own), torch.int64) for name, own in kind.axes.items()
    )


def select_rows(plan: RaggedIds, indices: range) -> tuple[Numbers, Numbers]:
    """Return the rows of some adjacent batches of a plan, one after another, and their number in each."""
    ends = plan.offsets[indices.start : indices.stop + 1]
    return plan.flat[ends[0] : ends[-1]].astype(np.int64), np.diff(ends)


def find_longest(lengths: Numbers, counts: Numbers) -> Numbers:
    """Return the largest length of each batch; no batch is empty."""
    return np.asarray(np.maximum.reduceat(lengths, find_starts(counts)))


def take(ragged: RaggedIds, rows: Numbers, at: Positions) -> NDArray[Any]:
    """Return the ids of all positions of some rows."""
    return np.asarray(ragged.flat[ragged.offsets[rows][at.column] + at.step])
