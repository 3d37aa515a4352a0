"""Sequences with one label each, or with a tag for each word, in batches of like lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import BucketedBatches, BucketOptions, RaggedIds
from throughtime.errors import InputError


@dataclass(frozen=True)
class LabelledBatch(Batch):
    """Sequences [time, batch] with their lengths and labels [batch]; `indices` are their numbers in the data.

    `count` is the number of sequences over all processes.
    """

    ids: Tensor
    lengths: Tensor
    labels: Tensor
    indices: Tensor


class LabelledBatches(BucketedBatches[LabelledBatch]):
    """Sequences bucketed by length, every one once an epoch; without `shuffle` always the same, short first.

    >>> rows = RaggedIds.of([[5, 6, 7], [8], []])
    >>> batch = next(iter(LabelledBatches(rows, [1, 0, 1], batch_size=2, shuffle=False)))
    >>> batch.ids.tolist(), batch.lengths.tolist(), batch.labels.tolist()
    ([[0, 8]], [0, 1], [1, 0])
    """

    def __init__(
        self,
        rows: RaggedIds,
        labels: Sequence[int] | NDArray[np.int64],
        **options: Unpack[BucketOptions],
    ) -> None:
        if len(rows) != len(labels):
            raise InputError("labels", f"are {len(labels)} for {len(rows)} sequences; give one for each")
        if not len(rows):
            raise InputError("sequences", "are none; give at least one")
        self._rows, self._labels = rows, np.asarray(labels, dtype=np.int64)
        about = {"sequences": len(rows), "tokens": len(rows.flat)}
        super().__init__(rows.lengths, rows.lengths, about, **options)

    def _collate(self, plan: RaggedIds, index: int) -> LabelledBatch:
        numbers = plan[index]
        mine = self._mine(numbers)
        ids, lengths = self._rows.padded(mine)
        return LabelledBatch(
            count=len(numbers),
            ids=ids,
            lengths=lengths,
            labels=torch.from_numpy(self._labels[mine]),
            indices=torch.from_numpy(mine.copy()),
        )


NO_LABEL = -1


class Reading(NamedTuple):
    """Sentences as a language model reads them, and where in its ids each word is over."""

    ids: RaggedIds
    places: RaggedIds


@dataclass(frozen=True, eq=False)
class TaggedRows:
    """Sentences as ids, none of them empty; word i of a sentence is spelled `spellings[forms[i]]`."""

    words: RaggedIds
    forms: RaggedIds
    spellings: RaggedIds
    tags: RaggedIds
    labels: NDArray[np.int64]  # of whole sentences, NO_LABEL where there is none
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True)
class TaggedBatch(Batch):
    """Sentences side by side. `indices` are their numbers in the data.

    `spelled` says which column of `characters` spells a word: each distinct word is read once a batch.
    `read` and `read_places` hold the sentences for each language model, one above another.
    """

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
    """Sentences of like lengths together, every one once an epoch; `count` counts words.

    Without `shuffle` the batches go from short to long and are always the same.

    >>> ids = RaggedIds.of([[1, 2], [2]])
    >>> rows = TaggedRows(ids, ids, RaggedIds.of([[9], [5, 6], [7]]), ids, np.array([0, 1]))
    >>> batch = next(iter(TaggedBatches(rows, batch_size=2, shuffle=False)))
    >>> batch.words.T.tolist(), batch.lengths.tolist(), batch.count
    ([[2, 0], [1, 2]], [1, 2], 3)
    """

    def __init__(self, rows: TaggedRows, **options: Unpack[BucketOptions]) -> None:
        lengths = rows.words.lengths
        if not len(lengths):
            raise InputError("sentences", "are none; give at least one")
        self._rows = rows
        super().__init__(
            lengths, lengths, {"sentences": len(lengths), "words": len(rows.words.flat)}, **options
        )

    def _collate(self, plan: RaggedIds, index: int) -> TaggedBatch:
        rows, sentences = self._rows, plan[index]
        mine = self._mine(sentences)
        words, lengths = rows.words.padded(mine)
        forms = rows.forms.padded(mine)[0].numpy()
        distinct, spelled = np.unique(forms, return_inverse=True)
        characters, character_lengths = rows.spellings.padded(distinct)
        return TaggedBatch(
            count=int(rows.words.lengths_of(sentences).sum()),
            words=words,
            lengths=lengths,
            tags=rows.tags.padded(mine)[0],
            labels=torch.from_numpy(rows.labels[mine]),
            characters=characters,
            character_lengths=character_lengths,
            spelled=torch.from_numpy(spelled.reshape(forms.shape)),
            read=_stacked([reading.ids.padded(mine)[0] for reading in rows.readings], len(mine)),
            read_places=_stacked([reading.places.padded(mine)[0] for reading in rows.readings], len(mine)),
            indices=torch.from_numpy(mine.copy()),
        )


def _stacked(parts: list[Tensor], rows: int) -> Tensor:
    """Matrices [steps, rows] of unequal steps above each other, padded with zeros."""
    steps = max((len(part) for part in parts), default=0)
    whole = torch.zeros(len(parts), steps, rows, dtype=torch.int64)
    for number, part in enumerate(parts):
        whole[number, : len(part)] = part
    return whole
