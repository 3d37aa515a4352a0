"""Batches of sentence pairs, and of texts with the label or vector that they are generated from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.data.batching.batch import TensorKind
from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import BucketedBatches, BucketOptions, RaggedIds
from throughtime.data.batching.packing import (
    BatchChunk,
    BatchColumns,
    BatchRows,
    PaddedShapes,
    Positions,
    find_longest,
    sum_each,
)
from throughtime.data.records import Specials
from throughtime.errors import InputError, check_whole


class TruncationCounts(NamedTuple):
    """The number of sentences of each side that `max_length` truncated."""

    sources: int
    targets: int


@dataclass(frozen=True)
class PairBatch(Batch):
    """Source and target sentences, [time, batch].

    `inputs` is what the decoder reads: `<bos>`, then the labels shifted by one. `indices` are the numbers of
    the pairs in the data.
    """

    axes: ClassVar = {
        "source": ("source", "rows"),
        "source_lengths": ("rows",),
        "inputs": ("target", "rows"),
        "labels": ("target", "rows"),
        "target_lengths": ("rows",),
        "indices": ("rows",),
    }
    fillings: ClassVar = {"source_lengths": 1}  # an encoder need not know what an empty sentence is

    source: Tensor
    source_lengths: Tensor
    inputs: Tensor
    labels: Tensor
    target_lengths: Tensor
    indices: Tensor


class PairBatches(BucketedBatches[PairBatch]):
    """Batches of sentence pairs; see `BucketedBatches`.

    Sentences are given as bare ids: `<eos>` is appended to each target, and to each source if its vocabulary
    has one. `max_length` counts it, and truncation keeps it; `truncated` counts the truncated sentences.
    `batch_size` and `max_tokens` limit the batch of all ranks together.

    >>> marks = Specials(pad_id=0, bos_id=1, eos_id=2)
    >>> sources, targets = [[5, 6, 7], [8], [9]], [[5], [6, 7], [8]]
    >>> pairs = PairBatches(sources, targets, marks, marks, batch_size=2, shuffle=False)
    >>> batch = next(iter(pairs))
    >>> batch.indices
    tensor([2, 1])
    >>> batch.labels
    tensor([[8, 6],
            [2, 7],
            [0, 2]])
    >>> batch.inputs
    tensor([[1, 1],
            [8, 6],
            [0, 7]])
    """

    unit = "pairs"
    _vectors: tuple[TensorKind, ...] = ()
    """The further axes and the type of sources that are not ids."""
    _min_source_steps = 0
    """Steps of the sources of a process that has no row of a batch."""

    def __init__(
        self,
        sources: RaggedIds | Iterable[Sequence[int]],
        targets: RaggedIds | Iterable[Sequence[int]],
        source_specials: Specials,
        target_specials: Specials,
        *,
        max_length: int | None = None,
        **options: Unpack[BucketOptions],
    ) -> None:
        if target_specials.bos_id is None or target_specials.eos_id is None:
            raise InputError("target vocabulary", "needs <bos> and <eos>; reserve both when building it")
        self._bos_id, self._pad_ids = target_specials.bos_id, (source_specials.pad_id, target_specials.pad_id)
        self._sources, cut_sources = _side(sources, source_specials.eos_id, max_length)
        self._targets, cut_targets = _side(targets, target_specials.eos_id, max_length)
        self.truncated = TruncationCounts(cut_sources, cut_targets)
        self._check_sides()
        about = {
            "source_tokens": len(self._sources.flat),
            "target_tokens": len(self._targets.flat),
            "max_length": max_length,
        }
        super().__init__(self._sources.lengths, self._targets.lengths, about, **options)

    @property
    def padding(self) -> float:
        """The share of padding in all positions of the current epoch, source and target together."""
        return self._buckets.padding(self.plan())

    def _pack_chunk(
        self, plan: RaggedIds, indices: range, shapes: PaddedShapes | None, pin: bool
    ) -> Iterable[PairBatch]:
        whole = BatchRows.select(plan, indices)
        targets = sum_each(self._targets.select_lengths(whole.rows), whole.counts)
        pairs, counts = whole.share(self.rank, self.world_size)
        columns = BatchColumns.number(counts)
        lengths = [side.select_lengths(pairs) for side in (self._sources, self._targets)]
        source, target = (find_longest(side, counts) for side in lengths)
        source = source.clip(min=self._min_source_steps)
        sizes = {"source": source, "target": target, "rows": counts}
        chunk = BatchChunk(PairBatch, sizes, shapes, pin, self._vectors)
        for names, length, pad_id in (
            (("source",), source, self._pad_ids[0]),
            (("inputs", "labels"), target, self._pad_ids[1]),
        ):
            if pad_id:
                at = Positions.number(np.repeat(length, counts))
                chunk.write_steps(columns, at, dict.fromkeys(names, np.full(len(at.step), pad_id)))
        self._write_sources(chunk, pairs, columns)
        at = Positions.number(lengths[1])
        labels = at.take(self._targets, pairs)
        inputs = np.where(at.step == 0, self._bos_id, np.roll(labels, 1))
        chunk.write_steps(columns, at, {"inputs": inputs, "labels": labels})
        chunk.write(columns, source_lengths=lengths[0], target_lengths=lengths[1], indices=pairs)
        return chunk.finish(targets)

    def _write_sources(self, chunk: BatchChunk, pairs: NDArray[np.int64], columns: BatchColumns) -> None:
        at = Positions.number(self._sources.select_lengths(pairs))
        chunk.write_steps(columns, at, {"source": at.take(self._sources, pairs)})

    def _check_sides(self) -> None:
        if len(self._sources) != len(self._targets):
            counts = f"{len(self._sources)} sources but {len(self._targets)} targets"
            raise InputError("pairs", f"have {counts}; each source needs one target")
        empty = np.flatnonzero(self._sources.lengths == 0)
        if len(empty):
            raise InputError("pairs", f"have an empty source at pair {empty[0]}; remove it or reserve <eos>")


def _side(
    rows: RaggedIds | Iterable[Sequence[int]], eos_id: int | None, max_length: int | None
) -> tuple[RaggedIds, int]:
    """Return one side with its end tokens, and the number of sentences that were truncated."""
    ragged = rows if isinstance(rows, RaggedIds) else RaggedIds.of(rows)
    room = None if max_length is None else check_whole("max_length", max_length, 2) - (eos_id is not None)
    cut = 0 if room is None else int((ragged.lengths > room).sum())
    if room is not None and cut:
        ragged = ragged.cut(room)
    return (ragged if eos_id is None else ragged.append(eos_id)), cut


class ConditionedBatches(PairBatches):
    """Pairs whose source is a condition: the id of a label, [1, batch], or a vector, [1, batch, width].

    >>> import torch
    >>> texts, labels = RaggedIds.of([[5, 6], [7]]), torch.tensor([4, 3])
    >>> batches = ConditionedBatches(texts, labels, Specials(0, 1, 2), batch_size=2, shuffle=False)
    >>> batch = next(iter(batches))
    >>> batch.source.tolist(), batch.labels.T.tolist()
    ([[4, 3]], [[5, 6, 2], [7, 2, 0]])
    """

    _min_source_steps = 1

    def __init__(
        self,
        texts: RaggedIds,
        conditions: Tensor,
        specials: Specials,
        *,
        max_length: int | None = None,
        **options: Unpack[BucketOptions],
    ) -> None:
        if len(conditions) != len(texts):
            raise InputError("conditions", f"are {len(conditions)} for {len(texts)} texts; give one for each")
        self._conditions = conditions
        if conditions.dim() > 1 or conditions.dtype != torch.int64:
            self._vectors = (("source", tuple(conditions.shape[1:]), conditions.dtype),)
        # A condition has no length: sources of one step, written below, leave all sorting to the texts.
        sources = RaggedIds.of([[0]] * len(texts))
        super().__init__(sources, texts, Specials(), specials, max_length=max_length, **options)

    def _write_sources(self, chunk: BatchChunk, pairs: NDArray[np.int64], columns: BatchColumns) -> None:
        conditions = self._conditions.numpy()[pairs]
        if self._vectors:
            chunk.write_vectors(columns, "source", conditions)
        else:
            chunk.write(columns, source=conditions)
