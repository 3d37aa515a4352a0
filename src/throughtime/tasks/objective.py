"""What the training objectives of tasks on texts share; a task adds batches, loss and validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import BucketOptions
from throughtime.metrics.likelihood import Likelihood
from throughtime.metrics.measures import Measure, find_measure

Direction = Literal["less", "more"]


class TextObjective:
    """An objective whose batches hold texts of similar lengths, measured by perplexity by default."""

    unit: str = "tokens"
    measure: str = "perplexity"
    better: Direction = "less"
    fixed_shapes: bool = False  # a batch is as long as its longest text
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
        found = Likelihood(sums["nats"], int(sums["tokens"]))
        return {"perplexity": found.perplexity, "bits_per_token": found.bits_per_token}

    def training_measures(self, mean: float) -> dict[str, float]:
        """The perplexity of the training texts, measured with dropout."""
        return {"perplexity": Likelihood(mean, 1).perplexity}
