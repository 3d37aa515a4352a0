"""The training objective of classifiers: batches of texts, the loss of their labels, accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import FrameTable, RaggedIds
from throughtime.data.batching.sequences import LabelledBatch, LabelledBatches
from throughtime.data.records import LabelledText
from throughtime.errors import InputError
from throughtime.fit.objective import Carried, Loss
from throughtime.metrics.classification import f1_scores
from throughtime.models.heads import IGNORED
from throughtime.tasks.labels import labelled_texts
from throughtime.tasks.objective import Direction, TextObjective, label_loss
from throughtime.tasks.texts import spread

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.classify.config import ClassifyConfig
    from throughtime.tasks.classify.model import Classifier
    from throughtime.tasks.classify.network import SequenceClassifier

VALIDATION_BATCH = 256
MAX_FRAMES = 16_384
"""Vectors in a batch, unless one sequence has more."""
SAMPLES = 3
UNKNOWN_LABEL = "<unknown>"
OWN_MEASURES: dict[str, Direction] = {"accuracy": "more", "macro_f1": "more", "log_loss": "less"}


class ClassifyObjective(TextObjective):
    """Predict the label of a whole text."""

    unit = "texts"
    predictor: Classifier
    config: ClassifyConfig
    model: SequenceClassifier

    def __init__(self, classifier: Classifier, dataset: Dataset) -> None:
        super().__init__(classifier)
        self.choose_measure(self.config.choose_by, OWN_MEASURES)
        self.labels = classifier.labels
        vectors = classifier.vectors
        self.frames = None if vectors is None else FrameTable(vectors.size)
        self.unit = "texts" if vectors is None else "sequences"
        train = list(labelled_texts(dataset, "train"))
        if strange := next((one.label for one in train if one.label not in self.labels), None):
            raise InputError(
                dataset.name, f"has the label {strange!r}, which the model does not know; train a new model"
            )
        valid = list(labelled_texts(dataset, "valid")) if "valid" in dataset.splits else []
        self.train, self.valid = self._rows(train), self._rows(valid) if valid else None
        self.shown = spread([one for one in valid if vectors is not None or one.text.strip()], SAMPLES)

    def _rows(self, records: list[LabelledText]) -> tuple[RaggedIds, NDArray[np.int64]]:
        """Texts as ids, and the numbers of their labels; IGNORED for a label that training does not know."""
        labels = [
            self.labels.number(record.label) if record.label in self.labels else IGNORED for record in records
        ]
        rows = (self.predictor.ids(one.text) for one in records)
        ids = self.frames.add(rows) if self.frames is not None else RaggedIds.of(rows)
        return ids, np.array(labels, dtype=np.int64)

    def _read(self, batch: LabelledBatch) -> Tensor:
        """The ids of the tokens of a batch, or its vectors."""
        return batch.ids if self.frames is None else self.frames.read(batch.ids)

    def batches(self, rank: int, world_size: int) -> LabelledBatches:
        """Texts of similar lengths together."""
        options = self.batch_options(rank, world_size)
        options["max_tokens"] = options["max_tokens"] or self.max_tokens(self.train[0])
        return LabelledBatches(*self.train, **options)

    def max_tokens(self, rows: RaggedIds) -> int | None:
        """The number of vectors in a batch: sequences may be long."""
        return None if self.frames is None else max(MAX_FRAMES, int(rows.lengths.max()))

    def loss(self, batch: Batch, carried: Carried) -> tuple[Loss, Carried]:
        """-ln P of the labels; with label smoothing this is reported, and the smoothed loss minimised."""
        assert isinstance(batch, LabelledBatch)
        pooled = self.model(self._read(batch), batch.lengths)
        return label_loss(self.model.head, pooled, batch.labels, self.config.label_smoothing), ()

    @torch.no_grad()
    def validate(self, rank: int, world_size: int) -> dict[str, float]:
        """The sum of -ln P, and for each label how often it is predicted rightly, is right, is predicted."""
        if self.valid is None:
            return {}
        batches = LabelledBatches(
            *self.valid,
            batch_size=VALIDATION_BATCH,
            max_tokens=self.max_tokens(self.valid[0]),
            shuffle=False,
            rank=rank,
            world_size=world_size,
        )
        device, nats = self.predictor.device, 0.0
        guesses, right = [torch.zeros(0, dtype=torch.long)], [torch.zeros(0, dtype=torch.long)]
        found = [
            (self.model.log_probs(self._read(batch.to(device)), batch.lengths.to(device)), batch.labels)
            for batch in batches
            if batch.rows
        ]
        for scores, labels in found:  # read after all batches have been launched, not one by one
            log_probs, known = scores.cpu(), labels >= 0
            nats -= float(log_probs[known, labels[known]].double().sum())
            guesses.append(log_probs.argmax(1))
            right.append(labels)
        predicted, labels = torch.cat(guesses), torch.cat(right)
        known = labels >= 0
        counted = predicted[predicted == labels], labels[known], predicted
        counts = [np.bincount(one.numpy(), minlength=len(self.labels)) for one in counted]
        sums = {f"label_{number}": float(count) for number, count in enumerate(np.concatenate(counts))}
        if self.registered is not None:  # over several processes, the mean weighted by their texts
            names = (*self.labels.names, UNKNOWN_LABEL)  # the last one, -1, for labels that are not known
            texts = [[names[max(number, -1)] for number in one.tolist()] for one in (predicted, labels)]
            sums["chosen"] = self.registered.value(*texts) * len(labels)
        return {"nats": nats, "texts": len(labels), "known": int(known.sum()), **sums}

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Accuracy, macro F1 and log loss; the measure that decides comes first."""
        count = len(self.labels)
        numbers = [round(sums[f"label_{number}"]) for number in range(3 * count)]
        hits, support, predicted = np.array(numbers, dtype=np.int64).reshape(3, count)
        measures = {
            "accuracy": float(hits.sum()) / sums["texts"],
            "macro_f1": float(f1_scores(hits, support, predicted)[support + predicted > 0].mean()),
            "log_loss": sums["nats"] / max(1.0, sums["known"]),
        }
        return self.decide_by(measures, sums, sums["texts"])

    def training_measures(self, mean: float) -> dict[str, float]:
        """The log loss of the training texts, measured with dropout."""
        return {"log_loss": mean}

    def sample(self) -> str | None:
        """A few validation texts with their predicted labels."""
        answers = self.predictor.classify([record.text for record in self.shown])
        lines = []
        for one, own in zip(self.shown, answers, strict=True):
            beside = "" if own.label == one.label else f", not {one.label}"
            lines.append(f"{own.text[:70]} → {own.label} {own.probability:.0%}{beside}")
        return "\n".join(lines) or None
