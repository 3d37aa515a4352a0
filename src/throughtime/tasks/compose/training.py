"""The training objective of composers: batches of texts, and their likelihood given the condition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Unpack

import torch
from torch import Tensor

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import BucketOptions, RaggedIds
from throughtime.data.batching.pairs import ConditionedBatches, PairBatch
from throughtime.data.records import Specials
from throughtime.fit.objective import Carried, Loss
from throughtime.metrics.measures import Likelihood
from throughtime.tasks.labels import labelled_texts
from throughtime.tasks.objective import TextObjective, label_loss, likelihood, masked_labels
from throughtime.text.texts import one_line

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.compose.config import ComposeConfig
    from throughtime.tasks.compose.model import Composer
    from throughtime.tasks.compose.network import ConditionedLanguageModel

VALIDATION_BATCH = 128
SAMPLES = 3
SAMPLED_TOKENS = 40


@dataclass(frozen=True)
class ConditionedTexts:
    """Texts as ids, and the condition of each: numbers of labels [N], or vectors [N, width]."""

    texts: RaggedIds
    conditions: Tensor
    specials: Specials

    def __len__(self) -> int:
        """The number of texts."""
        return len(self.texts)

    def batches(self, max_length: int | None = None, **options: Unpack[BucketOptions]) -> ConditionedBatches:
        """The texts and their conditions in batches."""
        return ConditionedBatches(
            self.texts, self.conditions, self.specials, max_length=max_length, **options
        )

    def likelihood(self, model: ConditionedLanguageModel, rank: int = 0, world_size: int = 1) -> Likelihood:
        """The likelihood of this process's share of the texts, given their conditions."""
        size = VALIDATION_BATCH
        batches = self.batches(batch_size=size, shuffle=False, rank=rank, world_size=world_size)
        return likelihood(model, batches)

    def swap_conditions(self, labels: int | None, seed: int = 0) -> ConditionedTexts:
        """The same texts with wrong conditions: another of `labels` labels, or the vector of another text."""
        chance = torch.Generator().manual_seed(seed)
        count = len(self)
        if labels is not None:
            step = torch.randint(1, labels, (count,), generator=chance) if labels > 1 else 0
            return replace(self, conditions=(self.conditions + step) % labels)
        order = torch.randperm(count, generator=chance)
        other = torch.empty_like(order)
        other[order] = order.roll(1)
        return replace(self, conditions=self.conditions[other])


class ComposeObjective(TextObjective):
    """Predict each token of a text from its condition and the tokens before it."""

    predictor: Composer
    config: ComposeConfig
    model: ConditionedLanguageModel

    def __init__(self, composer: Composer, dataset: Dataset) -> None:
        super().__init__(composer)
        self.train = composer.texts(dataset, "train")
        usable, labels = dataset.has_records("valid"), composer.labels
        if usable and labels is not None:  # of few texts, none may have a label that is in the training data
            usable = any(record.label in labels for record in labelled_texts(dataset, "valid"))
        self.valid = composer.texts(dataset, "valid") if usable else None

    def batches(self, rank: int, world_size: int) -> ConditionedBatches:
        """Texts of similar lengths together."""
        return self.train.batches(self.config.max_length, **self.batch_options(rank, world_size))

    def loss(self, batch: Batch, carried: Carried) -> tuple[Loss, Carried]:
        """-ln P of the tokens; with label smoothing this is reported, and the smoothed loss minimised."""
        assert isinstance(batch, PairBatch)
        outputs = self.model(batch.source, batch.source_lengths, batch.inputs).outputs
        hidden, labels = outputs.flatten(0, 1), masked_labels(batch).flatten()
        return label_loss(self.model.head, hidden, labels, self.config.label_smoothing), ()

    def validate(self, rank: int, world_size: int) -> dict[str, float]:
        """The likelihood of the validation texts given their conditions."""
        if self.valid is None:
            return {}
        likelihood = self.valid.likelihood(self.model, rank, world_size)
        return {"nats": likelihood.nats, "tokens": likelihood.tokens}

    def sample(self) -> str | None:
        """A text for each of a few conditions, drawn with the same seed each time."""
        conditions = self.predictor.example_conditions(self.valid or self.train, SAMPLES)
        answers = self.predictor.compose(conditions, temperature=0.8, seed=0, max_new_tokens=SAMPLED_TOKENS)
        shown = [
            condition if isinstance(condition, str) else ",".join(f"{x:.3g}" for x in condition)
            for condition in conditions
        ]
        return "\n".join(f"{one} → {one_line(own.text)}" for one, own in zip(shown, answers, strict=True))
