"""The training objective of classifiers: batches of texts, the loss of their labels, accuracy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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
from throughtime.models.linear_classifier import Partner
from throughtime.tasks.classify.runner import mix
from throughtime.tasks.labels import labelled_texts
from throughtime.tasks.objective import Direction, TextObjective, label_loss
from throughtime.tasks.texts import spread

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.classify.config import ClassifyConfig
    from throughtime.tasks.classify.model import Classifier
    from throughtime.tasks.classify.network import SequenceClassifier

MAX_FRAMES = 16_384
"""Vectors in a batch, unless one sequence has more."""
MAX_COUNTED = 2_000
SAMPLES = 3
UNKNOWN_LABEL = "<unknown>"
MIXTURES = (
    (0.0, 1.0),
    (0.0, 0.8),
    (0.0, 1.25),
    (0.2, 0.8),
    (0.3, 1.2),
    (0.4, 0.6),
    (0.6, 0.9),
    (0.6, 0.4),
    (0.9, 0.6),
    (0.8, 0.2),
    (1.0, 0.0),
)
"""The weights of ln P of the network and of its partner that are tried: shares, with several sums."""
ALONE = 3
"""Number of those that leave the network out; the first is what others are compared with."""
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
        self.labels, self.dataset = classifier.labels, dataset
        vectors = classifier.vectors
        self.frames = None if vectors is None else FrameTable(vectors.size)
        self.unit = "texts" if vectors is None else "sequences"
        train = list(labelled_texts(dataset, "train"))
        if strange := next((one.label for one in train if one.label not in self.labels), None):
            raise InputError(
                dataset.name, f"has the label {strange!r}, which the model does not know; train a new model"
            )
        valid = list(labelled_texts(dataset, "valid")) if "valid" in dataset.splits else []
        self.train, self.valid = self._rows(train), valid
        self.partner_scores: dict[tuple[int, int], NDArray[np.float64]] = {}
        if not valid and self.partner is not None:
            self.partner.mixture[:] = 0.5
        self.notes = tuple(self._describe_reading(train)) if self.frames is None else ()
        self.shown = spread([one for one in valid if self.frames is not None or one.text.strip()], SAMPLES)

    def _rows(self, records: list[LabelledText]) -> tuple[RaggedIds, NDArray[np.int64]]:
        """The parts of texts as ids, and the numbers of their labels."""
        parts = [self.predictor.split(record.text) for record in records]
        labels = np.repeat([self.labels.number(record.label) for record in records], list(map(len, parts)))
        rows = (ids for own in parts for ids in own)
        ids = RaggedIds.of(rows) if self.frames is None else self.frames.add(rows)
        return ids, labels.astype(np.int64)

    @property
    def partner(self) -> Partner | None:
        """The classifier beside the network."""
        return getattr(self.model, "partner", None)

    def _describe_reading(self, train: list[LabelledText]) -> Iterator[str]:
        """Say how many tokens are unknown, and whether texts are read in parts."""
        unknown, most = self.predictor.codec.vocabulary.unk_id, self.config.max_length
        ids = [self.predictor.codec.encode(record.text) for record in spread(self.valid, MAX_COUNTED)]
        tokens, missing = sum(map(len, ids)), sum(own.count(unknown) for own in ids if unknown is not None)
        if missing > 0.0005 * tokens:
            beside = "; the n-grams beside it read their letters" if self.partner is not None else ""
            yield f"{missing / tokens:.1%} of the validation tokens are unknown to the network{beside}."
        if (rows := len(self.train[0])) > len(train):
            parts = f"{len(train):,} texts, {rows:,} parts"
            yield f"The network reads texts of more than {most:,} tokens in parts: {parts}."

    def _read(self, batch: LabelledBatch) -> Tensor:
        """The ids of the tokens of a batch, or its vectors."""
        return batch.ids if self.frames is None else self.frames.read(batch.ids)

    def batches(self, rank: int, world_size: int) -> LabelledBatches:
        """Texts of similar lengths together."""
        options = self.batch_options(rank, world_size)
        if self.frames is not None and options["max_tokens"] is None:
            options["max_tokens"] = max(MAX_FRAMES, int(self.train[0].lengths.max()))
        return LabelledBatches(*self.train, **options)

    def loss(self, batch: Batch, carried: Carried) -> tuple[Loss, Carried]:
        """-ln P of the labels; with label smoothing this is reported, and the smoothed loss minimised."""
        assert isinstance(batch, LabelledBatch)
        pooled = self.model(self._read(batch), batch.lengths)
        return label_loss(self.model.head, pooled, batch.labels, self.config.label_smoothing), ()

    @torch.no_grad()
    def validate(self, rank: int, world_size: int) -> dict[str, float]:
        """For each mixture the sum of -ln P, and how often each label is right, is there, is predicted."""
        texts = [record.text for record in self.valid[rank::world_size]]
        labels = np.array(
            [
                self.labels.number(record.label) if record.label in self.labels else IGNORED
                for record in self.valid[rank::world_size]
            ],
            dtype=np.int64,
        )
        if not self.valid:
            return {}
        known, sums = labels >= 0, {"texts": float(len(labels)), "known": float((labels >= 0).sum())}
        network, partner = self.predictor.network_log_probs(texts), self._partner_log_probs(rank, world_size)
        first: NDArray[np.float64] | None = None
        for number, (own, other) in enumerate(self.mixtures):
            log_probs = mix((own, other), network, partner)
            guesses = log_probs.argmax(1)
            nats = -log_probs[known, labels[known]]
            first = nats if first is None else first
            gain = first - nats
            counted = guesses[guesses == labels], labels[known], guesses
            counts = np.concatenate([np.bincount(one, minlength=len(self.labels)) for one in counted])
            values = {"nats": nats.sum(), "gain": gain.sum(), "square": np.square(gain).sum()}
            if self.registered is not None:  # over several processes, the mean weighted by their texts
                names = (*self.labels.names, UNKNOWN_LABEL)  # the last one, -1, for unknown labels
                given = [[names[max(place, -1)] for place in one.tolist()] for one in (guesses, labels)]
                values["chosen"] = self.registered.value(*given) * len(labels)
            values |= {f"label_{label}": count for label, count in enumerate(counts)}
            sums |= {f"{name} of {number}": float(value) for name, value in values.items()}
        return sums

    @property
    def mixtures(self) -> Sequence[tuple[float, float]]:
        """The weights that are tried of ln P of the network and of its partner, the simplest first."""
        return ((1.0, 0.0),) if self.partner is None else MIXTURES

    def _partner_log_probs(self, rank: int, world_size: int) -> NDArray[np.float64]:
        """The answers of a partner that has not learned from the validation data; they never change."""
        if self.partner is None:
            return np.zeros((len(self.valid[rank::world_size]), len(self.labels)))
        if (rank, world_size) not in self.partner_scores:
            before = {name: buffer.clone() for name, buffer in self.partner.named_buffers()}
            if len(self.partner.splits) > 1:
                self.predictor.fit_partner(self.dataset, self.partner.splits[:1])
            texts = [record.text for record in self.valid[rank::world_size]]
            self.partner_scores[rank, world_size] = self.predictor.partner_log_probs(texts)
            self.partner.load_state_dict(before)
        return self.partner_scores[rank, world_size]

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Accuracy, macro F1 and log loss; the measure that decides comes first.

        A model with a partner takes the mixture of the lowest log loss, if it is better than the partner
        alone by more than a standard error.
        """
        numbers = range(len(self.mixtures))
        alone, best = (
            min(some, key=lambda number: sums[f"nats of {number}"]) for some in (numbers[:ALONE], numbers)
        )
        least = 0.0 if self.partner is None else self.partner.min_gain
        if sums[f"nats of {alone}"] - sums[f"nats of {best}"] <= max(
            least, math.sqrt(sums[f"square of {best}"])
        ):
            best = alone
        if self.partner is not None:
            self.partner.mixture.copy_(torch.tensor(MIXTURES[best]))
        sums = {
            **sums,
            **{name: sums[f"{name} of {best}"] for name in ("nats", "chosen") if f"{name} of {best}" in sums},
        }
        count = len(self.labels)
        counts = np.array([round(sums[f"label_{number} of {best}"]) for number in range(3 * count)])
        hits, support, predicted = counts.reshape(3, count)
        measures = {
            "accuracy": float(hits.sum()) / sums["texts"],
            "macro_f1": float(f1_scores(hits, support, predicted)[support + predicted > 0].mean()),
            "log_loss": sums["nats"] / max(1.0, sums["known"]),
        }
        if self.partner is not None:
            own, other = MIXTURES[best]
            measures["network_share"] = own / (own + other)
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
