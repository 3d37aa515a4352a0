"""Classification as the trainer sees it: batches of texts, the surprisal of their labels, accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.sequences import LabelledBatch, LabelledBatches
from throughtime.data.records import Labelled
from throughtime.metrics.classification import f1_scores
from throughtime.metrics.measures import find_measure
from throughtime.tasks.classify.network import SequenceClassifier
from throughtime.tasks.surprisal import label_loss
from throughtime.train.objective import Loss, State

if TYPE_CHECKING:
    from throughtime.tasks.classify.predictor import Classifier

VALIDATION_BATCH = 256
UNKNOWN_LABEL = "<unknown>"
OWN_MEASURES = ("accuracy", "macro_f1", "log_loss")

Rows = tuple[RaggedIds, NDArray[np.int64]]
"""Texts as ids, and the number of each one's label; IGNORED for a label that training does not know."""


class ClassifyTask:
    """Predict the label of a whole text. `shown` are validation texts to show after each epoch."""

    measure: str
    better: Literal["less", "more"]
    unit: str = "texts"
    fixed_shapes: bool = False  # batches are as long as their texts

    def __init__(
        self, classifier: Classifier, train: Rows, valid: Rows | None, shown: Sequence[Labelled]
    ) -> None:
        self.classifier, self.config = classifier, classifier.config
        self.model: SequenceClassifier = classifier.model
        self.train, self.valid, self.shown = train, valid, shown
        self.measure = self.config.choose_by
        self.chosen_by = None if self.measure in OWN_MEASURES else find_measure(self.measure, "classify")
        if self.chosen_by is not None:
            self.better = self.chosen_by.better
        else:
            self.better = "less" if self.measure == "log_loss" else "more"

    def batches(self, rank: int, world_size: int) -> LabelledBatches:
        """Texts of like lengths together."""
        config = self.config
        return LabelledBatches(
            *self.train,
            batch_size=config.batch_size,
            max_tokens=config.max_tokens,
            seed=config.seed,
            rank=rank,
            world_size=world_size,
        )

    def count(self, batch: Batch) -> int:
        """Its texts."""
        return batch.count

    def loss(self, batch: Batch, carried: State) -> tuple[Loss, State]:
        """Surprisals of the labels; with label smoothing, measured but not what is minimised."""
        assert isinstance(batch, LabelledBatch)
        pooled = self.model(batch.ids, batch.lengths)
        return label_loss(self.model.head, pooled, batch.labels, self.config.label_smoothing), ()

    @torch.no_grad()
    def validate(self, rank: int, world_size: int) -> dict[str, float]:
        """What the measures need: surprisals, and of each label how often it is found, right, and given."""
        if self.valid is None:
            return {}
        batches = LabelledBatches(
            *self.valid, batch_size=VALIDATION_BATCH, shuffle=False, rank=rank, world_size=world_size
        )
        device, labels = self.model.head.weight.device, len(self.classifier.labels)
        nats, counts = 0.0, np.zeros((3, labels), np.int64)
        texts = known = 0
        predictions, references = [], []
        names = (*self.classifier.labels.names, UNKNOWN_LABEL)  # the last, -1, is for labels not known
        for batch in batches:
            if not batch.rows:
                continue
            right = batch.labels >= 0
            log_probs = self.model.log_probs(batch.ids.to(device), batch.lengths.to(device)).cpu()
            given = log_probs.argmax(1)
            nats -= float(log_probs[right, batch.labels[right]].double().sum())
            found = given[given == batch.labels], batch.labels[right], given
            counts += np.stack([np.bincount(one.numpy(), minlength=labels) for one in found])
            texts, known = texts + batch.rows, known + int(right.sum())
            predictions += [names[number] for number in given.tolist()]
            references += [names[max(number, -1)] for number in batch.labels.tolist()]
        named = {f"label_{number}": float(count) for number, count in enumerate(counts.flatten())}
        if self.chosen_by is not None:  # of several processes, the mean over their texts
            named["chosen"] = self.chosen_by.value(predictions, references) * texts
        return {"nats": nats, "texts": texts, "known": known, **named}

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Accuracy, macro F1 and log loss, the one that decides first."""
        labels = len(self.classifier.labels)
        numbers = [round(sums[f"label_{number}"]) for number in range(3 * labels)]
        hits, support, given = np.array(numbers, dtype=np.int64).reshape(3, labels)
        measures = {
            "accuracy": float(hits.sum()) / sums["texts"],
            "macro_f1": float(f1_scores(hits, support, given)[support + given > 0].mean()),
            "log_loss": sums["nats"] / max(1.0, sums["known"]),
        }
        if self.chosen_by is not None:
            measures[self.measure] = sums["chosen"] / max(1.0, sums["texts"])
        return {self.measure: measures[self.measure], **measures}

    def training_measures(self, mean: float) -> dict[str, float]:
        """The log loss of the training texts, dropout included."""
        return {"log_loss": mean}

    def sample(self) -> str | None:
        """A few validation texts with the label that they get."""
        found = self.classifier.classify([one.text for one in self.shown])
        lines = []
        for one, own in zip(self.shown, found, strict=True):
            beside = "" if own.label == one.label else f", not {one.label}"
            lines.append(f"{one.text[:70]} → {own.label} {own.probability:.0%}{beside}")
        return "\n".join(lines) or None
