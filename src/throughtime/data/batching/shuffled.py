"""Windows of series in random order: the sampler shared by all models of series."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any, TypeVar

import numpy as np

from throughtime.data.batching.batch import Batch
from throughtime.data.batching.draws import draws, permutation
from throughtime.data.batching.position import Batches, at_least
from throughtime.data.batching.ragged import RaggedIds

WindowBatch = TypeVar("WindowBatch", bound=Batch)


class ShuffledWindows(Batches[RaggedIds, WindowBatch]):
    """Every window once per epoch, shuffled by seed and epoch, or in the order of time without `shuffle`.

    `about` holds further settings of the windows; a saved position is restored only if they are the same.
    """

    def __init__(
        self,
        windows: Sized,
        about: Mapping[str, Any],
        batch_size: int,
        *,
        seed: int,
        shuffle: bool,
        rank: int,
        world_size: int,
        keep_last: bool = True,
    ) -> None:
        settings = {
            "windows": len(windows),
            **about,
            "batch_size": at_least("batch_size", batch_size, 1),
            "shuffle": shuffle,
            "seed": seed,
        }
        super().__init__(settings, rank=rank, world_size=world_size)
        self._count, self._batch_size = len(windows), batch_size
        self._seed, self._shuffle, self._keep_last = seed, shuffle, keep_last

    def _plan(self, epoch: int) -> RaggedIds:
        count = self._count
        order = permutation(count, draws(self._seed, epoch)) if self._shuffle else np.arange(count)
        return RaggedIds.chunks(order, self._batch_size, self._keep_last)
