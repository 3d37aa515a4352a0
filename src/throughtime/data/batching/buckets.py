"""Rows of different lengths in one flat array; batches of similar lengths, and of shuffled windows."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from throughtime.data.batching.batches import Batches, BatchType, draws, permutation, uniform
from throughtime.errors import InputError, check_number, check_whole


@dataclass(frozen=True, eq=False)
class RaggedIds:
    """Rows of ids in one array: row i is `flat[offsets[i]:offsets[i + 1]]`.

    >>> rows = RaggedIds.of([[5, 6, 7], [8], [9, 4]])
    >>> len(rows), rows[2], rows.lengths
    (3, array([9, 4], dtype=int32), array([3, 1, 2]))
    """

    flat: NDArray[np.integer[Any]]
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Raise an error if the offsets do not cover the ids."""
        ends = self.offsets
        if ends[0] != 0 or ends[-1] != len(self.flat) or (ends[1:] < ends[:-1]).any():
            raise InputError("offsets", f"must increase from 0 to the number of ids, {len(self.flat)}")

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> RaggedIds:
        """Collect rows of ids from an iterable, one at a time."""
        flat, ends = array("i"), array("q", [0])
        for number, row in enumerate(rows):
            try:
                flat.extend(row)
            except (TypeError, OverflowError) as error:
                raise InputError(f"row {number}", "holds something that is not a 32-bit id") from error
            ends.append(len(flat))
        return cls(np.array(flat, dtype=np.int32), np.array(ends, dtype=np.int64))

    @classmethod
    def chunks(cls, items: NDArray[np.int64], size: int) -> RaggedIds:
        """Split items into rows of `size`; the last row may be shorter.

        >>> RaggedIds.chunks(np.arange(5), 2).lengths
        array([2, 2, 1])
        """
        return cls(items, np.append(np.arange(0, len(items), size, dtype=np.int64), len(items)))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each row."""
        return np.diff(self.offsets)

    def select_lengths(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the lengths of some rows."""
        return self.offsets[rows + 1] - self.offsets[rows]

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[Any]:
        """Return one row, as a view."""
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        row %= len(self)
        return self.flat[self.offsets[row] : self.offsets[row + 1]]

    def cut(self, length: int) -> RaggedIds:
        """Return the first `length` ids of each row."""
        lengths = np.minimum(self.lengths, length)
        position = np.arange(len(self.flat)) - np.repeat(self.offsets[:-1], self.lengths)
        return RaggedIds(self.flat[position < length], np.append(0, np.cumsum(lengths)))

    def select(self, rows: NDArray[np.int64]) -> RaggedIds:
        """Return some rows, in the given order.

        >>> RaggedIds.of([[5, 6, 7], [8], [9, 4]]).select(np.array([2, 0])).flat
        array([9, 4, 5, 6, 7], dtype=int32)
        """
        lengths = self.select_lengths(rows)
        offsets = np.append(0, np.cumsum(lengths))
        shift = np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        return RaggedIds(self.flat[np.arange(len(shift)) + shift], offsets)

    def append(self, eos_id: int) -> RaggedIds:
        """Return the rows with one more id at the end of each.

        >>> RaggedIds.of([[5, 6], []]).append(3).flat
        array([5, 6, 3, 3], dtype=int32)
        """
        flat = np.insert(self.flat, self.offsets[1:], eos_id)
        return RaggedIds(flat, self.offsets + np.arange(len(self.offsets)))


class FrameTable:
    """Vectors of many sequences one below another, so that batches may hold their numbers in place of ids.

    >>> table = FrameTable(2)
    >>> rows = table.add([np.ones((3, 2), np.float32), np.zeros((1, 2), np.float32)])
    >>> rows[1], table.read(torch.tensor([[3, 0]])).tolist()
    (array([3], dtype=int32), [[[0.0, 0.0], [1.0, 1.0]]])
    """

    def __init__(self, size: int) -> None:
        self.frames = torch.zeros(0, size)

    def add(self, sequences: Iterable[NDArray[np.float32]]) -> RaggedIds:
        """Add sequences [steps, size], and return the numbers of their vectors."""
        added, before = [*sequences], len(self.frames)
        self.frames = torch.cat([self.frames, *map(torch.from_numpy, added)])
        offsets = np.cumsum([0, *map(len, added)])
        return RaggedIds(np.arange(before, len(self.frames), dtype=np.int32), offsets)

    def read(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return the vectors with these numbers, on the device of the numbers."""
        self.frames = self.frames.to(numbers.device)
        return torch.nn.functional.embedding(numbers, self.frames)


Lengths = NDArray[np.int64]

_WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16)


class Buckets:
    """Groups pairs into batches by the lengths of both sides, so that little is padding.

    Pairs are sorted by source length in strips `width` lengths wide, and by target length within a strip,
    alternately ascending and descending, so that neighbours stay similar where two strips meet. The width
    with the least padding is chosen once: narrow for many pairs, wide for few.

    A batch holds at most `batch_size` pairs, and at most `max_tokens` positions on its larger side, including
    padding.

    >>> lengths = np.array([3, 9, 3, 8, 4, 9])
    >>> [batch.tolist() for batch in Buckets(lengths, lengths, batch_size=2).plan_in_order()]
    [[0, 2], [4, 3], [1, 5]]
    """

    def __init__(
        self,
        sources: Lengths,
        targets: Lengths,
        *,
        batch_size: int | None = 64,
        max_tokens: int | None = None,
    ) -> None:
        self._sources, self._targets = sources, targets
        self._batch_size, self._max_tokens = batch_size, max_tokens
        if batch_size is None and max_tokens is None:
            raise InputError("batch_size", "is None, and so is max_tokens; give one of them")
        if batch_size is not None:
            check_whole("batch_size", batch_size)
        if max_tokens is not None:
            self._check_longest(max_tokens)
        rows = np.arange(len(sources))
        self.width = min(
            _WIDTHS, key=lambda width: self._positions(self._cut(self._sort_by_lengths(width, targets, rows)))
        )

    def plan_in_order(self) -> RaggedIds:
        """Return batches of pair numbers by increasing source length, always the same."""
        return self._cut(self._sort_by_lengths(self.width, self._targets, np.arange(len(self._sources))))

    def find_longest_batches(self, plan: RaggedIds, count: int = 8) -> list[int]:
        """Return the numbers of the batches with the longest rows, this many by either side."""
        sides = (side.take(plan.flat) for side in (self._sources, self._targets))
        longest = [np.maximum.reduceat(side, plan.offsets[:-1]) for side in sides]
        return [int(number) for one in longest for number in np.argsort(-one, kind="stable")[:count]]

    def plan_shuffled(self, generator: np.random.Generator, jitter: float) -> RaggedIds:
        """Return batches of pair numbers in random order, with pairs of equal lengths in random order too.

        `jitter` also changes each target length by up to this number, up or down, before sorting: pairs then
        meet more different partners, at the price of more padding.
        """
        ties = permutation(len(self._sources), generator)
        blur = jitter * (2 * uniform(len(self._sources), generator) - 1)
        batches = self._cut(self._sort_by_lengths(self.width, self._targets + blur, ties))
        order = permutation(len(batches), generator)
        starts, lengths = batches.offsets[order], batches.lengths[order]
        ends = np.cumsum(lengths)
        places = np.arange(len(ties)) + np.repeat(starts - ends + lengths, lengths)
        return RaggedIds(batches.flat[places], np.append(0, ends))

    def padding(self, batches: RaggedIds) -> float:
        """Return the share of all positions, sources and targets together, that is padding."""
        real = int(self._sources.sum() + self._targets.sum())
        return 1 - real / self._positions(batches)

    def _positions(self, batches: RaggedIds) -> int:
        first, rows = batches.offsets[:-1], batches.lengths
        sides = (self._sources[batches.flat], self._targets[batches.flat])
        return sum(int(np.maximum.reduceat(side, first) @ rows) for side in sides)

    def _sort_by_lengths(
        self, width: int, targets: NDArray[np.number], ties: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        strips = self._sources // width
        within = np.where(strips % 2 == 0, targets, -targets)
        if within.dtype.kind == "f" and len(within):
            # In a third of the time, if no two numbers are the same: then nothing is left to the ties.
            keys = strips * (2 * np.abs(within).max() + 1) + within
            order = np.argsort(keys)
            ordered = keys[order]
            if (ordered[1:] > ordered[:-1]).all():
                return order
        return np.lexsort((ties, within, strips))

    def _cut(self, order: NDArray[np.int64]) -> RaggedIds:
        if self._max_tokens is None:
            assert self._batch_size is not None
            return RaggedIds.chunks(order, self._batch_size)
        most, offsets, rows, longest = self._batch_size or len(order), [0], 0, 0
        for length in np.maximum(self._sources, self._targets)[order].tolist():
            longest = max(longest, length)
            rows += 1
            if rows > most or rows * longest > self._max_tokens:
                offsets.append(offsets[-1] + rows - 1)
                rows, longest = 1, length
        return RaggedIds(order, np.array([*offsets, len(order)], dtype=np.int64))

    def _check_longest(self, max_tokens: int) -> None:
        longer = np.maximum(self._sources, self._targets)
        pair = int(longer.argmax())
        if longer[pair] > max_tokens:
            problem = f"is {max_tokens}, but pair {pair} alone has {longer[pair]} tokens"
            raise InputError("max_tokens", f"{problem}; raise it or set max_length")


class WindowOptions(TypedDict, total=False):
    """Options of all batches of windows: see `ShuffledWindows` and `Batches`."""

    seed: int
    shuffle: bool
    rank: int
    world_size: int


class ShuffledWindows(Batches[RaggedIds, BatchType]):
    """Every window once per epoch: in an order that follows from seed and epoch, or in order of time.

    A saved position is restored only if `settings` are the same.
    """

    def __init__(
        self,
        settings: Mapping[str, float | None],
        batch_size: int,
        *,
        seed: int = 0,
        shuffle: bool = True,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        more = {"batch_size": check_whole("batch_size", batch_size), "seed": seed}
        super().__init__({**settings, **more}, rank=rank, world_size=world_size)
        self._batch_size, self._seed, self._shuffle = batch_size, seed, shuffle

    @abstractmethod
    def _windows(self, generator: np.random.Generator) -> NDArray[np.int64]:
        """Return the windows of an epoch in order of time, each as a number that `_collate` understands."""

    def _plan(self, epoch: int) -> RaggedIds:
        generator = draws(self._seed, epoch)
        windows = self._windows(generator)
        order = permutation(len(windows), generator) if self._shuffle else slice(None)
        return RaggedIds.chunks(windows[order], self._batch_size)


class BucketOptions(WindowOptions, total=False):
    """Options of all batches of similar lengths: see `Buckets` and `Batches`."""

    batch_size: int | None
    max_tokens: int | None
    jitter: float


class BucketedBatches(Batches[RaggedIds, BatchType]):
    """Rows of similar lengths together, each once per epoch; without `shuffle`, always the same, short first.

    `unit` is the word for the rows. A saved position is restored only if `about` is the same.
    """

    unit: str

    def __init__(
        self,
        sources: Lengths,
        targets: Lengths,
        about: Mapping[str, float | None],
        *,
        batch_size: int | None = 64,
        max_tokens: int | None = None,
        jitter: float = 1.0,
        shuffle: bool = True,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if not len(sources):
            raise InputError(self.unit, "are empty; give at least one")
        self._buckets = Buckets(sources, targets, batch_size=batch_size, max_tokens=max_tokens)
        self._seed, self._shuffle, self._jitter = seed, shuffle, check_number("jitter", jitter)
        more = {"batch_size": batch_size, "max_tokens": max_tokens, "jitter": jitter, "shuffle": shuffle}
        settings = {self.unit: len(sources), **about, **more, "seed": seed}
        super().__init__(settings, rank=rank, world_size=world_size)

    def _plan(self, epoch: int) -> RaggedIds:
        if not self._shuffle:
            return self._buckets.plan_in_order()
        return self._buckets.plan_shuffled(draws(self._seed, epoch), self._jitter)

    def _find_unusual(self, plan: RaggedIds) -> Iterable[int]:
        return [*super()._find_unusual(plan), *self._buckets.find_longest_batches(plan)]
