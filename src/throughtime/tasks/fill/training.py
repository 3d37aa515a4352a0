"""Filling blanks as the trainer sees it: sentences with hidden tokens, a loss there, a perplexity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.sequences import MaskedBatch, MaskedBatches
from throughtime.metrics.likelihood import Likelihood
from throughtime.tasks.fill.network import MaskedTokens
from throughtime.train.objective import Loss, State

if TYPE_CHECKING:
    from throughtime.tasks.fill.predictor import Filler

SHOWN_WORDS = 3


class GuessCounts(NamedTuple):
    """Sums over hidden tokens: nats, their number, how many were the best guess, and among the best five."""

    nats: float
    tokens: float
    right: float
    top5: float

    def measures(self) -> dict[str, float]:
        """Perplexity, and the shares of tokens that were guessed."""
        return {
            "perplexity": Likelihood(self.nats, int(self.tokens)).perplexity,
            "accuracy": self.right / self.tokens,
            "top5": self.top5 / self.tokens,
        }


class FillTask:
    """Predict hidden tokens from all others of their sentence.

    `train` and `valid` are sentences as ids; `shown` are sentences with a blank that are filled each epoch.
    """

    unit = "blanks"
    measure = "perplexity"
    better: Literal["less", "more"] = "less"
    fixed_shapes = False  # batches are as long as their sentences

    def __init__(self, filler: Filler, train: RaggedIds, valid: RaggedIds | None, shown: list[str]) -> None:
        self.filler, self.config = filler, filler.config
        self.model: MaskedTokens = filler.model
        self.train, self.valid, self.shown = train, valid, shown

    def batches(self, rank: int, world_size: int) -> MaskedBatches:
        """Sentences of like lengths together, masked anew in each epoch."""
        config = self.config
        return MaskedBatches(
            self.train,
            share=config.mask_share,
            batch_size=config.batch_size,
            max_tokens=config.max_tokens,
            seed=config.seed,
            rank=rank,
            world_size=world_size,
        )

    def count(self, batch: Batch) -> int:
        """Its hidden tokens."""
        return batch.count

    def loss(self, batch: Batch, carried: State) -> tuple[Loss, State]:
        """Surprisals of the hidden tokens."""
        assert isinstance(batch, MaskedBatch)
        return Loss(self.model.loss(batch.ids, batch.places, batch.labels, batch.lengths)), ()

    def validate(self, rank: int, world_size: int) -> dict[str, float]:
        """The validation sentences, with the same masks each time."""
        if self.valid is None:
            return {}
        return self.filler.count_guesses(self.valid, rank=rank, world_size=world_size)._asdict()

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Perplexity, and the share of tokens that were guessed."""
        return GuessCounts(**sums).measures()

    def training_measures(self, mean: float) -> dict[str, float]:
        """The perplexity of the training text's hidden tokens, dropout included."""
        return {"perplexity": Likelihood(mean, 1).perplexity}

    def sample(self) -> str | None:
        """A few validation sentences with a blank, and the best words for it."""
        if not self.shown:
            return None
        lines = []
        for text, found in zip(self.shown, self.filler.fill(self.shown, k=SHOWN_WORDS), strict=True):
            own = (found, *found.alternatives)
            words = ", ".join(f"{one.tokens[0]} {one.probability:.0%}" for one in own)
            lines.append(f"{text} → {words}")
        return "\n".join(lines)
