"""What is minimised: the squared error of the number of words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from throughtime.data.batching.sequences import LabelledBatches
from throughtime.fit.objective import Carried, Loss
from throughtime.layers.stack import Stack

if TYPE_CHECKING:
    from outside.wordcount.predictor import WordCounter


class Counter(nn.Module):
    """Characters in, one number out."""

    def __init__(self, vocabulary: int, cell: str, hidden_size: int, num_layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden_size)
        self.stack = Stack(cell, hidden_size, hidden_size, num_layers)
        self.head = nn.Linear(hidden_size, 1)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """The numbers of words [B] of texts [T, B]."""
        _, state = self.stack(self.embedding(ids), None, lengths)
        found: Tensor = self.head(state[0]).squeeze(-1)
        return found


class WordCountObjective:
    """Texts with the number of their words."""

    unit, measure, fixed_shapes = "texts", "mse", False
    better: Literal["less", "more"] = "less"

    def __init__(self, counter: WordCounter, train: list[str], valid: list[str]) -> None:
        self.model, self.config = counter.model, counter.config
        self.train, self.valid = counter.rows(train), counter.rows(valid)

    def batches(self, rank: int, world_size: int) -> LabelledBatches:
        """Texts of like lengths together."""
        config = self.config
        return LabelledBatches(
            *self.train, batch_size=config.batch_size, seed=config.seed, rank=rank, world_size=world_size
        )

    def count(self, batch: Any) -> int:
        """Its texts."""
        return int(batch.count)

    def loss(self, batch: Any, carried: Carried) -> tuple[Loss, Carried]:
        """Squared errors."""
        found = self.model(batch.ids, batch.lengths)
        return Loss(mse_loss(found, batch.labels.float(), reduction="sum")), ()

    @torch.no_grad()
    def validate(self, rank: int, world_size: int) -> dict[str, float]:
        """Squared errors of the validation texts."""
        total = texts = 0.0
        for batch in LabelledBatches(
            *self.valid, batch_size=64, shuffle=False, rank=rank, world_size=world_size
        ):
            if batch.rows:
                total += float(self.loss(batch, ())[0].total)
                texts += batch.rows
        return {"squares": total, "texts": texts}

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Their mean."""
        return {"mse": sums["squares"] / max(1.0, sums["texts"])}

    def training_measures(self, mean: float) -> dict[str, float]:
        """The mean squared error of training texts."""
        return {"mse": mean}

    def sample(self) -> str | None:
        """Nothing to show."""
        return None
