"""Several batches prepared at once, each padded and packed as `Batch.pack` does it.

Most of the time that it takes to prepare a small batch goes into starting operations, which a GPU that trains
a small model has to wait for. Here each operation of numpy serves all batches of a chunk.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from throughtime.data.batching.batch import HEADER, Batch, Layout
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
        batch = np.repeat(np.arange(len(counts)), counts)
        return cls(batch, np.arange(len(batch)) - np.repeat(find_starts(counts), counts))


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
            self.words[self._begin[name][columns.batch] + columns.place] = values

    def write_steps(self, columns: BatchColumns, at: Positions, **tensors: Numbers) -> None:
        """Write the numbers of all positions of each column into tensors [steps, columns]."""
        for name, values in tensors.items():
            self.words[self.locate(name, columns, at)] = values

    def locate(self, name: str, columns: BatchColumns, at: Positions) -> Numbers:
        """Return the places among the `words` of all positions of each column of tensors [steps, columns]."""
        width = self._padded[self._kind.axes[name][1]]
        top = self._begin[name][columns.batch] + columns.place
        return np.asarray(at.spread(top) + at.step * at.spread(width[columns.batch]))

    def find_begin(self, name: str) -> Numbers:
        """Return the first of the `words` of a tensor of each batch."""
        return np.asarray(self._begin[name])

    def finish(self, counts: Numbers) -> list[Any]:
        """Return the batches, which have these counts."""
        self.words[self._first // WORD] = counts  # `write_header` fills in the rest
        memory = self._memory.numpy().data
        pieces = zip(
            self._layouts,
            self._memory.split(self._bytes),
            counts.tolist(),
            [memory[begin : begin + HEADER] for begin in self._first.tolist()],
            strict=True,
        )
        return [self._kind.in_memory(*piece) for piece in pieces]


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


def take(ragged: RaggedIds, rows: Numbers, at: Positions) -> Numbers:
    """Return the ids of all positions of some rows; numpy writes numbers of another type slowly."""
    return np.asarray(ragged.flat).take(at.spread(ragged.offsets[rows]) + at.step).astype(np.int64)
