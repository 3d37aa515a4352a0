"""Batches of sentences of similar lengths with a tag for each word."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import BucketedBatches, BucketOptions, RaggedIds
from throughtime.data.batching.chunks import (
    BatchChunk,
    BatchColumns,
    Positions,
    find_longest,
    find_starts,
    select_rows,
    take,
)
from throughtime.data.batching.shapes import PaddedShapes

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

    def _collate(self, plan: RaggedIds, index: int) -> TaggedBatch:
        rows, mine = self._rows, self._mine(plan[index])
        (words, forms, tags), lengths = rows.words.pad_alike([rows.words, rows.forms, rows.tags], mine)
        distinct, spelled = np.unique(forms.numpy(), return_inverse=True)
        characters, character_lengths = rows.spellings.pad_rows(distinct)
        return TaggedBatch(
            count=int(rows.words.select_lengths(plan[index]).sum()),
            words=words,
            lengths=lengths,
            tags=tags,
            labels=torch.from_numpy(rows.labels[mine]),
            characters=characters,
            character_lengths=character_lengths,
            spelled=torch.from_numpy(spelled).view(forms.shape),
            read=_stack([reading.ids.pad_rows(mine)[0] for reading in rows.readings], len(mine)),
            read_places=_stack([reading.places.pad_rows(mine)[0] for reading in rows.readings], len(mine)),
            indices=torch.from_numpy(mine),
        )

    def _pack_chunk(
        self, plan: RaggedIds, indices: range, shapes: PaddedShapes | None, pin: bool
    ) -> Iterable[TaggedBatch]:
        own = self._rows
        if self.world_size > 1 or own.readings:
            return super()._pack_chunk(plan, indices, shapes, pin)
        rows, counts = select_rows(plan, indices)
        lengths = own.words.select_lengths(rows)
        columns, at, longest = (
            BatchColumns.number(counts),
            Positions.number(lengths),
            find_longest(lengths, counts),
        )
        words = np.add.reduceat(lengths, find_starts(counts))
        # The first form stands where a shorter sentence has no word.
        padded, many = np.flatnonzero(words < longest * counts), len(own.spellings)
        batch = at.spread(columns.batch)
        forms = batch * many + take(own.forms, rows, at)
        distinct, spelled = np.unique(np.concatenate([forms, padded * many]), return_inverse=True)
        owner, form = np.divmod(distinct, many)
        of_batch = np.bincount(owner, minlength=len(counts))
        spelled = spelled[: len(forms)] - find_starts(of_batch)[batch]
        characters = own.spellings.select_lengths(form)
        none = np.zeros_like(counts)
        sizes = {"words": longest, "rows": counts, "forms": of_batch, "readers": none, "read": none}
        sizes |= {"placed": none, "characters": find_longest(characters, of_batch)}
        chunk = BatchChunk(TaggedBatch, sizes, shapes, pin)
        texts = {"words": take(own.words, rows, at), "tags": take(own.tags, rows, at)}
        chunk.write_steps(columns, at, **texts, spelled=spelled)
        letters, spelling = Positions.number(characters), BatchColumns.number(of_batch)
        chunk.write_steps(spelling, letters, characters=take(own.spellings, form, letters))
        chunk.write(spelling, character_lengths=characters)
        chunk.write(columns, lengths=lengths, labels=own.labels[rows], indices=rows)
        return chunk.finish(words)


def _stack(parts: list[Tensor], rows: int) -> Tensor:
    """Stack matrices [steps, rows] with different numbers of steps; shorter ones are padded with zeros."""
    steps = max((len(part) for part in parts), default=0)
    whole = torch.zeros(len(parts), steps, rows, dtype=torch.int64)
    for number, part in enumerate(parts):
        whole[number, : len(part)] = part
    return whole
