"""What the training objectives of tasks on texts share: measures, the loss of labels, likelihoods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from throughtime.data.batching.batches import Batch, real_positions
from throughtime.data.batching.buckets import BucketOptions
from throughtime.data.batching.pairs import PairBatch
from throughtime.fit.objective import Loss
from throughtime.metrics.measures import Likelihood, Measure, find_measure
from throughtime.models.heads import IGNORED, Head
from throughtime.models.seq2seq import EncoderDecoder

Direction = Literal["less", "more"]


class TextObjective:
    """An objective whose batches hold texts of similar lengths, measured by perplexity by default."""

    unit: str = "tokens"
    measure: str = "perplexity"
    better: Direction = "less"
    fixed_shapes: bool = True  # a GPU pads the batches to a few shapes
    registered: Measure | None = None
    """The measure of the registry `MEASURES` that the setting choose_by names, if any."""

    def __init__(self, predictor: Any) -> None:
        self.predictor, self.config, self.model = predictor, predictor.config, predictor.model

    def choose_measure(self, name: str, own: Mapping[str, Direction]) -> None:
        """Decide by one of the task's `own` measures, or by a registered one."""
        if name not in own:
            self.registered = find_measure(name, self.predictor.task)
        self.measure, self.better = name, own[name] if self.registered is None else self.registered.better

    def batch_options(self, rank: int, world_size: int) -> BucketOptions:
        """The options of the training batches."""
        config = self.config
        return {
            "batch_size": config.batch_size,
            "max_tokens": getattr(config, "max_tokens", None),
            "seed": config.seed,
            "rank": rank,
            "world_size": world_size,
        }

    def count(self, batch: Batch) -> int:
        """The number of targets of a batch, over all processes."""
        return batch.count

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Perplexity and bits per token."""
        likelihood = Likelihood(sums["nats"], int(sums["tokens"]))
        return {"perplexity": likelihood.perplexity, "bits_per_token": likelihood.bits_per_token}

    def decide_by(
        self, measures: dict[str, float], sums: Mapping[str, float], count: float
    ) -> dict[str, float]:
        """Put the measure that decides first; a registered one is the mean of `chosen` over `count`."""
        if self.registered is not None:
            measures[self.measure] = sums["chosen"] / max(1.0, count)
        return {self.measure: measures[self.measure], **measures}

    def training_measures(self, mean: float) -> dict[str, float]:
        """The perplexity of the training texts, measured with dropout."""
        return {"perplexity": Likelihood(mean, 1).perplexity}


def masked_labels(batch: PairBatch) -> Tensor:
    """Return the labels [L, B] with IGNORED in place of padding, which then adds nothing to the loss."""
    return torch.where(real_positions(len(batch.labels), batch.target_lengths), batch.labels, IGNORED)


def label_loss(head: Head, hidden: Tensor, labels: Tensor, smoothing: float) -> Loss:
    """Return the loss of labels; with smoothing, it is only reported, and the smoothed loss is minimised."""
    if not smoothing:
        return Loss(head.loss(hidden, labels))
    return Loss(*head.smoothed_loss(hidden, labels, smoothing))


def surprisals(model: EncoderDecoder, batch: PairBatch) -> Tensor:
    """Return -ln P of each target token given the source and the tokens before it, [L, B]; 0 for padding."""
    outputs = model(batch.source, batch.source_lengths, batch.inputs).outputs
    return model.head.surprisals(outputs.flatten(0, 1), masked_labels(batch).flatten()).view_as(batch.labels)


@torch.no_grad()
def likelihood(model: EncoderDecoder, batches: Iterable[PairBatch]) -> Likelihood:
    """Return the likelihood of the targets of some batches."""
    device = next(model.parameters()).device
    nats = torch.zeros((), dtype=torch.float64, device=device)
    tokens = 0
    for batch in batches:
        if batch.rows:
            nats += surprisals(model, batch.to(device)).double().sum()
            tokens += int(batch.target_lengths.sum())
    return Likelihood(float(nats), tokens)
