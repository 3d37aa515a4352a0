"""Batches of sentences of similar lengths with a tag for each word."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from throughtime.data.batching import chunks
from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import BucketedBatches, BucketOptions, RaggedIds
from throughtime.data.batching.chunks import BatchChunk, BatchColumns, BatchRows, Positions
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

    def _pack_chunk(
        self, plan: RaggedIds, indices: range, shapes: PaddedShapes | None, pin: bool
    ) -> Iterable[TaggedBatch]:
        data, whole = self._rows, BatchRows.select(plan, indices)
        rows, counts = whole.share(self.rank, self.world_size)
        lengths = data.words.select_lengths(rows)
        columns, at = BatchColumns.number(counts), Positions.number(lengths)
        longest = chunks.find_longest(lengths, counts)
        # The first form stands where a shorter sentence has no word.
        padded, many = (
            np.flatnonzero(chunks.sum_each(lengths, counts) < longest * counts),
            len(data.spellings),
        )
        batch = at.spread(columns.batch)
        forms = batch * many + at.take(data.forms, rows)
        distinct, spelled = np.unique(np.concatenate([forms, padded * many]), return_inverse=True)
        owner, form = np.divmod(distinct, many)
        of_batch = np.bincount(owner, minlength=len(counts))
        spelled = spelled[: len(forms)] - chunks.find_starts(of_batch)[batch]
        characters = data.spellings.select_lengths(form)
        sizes = {"words": longest, "rows": counts, "forms": of_batch}
        sizes |= {
            "characters": chunks.find_longest(characters, of_batch),
            **self._size_readings(rows, counts),
        }
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
        return chunk.finish(chunks.sum_each(data.words.select_lengths(whole.rows), whole.counts))

    def _size_readings(self, rows: NDArray[np.int64], counts: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return the sizes of the sentences of each batch as language models read them."""
        none = np.zeros_like(counts)
        sizes = {"readers": none + len(self._rows.readings), "read": none, "placed": none}
        for reading in self._rows.readings:
            for axis, ids in (("read", reading.ids), ("placed", reading.places)):
                sizes[axis] = np.maximum(sizes[axis], chunks.find_longest(ids.select_lengths(rows), counts))
        return sizes
