"""Sequences with one label each, in batches of like lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.data.batching.batch import Batch
from throughtime.data.batching.buckets import Buckets
from throughtime.data.batching.draws import draws
from throughtime.data.batching.position import Batches
from throughtime.data.batching.ragged import RaggedIds
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


class LabelledBatches(Batches[RaggedIds, LabelledBatch]):
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
        *,
        batch_size: int = 32,
        max_tokens: int | None = None,
        jitter: float = 1.0,
        shuffle: bool = True,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if len(rows) != len(labels):
            raise InputError("labels", f"are {len(labels)} for {len(rows)} sequences; give one for each")
        if not len(rows):
            raise InputError("sequences", "are none; give at least one")
        self._rows, self._labels = rows, np.asarray(labels, dtype=np.int64)
        self._buckets = Buckets(rows.lengths, rows.lengths, batch_size=batch_size, max_tokens=max_tokens)
        self._seed, self._shuffle, self._jitter = seed, shuffle, jitter
        settings = {
            "sequences": len(rows),
            "tokens": len(rows.flat),
            "batch_size": batch_size,
            "max_tokens": max_tokens,
            "jitter": jitter,
            "shuffle": shuffle,
            "seed": seed,
        }
        super().__init__(settings, rank=rank, world_size=world_size)

    def _plan(self, epoch: int) -> RaggedIds:
        if not self._shuffle:
            return self._buckets.in_order()
        return self._buckets.shuffled(draws(self._seed, epoch), self._jitter)

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
