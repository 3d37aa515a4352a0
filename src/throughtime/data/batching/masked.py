"""Sentences in batches, with the places whose tokens are to be guessed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import BucketedBatches, BucketOptions, RaggedIds
from throughtime.errors import InputError


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """Whole sentences, [time, batch], and the places [N] in them, flattened, that a model is to hide."""

    ids: Tensor
    lengths: Tensor
    places: Tensor

    @property
    def labels(self) -> Tensor:
        """What stands at the places, [N]."""
        return self.ids.flatten()[self.places]


class MaskedBatches(BucketedBatches[MaskedBatch]):
    """Sentences of like lengths together, every one once an epoch, with `share` of their tokens masked.

    Each token is masked with this probability, so that a sentence may have several masks, and has at least
    one. Whether it is follows from the seed, the epoch and its place in the data alone: other batches, other
    processes or a run taken up again change nothing. Without `shuffle` the batches go from short to long and
    are the same whenever they are made, masks included.

    >>> batches = MaskedBatches(RaggedIds.of([[5, 6, 7, 8, 9], [4, 3]]), share=0.4, shuffle=False)
    >>> batch = next(iter(batches))
    >>> batch.ids.shape, len(batch.places), batch.count
    (torch.Size([5, 2]), 4, 4)
    """

    def __init__(
        self,
        rows: RaggedIds,
        *,
        share: float = 0.15,
        **options: Unpack[BucketOptions],
    ) -> None:
        if not 0 < share <= 1:
            raise InputError("mask_share", f"is {share}, expected more than 0 and at most 1")
        if not len(rows) or not rows.lengths.all():
            raise InputError("sentences", "are none, or one of them is empty; see `pieces`")
        self._rows, self._share = rows, share
        about = {"sentences": len(rows), "tokens": len(rows.flat), "share": share}
        options.setdefault("batch_size", 64)
        super().__init__(rows.lengths, rows.lengths, about, **options)

    def _collate(self, plan: RaggedIds, index: int) -> MaskedBatch:
        sentences = plan[index]
        masked = self._masked(sentences)
        ids, lengths = self._rows.padded(self._mine(sentences))
        mine = masked[: len(ids), self.rank :: self.world_size]
        return MaskedBatch(
            count=int(masked.sum()),
            ids=ids,
            lengths=lengths,
            places=torch.from_numpy(np.flatnonzero(mine)),
        )

    def _masked(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which tokens [time, batch] of these rows are masked: those with low lots, and each row's lowest."""
        lengths = self._rows.lengths_of(rows)
        time = np.arange(lengths.max(initial=0))[:, None]
        found = lots(self._seed, self.epoch, self._rows.offsets[rows] + time)
        found = np.where(time < lengths, found, 1.0)
        return np.asarray((found < self._share) | (time == found.argmin(axis=0)), dtype=np.bool_)


def lots(seed: int, epoch: int, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """A number from [0, 1) that looks drawn at random for each number: SplitMix64, the same everywhere.

    >>> lots(0, 0, np.array([7, 8]))
    array([0.80688285, 0.93199289])
    """
    key = np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)
    found = key + (numbers + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    found ^= found >> np.uint64(31)
    return (found >> np.uint64(11)).astype(np.float64) * 2.0**-53


def pieces(rows: RaggedIds, longest: int) -> RaggedIds:
    """Rows longer than `longest` cut into several, and empty ones left out.

    >>> cut = pieces(RaggedIds.of([[1, 2, 3, 4, 5], [], [6]]), 2)
    >>> [row.tolist() for row in cut]
    [[1, 2], [3, 4], [5], [6]]
    """
    counts = -(-rows.lengths // longest)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    starts = np.repeat(rows.offsets[:-1], counts) + longest * (np.arange(len(first)) - first)
    return RaggedIds(rows.flat, np.append(starts, len(rows.flat)))
