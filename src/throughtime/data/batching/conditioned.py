"""Texts in batches, each with the label or the vector that it is to be written from."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from throughtime.data.batching.pairs import PairBatch, PairBatches, Specials
from throughtime.data.batching.ragged import RaggedIds
from throughtime.errors import InputError


class ConditionedBatches(PairBatches):
    """Pairs whose source is a condition: the number of a label, [1, batch], or a vector, [1, batch, width].

    >>> import torch
    >>> texts, labels = RaggedIds.of([[5, 6], [7]]), torch.tensor([4, 3])
    >>> batches = ConditionedBatches(texts, labels, Specials(0, 1, 2), batch_size=2, shuffle=False)
    >>> batch = next(iter(batches))
    >>> batch.source.tolist(), batch.labels.T.tolist()
    ([[4, 3]], [[5, 6, 2], [7, 2, 0]])
    """

    def __init__(
        self,
        texts: RaggedIds,
        conditions: Tensor,
        specials: Specials,
        *,
        batch_size: int = 32,
        max_tokens: int | None = None,
        max_length: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if len(conditions) != len(texts):
            raise InputError("conditions", f"are {len(conditions)} for {len(texts)} texts; give one for each")
        self._conditions = conditions
        # A condition has no length: a place of one step, to be filled in, says so to the buckets.
        super().__init__(
            RaggedIds.of([[0]] * len(texts)),
            texts,
            Specials(),
            specials,
            batch_size=batch_size,
            max_tokens=max_tokens,
            max_length=max_length,
            shuffle=shuffle,
            seed=seed,
            rank=rank,
            world_size=world_size,
        )

    def _collate(self, plan: RaggedIds, index: int) -> PairBatch:
        batch = super()._collate(plan, index)
        return replace(batch, source=self._conditions.index_select(0, batch.indices)[None])
