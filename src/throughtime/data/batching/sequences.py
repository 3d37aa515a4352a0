"""Batches of sequences of similar lengths: with one label each, masked tokens, or a tag for each word."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self, Unpack

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import BucketedBatches, BucketOptions, RaggedIds
from throughtime.data.batching.packing import (
    BatchChunk,
    BatchColumns,
    BatchRows,
    PaddedShapes,
    Positions,
    find_longest,
    find_starts,
    sum_each,
)
from throughtime.data.seen import mix
from throughtime.errors import InputError, check_number

IGNORED = -100
"""The label of positions without a target, as in `models.heads`, which must not import batches."""


@dataclass(frozen=True)
class LabelledBatch(Batch):
    """Sequences [time, batch] with their lengths and labels [batch]; `indices` are their numbers in the data.

    `count` is the number of sequences over all processes.
    """

    axes: ClassVar = {
        "ids": ("steps", "rows"),
        "lengths": ("rows",),
        "labels": ("rows",),
        "indices": ("rows",),
    }
    fillings: ClassVar = {"labels": IGNORED, "lengths": 1}

    ids: Tensor
    lengths: Tensor
    labels: Tensor
    indices: Tensor


class LabelledBatches(BucketedBatches[LabelledBatch]):
    """Batches of sequences with one label each; see `BucketedBatches`.

    >>> rows = RaggedIds.of([[5, 6, 7], [8], []])
    >>> batch = next(iter(LabelledBatches(rows, [1, 0, 1], batch_size=2, shuffle=False)))
    >>> batch.ids.tolist(), batch.lengths.tolist(), batch.labels.tolist()
    ([[0, 8]], [0, 1], [1, 0])
    """

    unit = "sequences"

    def __init__(
        self, rows: RaggedIds, labels: Sequence[int] | NDArray[np.int64], **options: Unpack[BucketOptions]
    ) -> None:
        if len(rows) != len(labels):
            raise InputError("labels", f"are {len(labels)} for {len(rows)} sequences; give one for each")
        self._rows, self._labels = rows, np.asarray(labels, dtype=np.int64)
        super().__init__(rows.lengths, rows.lengths, {"tokens": len(rows.flat)}, **options)

    def _pack_chunk(
        self, plan: RaggedIds, indices: range, shapes: PaddedShapes | None, pin: bool
    ) -> Iterable[LabelledBatch]:
        whole = BatchRows.select(plan, indices)
        rows, counts = whole.share(self.rank, self.world_size)
        lengths = self._rows.select_lengths(rows)
        columns, at = BatchColumns.number(counts), Positions.number(lengths)
        sizes = {"steps": find_longest(lengths, counts), "rows": counts}
        chunk = BatchChunk(LabelledBatch, sizes, shapes, pin)
        chunk.write_steps(columns, at, {"ids": at.take(self._rows, rows)})
        chunk.write(columns, lengths=lengths, labels=self._labels[rows], indices=rows)
        return chunk.finish(whole.counts)


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """Whole sentences, [time, batch], and the flattened positions in them that a model is to hide.

    `asked` [N] are the positions that it is to predict, with the ids there as `labels`: the hidden ones, and
    perhaps others.
    """

    axes: ClassVar = {
        "ids": ("steps", "rows"),
        "lengths": ("rows",),
        "places": ("masks",),
        "asked": ("targets",),
        "labels": ("targets",),
    }
    fillings: ClassVar = {"labels": IGNORED, "lengths": 1}
    drawn_axes: ClassVar = ("masks", "targets")

    ids: Tensor
    lengths: Tensor
    places: Tensor
    asked: Tensor
    labels: Tensor

    def _renumber(self, sizes: Mapping[str, int]) -> Self:
        before, after = self.rows, sizes["rows"]
        if before == after:
            return self
        moved = {name: getattr(self, name) for name in ("places", "asked")}
        return replace(self, **{name: flat // before * after + flat % before for name, flat in moved.items()})

    def _filling(self, name: str) -> int:
        """The first position in place of those that are missing."""
        return int(getattr(self, name)[0]) if name in ("places", "asked") else super()._filling(name)


class MaskedBatches(BucketedBatches[MaskedBatch]):
    """Batches of sentences with `share` of their tokens masked; see `BucketedBatches`.

    Each token is masked with this probability. The tokens to predict are the masked ones, of which each
    sentence has at least one; with `ask_all` they are all tokens, and each batch has at least one mask. The
    draws depend only on the seed, the epoch and the token's position in the data, not on the number of
    processes or whether the run was resumed.

    >>> batches = MaskedBatches(RaggedIds.of([[5, 6, 7, 8, 9], [4, 3]]), share=0.4, shuffle=False)
    >>> batch = next(iter(batches))
    >>> batch.ids.shape, len(batch.places), batch.count
    (torch.Size([5, 2]), 4, 4)
    """

    unit = "sentences"

    def __init__(
        self, rows: RaggedIds, *, share: float = 0.15, ask_all: bool = False, **options: Unpack[BucketOptions]
    ) -> None:
        check_number("mask_share", share, 0, 1, above=True)
        if not rows.lengths.all():
            raise InputError("sentences", "hold an empty one; leave it out, as `split_rows` does")
        self._rows, self._share, self._ask_all = rows, share, ask_all
        super().__init__(rows.lengths, rows.lengths, {"tokens": len(rows.flat), "share": share}, **options)

    def _pack_chunk(
        self, plan: RaggedIds, indices: range, shapes: PaddedShapes | None, pin: bool
    ) -> Iterable[MaskedBatch]:
        whole = BatchRows.select(plan, indices)
        drawn = self._draw(whole)
        share = 1.0 if self._ask_all else self._share
        count = sum_each(drawn < share, sum_each(self._rows.select_lengths(whole.rows), whole.counts))
        rows, counts = whole.share(self.rank, self.world_size)
        if self.world_size > 1:
            mine = BatchColumns.number(whole.counts).belong_to(self.rank, self.world_size)
            drawn = drawn[np.repeat(mine, self._rows.select_lengths(whole.rows))]
        lengths = self._rows.select_lengths(rows)
        columns, at = BatchColumns.number(counts), Positions.number(lengths)
        words = sum_each(lengths, counts)
        hidden = drawn < self._share
        masks = sum_each(hidden, words)
        targets = words if self._ask_all else masks
        sizes = {"steps": find_longest(lengths, counts), "rows": counts, "masks": masks, "targets": targets}
        chunk = BatchChunk(MaskedBatch, sizes, shapes, pin)
        located = chunk.locate("ids", columns, at)
        chunk.words[located] = at.take(self._rows, rows)
        chunk.write(columns, lengths=lengths)
        # In each batch by step and then by row, as they are located.
        asked = masked = np.sort(located[hidden])
        if self._ask_all:
            asked = np.sort(located)
        chunk.write(BatchColumns.number(targets), labels=chunk.words[asked])
        for name, positions, number in (("places", masked, masks), ("asked", asked, targets)):
            numbers = positions - np.repeat(chunk.find_begin("ids"), number)
            if len(numbers):
                first = find_starts(number).clip(max=len(numbers) - 1)
                chunk.fill(name, np.where(number > 0, numbers[first], 0).tolist())
            chunk.write(BatchColumns.number(number), **{name: numbers})
        return chunk.finish(count)

    def _draw(self, batches: BatchRows) -> NDArray[np.float64]:
        """Return a number in [0, 1) for each token of these rows, 0 for the lowest of its row.

        A token is masked if its number is below the share, so that each sentence has a mask. If all tokens
        are asked for, only the lowest number of the batch becomes 0: the others would see too many masks.
        """
        lengths = self._rows.select_lengths(batches.rows)
        at = Positions.number(lengths)
        drawn = hash_to_unit(self._seed, self.epoch, at.spread(self._rows.offsets[batches.rows]) + at.step)
        group = sum_each(lengths, batches.counts) if self._ask_all else lengths
        lowest = np.minimum.reduceat(drawn, find_starts(group))
        drawn[drawn == np.repeat(lowest, group)] = 0
        return drawn


def hash_to_unit(seed: int, epoch: int, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Hash each number to a pseudo-random one in [0, 1) with SplitMix64, the same on every machine.

    >>> hash_to_unit(0, 0, np.array([7, 8]))
    array([0.80688285, 0.93199289])
    """
    bits = mix(_hash_key(seed, epoch) + (numbers + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


@functools.lru_cache(maxsize=8)
def _hash_key(seed: int, epoch: int) -> NDArray[np.uint64]:
    return np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64).astype(np.uint64)


def split_rows(rows: RaggedIds, max_length: int) -> RaggedIds:
    """Split rows longer than `max_length` into several, and leave empty rows out.

    >>> [row.tolist() for row in split_rows(RaggedIds.of([[1, 2, 3, 4, 5], [], [6]]), 2)]
    [[1, 2], [3, 4], [5], [6]]
    """
    counts = -(-rows.lengths // max_length)
    first = np.repeat(find_starts(counts), counts)
    starts = np.repeat(rows.offsets[:-1], counts) + max_length * (np.arange(len(first)) - first)
    return RaggedIds(rows.flat, np.append(starts, len(rows.flat)))


NO_LABEL = -1
"""The label of a sentence that has none."""


class Reading(NamedTuple):
    """Sentences as a language model reads them, and the position in its ids at which each word ends."""

    ids: RaggedIds
    places: RaggedIds


@dataclass(frozen=True, eq=False)
class TaggedRows:
    """Sentences as ids, none of them empty; word i of a sentence is spelled `spellings[forms[i]]`."""

    words: RaggedIds
    forms: RaggedIds
    spellings: RaggedIds
    tags: RaggedIds
    labels: NDArray[np.int64]  # one per sentence, NO_LABEL where there is none
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True)
class TaggedBatch(Batch):
    """Sentences [time, batch]; `indices` are their numbers in the data, and `count` counts words.

    `spelled` is the column of `characters` that spells each word: a distinct word is spelled once per batch.
    `read` and `read_places` hold the sentences for each language model, stacked along the first axis.
    """

    axes: ClassVar = {
        "words": ("words", "rows"),
        "lengths": ("rows",),
        "tags": ("words", "rows"),
        "labels": ("rows",),
        "characters": ("characters", "forms"),
        "character_lengths": ("forms",),
        "spelled": ("words", "rows"),
        "read": ("readers", "read", "rows"),
        "read_places": ("readers", "placed", "rows"),  # as many as words, or none
        "indices": ("rows",),
    }
    fillings: ClassVar = {"labels": NO_LABEL}  # a row without words has no tags
    row_axes: ClassVar = ("rows", "forms")

    words: Tensor  # [T, B]
    lengths: Tensor  # [B]
    tags: Tensor  # [T, B]
    labels: Tensor  # [B]
    characters: Tensor  # [C, W]
    character_lengths: Tensor  # [W]
    spelled: Tensor  # [T, B]
    read: Tensor  # [L, R, B]
    read_places: Tensor  # [L, T, B]
    indices: Tensor  # [B]


class TaggedBatches(BucketedBatches[TaggedBatch]):
    """Batches of sentences with a tag for each word; see `BucketedBatches`.

    >>> ids = RaggedIds.of([[1, 2], [2]])
    >>> rows = TaggedRows(ids, ids, RaggedIds.of([[9], [5, 6], [7]]), ids, np.array([0, 1]))
    >>> batch = next(iter(TaggedBatches(rows, batch_size=2, shuffle=False)))
    >>> batch.words.T.tolist(), batch.lengths.tolist(), batch.count
    ([[2, 0], [1, 2]], [1, 2], 3)
    """

    unit = "sentences"

    def __init__(self, rows: TaggedRows, **options: Unpack[BucketOptions]) -> None:
        self._rows = rows
        lengths = rows.words.lengths
        super().__init__(lengths, lengths, {"words": len(rows.words.flat)}, **options)

    def _pack_chunk(
        self, plan: RaggedIds, indices: range, shapes: PaddedShapes | None, pin: bool
    ) -> Iterable[TaggedBatch]:
        data, whole = self._rows, BatchRows.select(plan, indices)
        rows, counts = whole.share(self.rank, self.world_size)
        lengths = data.words.select_lengths(rows)
        columns, at = BatchColumns.number(counts), Positions.number(lengths)
        longest = find_longest(lengths, counts)
        # The first form stands where a shorter sentence has no word.
        padded = np.flatnonzero(sum_each(lengths, counts) < longest * counts)
        batch, many = at.spread(columns.batch), len(data.spellings)
        forms = batch * many + at.take(data.forms, rows)
        distinct, spelled = np.unique(np.concatenate([forms, padded * many]), return_inverse=True)
        owner, form = np.divmod(distinct, many)
        of_batch = np.bincount(owner, minlength=len(counts))
        spelled = spelled[: len(forms)] - find_starts(of_batch)[batch]
        characters = data.spellings.select_lengths(form)
        sizes = {"words": longest, "rows": counts, "forms": of_batch}
        sizes["characters"] = find_longest(characters, of_batch)
        sizes |= self._size_readings(rows, counts)
        chunk = BatchChunk(TaggedBatch, sizes, shapes, pin)
        words, tags = at.take(data.words, rows), at.take(data.tags, rows)
        chunk.write_steps(columns, at, {"words": words, "tags": tags, "spelled": spelled})
        letters, spelling = Positions.number(characters), BatchColumns.number(of_batch)
        chunk.write_steps(spelling, letters, {"characters": letters.take(data.spellings, form)})
        chunk.write(spelling, character_lengths=characters)
        chunk.write(columns, lengths=lengths, labels=data.labels[rows], indices=rows)
        for number, reading in enumerate(data.readings):
            for name, ids in (("read", reading.ids), ("read_places", reading.places)):
                at = Positions.number(ids.select_lengths(rows))
                chunk.write_steps(columns, at, {name: at.take(ids, rows)}, number)
        return chunk.finish(sum_each(data.words.select_lengths(whole.rows), whole.counts))

    def _size_readings(self, rows: NDArray[np.int64], counts: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return the sizes of the sentences of each batch as language models read them."""
        none = np.zeros_like(counts)
        sizes = {"readers": none + len(self._rows.readings), "read": none, "placed": none}
        for reading in self._rows.readings:
            for axis, ids in (("read", reading.ids), ("placed", reading.places)):
                sizes[axis] = np.maximum(sizes[axis], find_longest(ids.select_lengths(rows), counts))
        return sizes
