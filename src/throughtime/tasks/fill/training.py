"""The training objective of models that fill blanks: sentences with hidden tokens, and their perplexity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.sequences import MaskedBatch, MaskedBatches
from throughtime.fit.objective import Carried, Loss
from throughtime.layers.devices import choose_device
from throughtime.metrics.measures import Likelihood
from throughtime.models.chunked_loss import sampled_surprisal
from throughtime.tasks.objective import TextObjective
from throughtime.tasks.texts import spread
from throughtime.text.framing import draw_blank

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.fill.config import FillConfig
    from throughtime.tasks.fill.model import Filler
    from throughtime.tasks.fill.network import MaskedTokens

SAMPLES = 3
WORDS_PER_SAMPLE = 3
SAMPLED_WORDS = 2_000
"""Words of the softmax in training on a CPU, besides those of the batch, where a pass predicts all tokens."""


class GuessCounts(NamedTuple):
    """Sums over hidden tokens: -ln P, number, and how many were the best guess or among the best five."""

    nats: float
    tokens: float
    right: float
    top5: float

    def measures(self) -> dict[str, float]:
        """Perplexity, and the shares of tokens that were guessed right."""
        return {
            "perplexity": Likelihood(self.nats, int(self.tokens)).perplexity,
            "accuracy": self.right / self.tokens,
            "top5": self.top5 / self.tokens,
        }


class FillObjective(TextObjective):
    """Predict hidden tokens from all other tokens of their sentence."""

    unit = "blanks"
    predictor: Filler
    config: FillConfig
    model: MaskedTokens

    def __init__(self, filler: Filler, dataset: Dataset) -> None:
        super().__init__(filler)
        self.train = filler.ids(dataset, "train")
        held_out = dataset.texts("valid", self.config.find_side(dataset)) if "valid" in dataset.splits else ()
        # A file of few lines has none left for validation.
        self.valid = filler.ids(dataset, "valid") if any(text.strip() for text in held_out) else None
        self.shown = [] if self.valid is None else self._draw_blanks(self.valid)
        self.frequent = self._find_frequent()
        self.fixed_shapes = self.frequent is None

    def _find_frequent(self) -> Tensor | None:
        """The most frequent words, half of those that a sampled softmax has; None for a softmax over all."""
        size = self.config.sampled_words
        if size is None:
            # Not where the weights are now: a model is created on the CPU, whatever will train it.
            costly = self.config.structure == "beside" and choose_device(self.config.device).type == "cpu"
            size = SAMPLED_WORDS if costly else 0
        words = len(self.predictor.codec.vocabulary)
        if not size or words < 2 * size:
            return None
        counts = np.bincount(self.train.flat, minlength=words)
        return torch.from_numpy(np.argsort(-counts, kind="stable")[: size - size // 2])

    def _draw_blanks(self, rows: RaggedIds) -> list[str]:
        """A few sentences from all over the data, with a blank in the middle."""
        codec = self.predictor.codec
        unk = codec.vocabulary.unk_id
        fit = [
            row for row in (rows[number] for number in range(len(rows))) if len(row) > 2 and unk not in row
        ]
        return [draw_blank(row.tolist(), len(row) // 2, codec) for row in spread(fit, SAMPLES)]

    def batches(self, rank: int, world_size: int) -> MaskedBatches:
        """Sentences of similar lengths together, with new masks in each epoch."""
        return MaskedBatches(
            self.train,
            share=self.config.mask_share,
            ask_all=self.config.structure == "beside",
            **self.batch_options(rank, world_size),
        )

    def loss(self, batch: Batch, carried: Carried) -> tuple[Loss, Carried]:
        """-ln P of the hidden tokens, and of others if the structure can predict them in the same pass."""
        assert isinstance(batch, MaskedBatch)
        others = (batch.asked,) if self.config.structure == "beside" else ()
        if self.frequent is None:
            return Loss(self.model.loss(batch.ids, batch.places, batch.labels, batch.lengths, *others)), ()
        states = self.model(batch.ids, batch.places, batch.lengths, *others)
        frequent = self.frequent.to(states.device)
        return Loss(sampled_surprisal(self.model.head, states, batch.labels, frequent, len(frequent))), ()

    def validate(self, rank: int, world_size: int) -> dict[str, float]:
        """What is counted on the validation sentences, with the same masks each time."""
        if self.valid is None:
            return {}
        return self.predictor.count_guesses(self.valid, rank=rank, world_size=world_size)._asdict()

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Perplexity, and the shares of tokens that were guessed right."""
        return GuessCounts(**sums).measures()

    def sample(self) -> str | None:
        """A few validation sentences with a blank, and the most likely words for it."""
        lines = []
        for text, filling in zip(
            self.shown, self.predictor.fill(self.shown, k=WORDS_PER_SAMPLE), strict=True
        ):
            own = (filling, *filling.alternatives)
            words = ", ".join(f"{one.tokens[0]} {one.probability:.0%}" for one in own)
            lines.append(f"{text} → {words}")
        return "\n".join(lines) or None
