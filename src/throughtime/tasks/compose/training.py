"""Writing from a condition as the trainer sees it: batches of texts, their surprisals given the condition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.pairs import ConditionedBatches, PairBatch
from throughtime.data.records import Specials
from throughtime.metrics.likelihood import Likelihood
from throughtime.tasks.compose.network import ConditionedLanguageModel
from throughtime.tasks.surprisal import label_loss, likelihood, masked_labels
from throughtime.text.texts import one_line
from throughtime.train.objective import Loss, State

if TYPE_CHECKING:
    from throughtime.tasks.compose.predictor import Composer

VALIDATION_BATCH = 128
SAMPLES = 3
SAMPLED_TOKENS = 40


@dataclass(frozen=True)
class ConditionedTexts:
    """Texts as bare ids, and what each is written from: numbers of labels [N], or vectors [N, width]."""

    texts: RaggedIds
    conditions: Tensor
    specials: Specials

    def __len__(self) -> int:
        """The number of texts."""
        return len(self.texts)

    def likelihood(self, model: ConditionedLanguageModel, rank: int = 0, world_size: int = 1) -> Likelihood:
        """How likely the model finds these texts given their conditions."""
        batches = ConditionedBatches(
            self.texts,
            self.conditions,
            self.specials,
            batch_size=VALIDATION_BATCH,
            shuffle=False,
            rank=rank,
            world_size=world_size,
        )
        return likelihood(model, batches)

    def with_others(self, labels: int | None, seed: int = 0) -> ConditionedTexts:
        """The same texts with wrong conditions: another of `labels` labels, or another text's vector."""
        chance = torch.Generator().manual_seed(seed)
        count = len(self)
        if labels is not None:
            step = torch.randint(1, labels, (count,), generator=chance) if labels > 1 else 0
            return replace(self, conditions=(self.conditions + step) % labels)
        order = torch.randperm(count, generator=chance)
        other = torch.empty_like(order)
        other[order] = order.roll(1)
        return replace(self, conditions=self.conditions[other])


class ComposeTask:
    """Predict each token from the condition and the tokens before it."""

    unit = "tokens"
    measure = "perplexity"
    better: Literal["less", "more"] = "less"
    fixed_shapes: bool = False  # batches are as long as their texts

    def __init__(self, composer: Composer, train: ConditionedTexts, valid: ConditionedTexts | None) -> None:
        self.composer, self.config = composer, composer.config
        self.model: ConditionedLanguageModel = composer.model
        self.train, self.valid = train, valid

    def batches(self, rank: int, world_size: int) -> ConditionedBatches:
        """Texts of like lengths together."""
        config, train = self.config, self.train
        return ConditionedBatches(
            train.texts,
            train.conditions,
            train.specials,
            batch_size=config.batch_size,
            max_tokens=config.max_tokens,
            max_length=config.max_length,
            seed=config.seed,
            rank=rank,
            world_size=world_size,
        )

    def count(self, batch: Batch) -> int:
        """Its tokens, end tokens included."""
        return batch.count

    def loss(self, batch: Batch, carried: State) -> tuple[Loss, State]:
        """Surprisals of the real tokens; with label smoothing, measured but not what is minimised."""
        assert isinstance(batch, PairBatch)
        outputs = self.model(batch.source, batch.source_lengths, batch.inputs).outputs
        hidden, labels = outputs.flatten(0, 1), masked_labels(batch).flatten()
        return label_loss(self.model.head, hidden, labels, self.config.label_smoothing), ()

    def validate(self, rank: int, world_size: int) -> dict[str, float]:
        """The likelihood of the validation texts given their conditions."""
        if self.valid is None:
            return {}
        found = self.valid.likelihood(self.model, rank, world_size)
        return {"nats": found.nats, "tokens": found.tokens}

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Perplexity and bits."""
        found = Likelihood(sums["nats"], int(sums["tokens"]))
        return {"perplexity": found.perplexity, "bits_per_token": found.bits_per_token}

    def training_measures(self, mean: float) -> dict[str, float]:
        """The perplexity of the training texts, dropout included."""
        return {"perplexity": Likelihood(mean, 1).perplexity}

    def sample(self) -> str | None:
        """A text for each of a few conditions, from the same chance each time."""
        conditions = self.composer.examples(self.valid or self.train, SAMPLES)
        found = self.composer.compose(conditions, temperature=0.8, seed=0, max_new_tokens=SAMPLED_TOKENS)
        shown = [one if isinstance(one, str) else ",".join(f"{x:.3g}" for x in one) for one in conditions]
        return "\n".join(f"{one} → {one_line(own.text)}" for one, own in zip(shown, found, strict=True))
