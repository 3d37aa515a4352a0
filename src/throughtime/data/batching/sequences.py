"""Batches of sequences of similar lengths: with one label each, a tag for each word, or masked tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import BucketedBatches, BucketOptions, RaggedIds
from throughtime.errors import InputError

IGNORED = -100
"""The label of positions without a target, as in `models.heads`, which must not import batches."""
NO_LABEL = -1
"""The label of a sentence that has none."""


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
        self,
        rows: RaggedIds,
        labels: Sequence[int] | NDArray[np.int64],
        **options: Unpack[BucketOptions],
    ) -> None:
        if len(rows) != len(labels):
            raise InputError("labels", f"are {len(labels)} for {len(rows)} sequences; give one for each")
        self._rows, self._labels = rows, np.asarray(labels, dtype=np.int64)
        super().__init__(rows.lengths, rows.lengths, {"tokens": len(rows.flat)}, **options)

    def _collate(self, plan: RaggedIds, index: int) -> LabelledBatch:
        mine = self._mine(plan[index])
        ids, lengths = self._rows.pad_rows(mine)
        return LabelledBatch(
            count=len(plan[index]),
            ids=ids,
            lengths=lengths,
            labels=torch.from_numpy(self._labels[mine]),
            indices=torch.from_numpy(mine),
        )


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

    def _collate(self, plan: RaggedIds, index: int) -> TaggedBatch:
        rows, mine = self._rows, self._mine(plan[index])
        words, lengths = rows.words.pad_rows(mine)
        forms = rows.forms.pad_rows(mine)[0].numpy()
        distinct, spelled = np.unique(forms, return_inverse=True)
        characters, character_lengths = rows.spellings.pad_rows(distinct)
        return TaggedBatch(
            count=int(rows.words.select_lengths(plan[index]).sum()),
            words=words,
            lengths=lengths,
            tags=rows.tags.pad_rows(mine)[0],
            labels=torch.from_numpy(rows.labels[mine]),
            characters=characters,
            character_lengths=character_lengths,
            spelled=torch.from_numpy(spelled.reshape(forms.shape)),
            read=_stack([reading.ids.pad_rows(mine)[0] for reading in rows.readings], len(mine)),
            read_places=_stack([reading.places.pad_rows(mine)[0] for reading in rows.readings], len(mine)),
            indices=torch.from_numpy(mine),
        )


def _stack(parts: list[Tensor], rows: int) -> Tensor:
    """Stack matrices [steps, rows] with different numbers of steps; shorter ones are padded with zeros."""
    steps = max((len(part) for part in parts), default=0)
    whole = torch.zeros(len(parts), steps, rows, dtype=torch.int64)
    for number, part in enumerate(parts):
        whole[number, : len(part)] = part
    return whole


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

    ids: Tensor
    lengths: Tensor
    places: Tensor
    asked: Tensor
    labels: Tensor

    def pad(self, sizes: Mapping[str, int]) -> Self:
        """Pad, with the first position in place of those that are missing."""
        padded = super().pad(sizes)
        return replace(padded, places=self._move(padded, "places"), asked=self._move(padded, "asked"))

    def _move(self, padded: Self, name: str) -> Tensor:
        """The positions of this name among the rows of a padded batch."""
        own: Tensor = getattr(self, name)
        positions: Tensor = getattr(padded, name)
        moved = positions // self.rows * padded.rows + positions % self.rows
        return torch.where(torch.arange(len(moved)) >= len(own), moved[0], moved)


class MaskedBatches(BucketedBatches[MaskedBatch]):
    """Batches of sentences with `share` of their tokens masked; see `BucketedBatches`.

    Each token is masked with this probability, and each sentence has at least one mask. Tokens to predict are
    the masked ones and, if `asked_share` is larger than `share`, others up to this share. The draws depend
    only on the seed, the epoch and the token's position in the data, not on the batches, the number of
    processes or whether the run was resumed.

    >>> batches = MaskedBatches(RaggedIds.of([[5, 6, 7, 8, 9], [4, 3]]), share=0.4, shuffle=False)
    >>> batch = next(iter(batches))
    >>> batch.ids.shape, len(batch.places), batch.count
    (torch.Size([5, 2]), 4, 4)
    """

    unit = "sentences"

    def __init__(
        self,
        rows: RaggedIds,
        *,
        share: float = 0.15,
        asked_share: float = 0.0,
        **options: Unpack[BucketOptions],
    ) -> None:
        if not 0 < share <= 1:
            raise InputError("mask_share", f"is {share}, expected more than 0 and at most 1")
        if not rows.lengths.all():
            raise InputError("sentences", "hold an empty one; leave it out, as `split_rows` does")
        self._rows, self._shares = rows, (share, asked_share)
        super().__init__(rows.lengths, rows.lengths, {"tokens": len(rows.flat), "share": share}, **options)

    def _collate(self, plan: RaggedIds, index: int) -> MaskedBatch:
        drawn = self._draw(plan[index])
        ids, lengths = self._rows.pad_rows(self._mine(plan[index]))
        mine = drawn[: len(ids), self.rank :: self.world_size]
        places, asked = (torch.from_numpy(np.flatnonzero(mine < share)) for share in self._shares)
        asked = asked if len(asked) > len(places) else places
        count = int((drawn < max(self._shares)).sum())
        labels = ids.flatten()[asked]
        return MaskedBatch(count=count, ids=ids, lengths=lengths, places=places, asked=asked, labels=labels)

    def _draw(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """A number in [0, 1) for each token [time, batch] of these rows, 0 for the lowest of its row.

        A token is masked if its number is below the share, so that each sentence has a mask.
        """
        lengths = self._rows.select_lengths(rows)
        time = np.arange(lengths.max(initial=0))[:, None]
        drawn = hash_to_unit(self._seed, self.epoch, self._rows.offsets[rows] + time)
        drawn = np.where(time < lengths, drawn, np.inf)
        return np.where(time == drawn.argmin(axis=0), 0.0, drawn)


def hash_to_unit(seed: int, epoch: int, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Hash each number to a pseudo-random one in [0, 1) with SplitMix64, the same on every machine.

    >>> hash_to_unit(0, 0, np.array([7, 8]))
    array([0.80688285, 0.93199289])
    """
    key = np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)
    bits = key + (numbers + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def split_rows(rows: RaggedIds, max_length: int) -> RaggedIds:
    """Split rows longer than `max_length` into several, and leave empty rows out.

    >>> [row.tolist() for row in split_rows(RaggedIds.of([[1, 2, 3, 4, 5], [], [6]]), 2)]
    [[1, 2], [3, 4], [5], [6]]
    """
    counts = -(-rows.lengths // max_length)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    starts = np.repeat(rows.offsets[:-1], counts) + max_length * (np.arange(len(first)) - first)
    return RaggedIds(rows.flat, np.append(starts, len(rows.flat)))
