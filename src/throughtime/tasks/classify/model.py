"""A trained classifier: texts in, labels and their probabilities out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.layers.devices import matmul_precision
from throughtime.results import Evaluation
from throughtime.runtime.runner import Ids
from throughtime.runtime.vectors import VectorCodec
from throughtime.tasks.base import Progress
from throughtime.tasks.classify.config import ClassifyConfig
from throughtime.tasks.classify.network import GramClassifier, SequenceClassifier, build_classifier
from throughtime.tasks.classify.runner import TextClassifier
from throughtime.tasks.description import Description, refuse_options, write_card
from throughtime.tasks.labels import Labels, labelled_texts
from throughtime.tasks.texts import TextAssets, TextPredictor, build_codec
from throughtime.text.codec import choose_reserved
from throughtime.text.grams import Grams
from throughtime.text.texts import align_columns, format_count

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.fit.processes import Processes
    from throughtime.metrics.classification import Confusion

MAX_COLUMNS = 12
"""Number of labels up to which a report has a table of confusions, not a list of the most frequent ones."""
CHARACTERS, EFFORT = 20_000_000, 0.25
"""Maximum number of characters from which n-grams are learned, and the share of it for each minute."""
SEQUENCES = 10_000
"""Maximum number of sequences of vectors to which the weights of convolutions are fitted."""


class Classifier(TextClassifier, TextPredictor):
    """Gives whole texts a label: `tt.load("RUN").classify("play some jazz")[0].label`."""

    task = "classify"
    config_type = ClassifyConfig
    network_parts = ("log_probs", "head")
    codec: Any
    model: SequenceClassifier
    assets: TextAssets
    config: ClassifyConfig

    def __init__(self, model: SequenceClassifier, assets: TextAssets, config: ClassifyConfig) -> None:
        super().__init__(model, assets, config)
        self.labels, self.max_length = assets.known_labels, config.max_length
        self.label_names = self.labels.names

    @classmethod
    def prepare(cls, config: ClassifyConfig, dataset: Dataset) -> tuple[ClassifyConfig, TextAssets]:
        """Collect the labels, and build the vocabulary of the training texts."""
        refuse_vectors(dataset)
        labels = Labels.of(dataset)
        if len(labels) == 1:
            raise InputError(
                f"{dataset.name}, split train",
                f"has only the label {labels.names[0]!r}; a classifier needs two or more: give more records",
            )
        config = config.complete(dataset)
        if dataset.kind == "vectors":
            records = list(dataset.records("train"))
            return config, TextAssets(
                VectorCodec.of([one.values for one in records], records[0].features), labels
            )
        texts = (record.text for record in dataset.labelled_texts("train"))
        return config, TextAssets(
            build_codec(texts, config, dataset.name, reserved=choose_reserved(None, "classify")), labels
        )

    @classmethod
    def load_assets(cls, folder: ModelFolder, config: ClassifyConfig) -> TextAssets:
        """Read the vocabulary and the labels."""
        return TextAssets.load(folder, labelled=True)

    @classmethod
    def build_network(cls, config: ClassifyConfig, assets: TextAssets) -> SequenceClassifier:
        """Build the network that a configuration describes."""
        if isinstance(codec := assets.codec, VectorCodec):
            return build_classifier(config, codec.size, len(assets.known_labels), vectors=codec)
        words = codec.vocabulary
        return build_classifier(config, len(words), len(assets.known_labels), unknown_id=words.unk_id)

    def read_examples(self, dataset: Dataset, split: str) -> Iterator[str]:
        """Yield the texts of a split, without their labels."""
        return iter(()) if dataset.kind == "vectors" else (one.text for one in dataset.labelled_texts(split))

    def adapt_to(self, dataset: Dataset) -> None:
        """Fit the weights of the partner of the network."""
        if self.model.partner is not None:
            self.fit_partner(dataset, self.model.partner.splits)

    def fit_partner(self, dataset: Dataset, splits: Sequence[str]) -> None:
        """Fit the partner to records of some splits with known labels; of many, to a part."""
        partner = self.model.partner
        assert partner is not None
        given = (labelled_texts(dataset, split) for split in splits if split in dataset.splits)
        records = [record for split in given for record in split if record.label in self.labels]
        effort, vectors = min(1.0, EFFORT * (self.config.minutes or math.inf)), self.vectors
        if vectors is None:
            apart = math.ceil(sum(len(record.text) for record in records) / (effort * CHARACTERS))
        else:
            apart = math.ceil(len(records) / SEQUENCES)
        some = records[:: max(1, apart)]
        read = [record.text if vectors is None else vectors.encode(record.text) for record in some]
        labels = [self.labels.number(record.label) for record in some]
        partner.cpu().learn(read, labels, self.config.seed, effort)
        partner.to(self.device)

    def add_seen(self, dataset: Dataset, out: Path | None = None, processes: Processes | None = None) -> None:
        """Add the other splits too from which the partner of the network has learned."""
        super().add_seen(dataset, out, processes)
        for split in () if self.model.partner is None else self.model.partner.splits[1:]:
            if self.seen is not None and split in dataset.splits:
                self.seen = self.seen.add(self.hash_split(dataset, split))

    @property
    def mixture(self) -> tuple[float, ...]:  # type: ignore[override]
        """The weights of ln P of the network and of its partner; empty without a partner."""
        partner = getattr(self.model, "partner", None)
        return () if partner is None else tuple(partner.mixture.tolist())

    @property
    def grams(self) -> Grams:  # type: ignore[override]
        """The n-grams that the partner knows."""
        assert isinstance(self.model.partner, GramClassifier)
        return self.model.partner.grams

    def initialise_weights(self) -> None:
        """Start from the frequencies of the labels in the training data."""
        self.model.expect(torch.tensor(self.labels.frequencies))

    @torch.inference_mode()
    def _compute(self, ids: Ids, lengths: Ids) -> NDArray[np.float32]:
        self.model.eval()
        with matmul_precision("float32"):
            read = (torch.from_numpy(one).to(self.device) for one in (ids, lengths))
            return np.asarray(self.model.log_probs(*read).cpu().numpy())

    @torch.inference_mode()
    def _add_up(self, *given: NDArray[Any]) -> NDArray[np.float32]:
        assert self.model.partner is not None
        read = (torch.from_numpy(one).to(self.device) for one in given)
        return np.asarray(self.model.partner.log_probs(*read).cpu().numpy())

    def evaluate_split(
        self, dataset: Dataset, split: str, *, progress: Progress | None = None, **options: Any
    ) -> Evaluation:
        """Measure accuracy, macro F1, log loss and the confusion of labels on a split."""
        from throughtime.metrics.classification import Confusion
        from throughtime.metrics.measures import compute_measures

        refuse_options(options, ("measures",), "is not for classifiers")
        refuse_vectors(dataset)
        records = list(labelled_texts(dataset, split))
        if not records:
            raise InputError(f"{dataset.name}, split {split}", "holds no labelled text")
        log_probs = self.log_probs([one.text for one in records], progress)
        guesses = [self.labels.names[place] for place in log_probs.argmax(1).tolist()]
        references = [record.label for record in records]
        confusion = Confusion.of(references, guesses)
        known = [row for row, label in enumerate(references) if label in self.labels]
        nats = -sum(float(log_probs[row, self.labels.number(references[row])]) for row in known)
        values: dict[str, Any] = {
            "accuracy": confusion.accuracy,
            "macro_f1": confusion.macro_f1,
            "log_loss": nats / len(known) if known else math.inf,
            "texts": len(records),
            "unknown_labels": len(records) - len(known),
            "classes": {label_class.label: label_class.values() for label_class in confusion.classes},
            "confusion": {"labels": list(confusion.labels), "counts": confusion.counts.tolist()},
        }
        values |= (further := compute_measures(options.get("measures") or (), self.task, guesses, references))
        lines = [_report(confusion, values), *(f"{name} {value:.4g}" for name, value in further.items())]
        return Evaluation(values, self._reading, "\n".join(lines))

    def describe(self) -> Description:
        """The model in words."""
        config, labels = self.config, len(self.labels)
        share = self.mixture[0] / sum(self.mixture) if self.mixture and self.folder is not None else None
        ways = " each way" if config.bidirectional else ""
        given = ('"a text"', '"a text"') if self.vectors is None else ("--file sequences.csv", "array")
        return Description(
            f"Classifier of {config.data}",
            f"{self._layers}{ways}, {config.pooling} pooling",
            f"{format_count(labels, 'label')}, {self._vocabulary}",
            {"labels": f"{labels}, listed in labels.json", **self._tokens, **self._answers(share)},
            [f"classify FOLDER {given[0]}"],
            f"classify({given[1]})[0].label",
        )

    def _answers(self, share: float | None) -> dict[str, str]:
        if share is None or self.model.partner is None:
            return {}
        mixed = f"{share:.0%} network, {1 - share:.0%} {self.model.partner.title}"
        return {"answers": f"{mixed}; validation chose this mixture"}

    def card(self, values: Mapping[str, Any]) -> str:
        """Return the text of README.md in the model folder; `values` are measurements of the training."""
        answers = self._answers(values["best"].get("network_share"))
        words = self._words()
        words = replace(words, facts={**words.facts, **answers})
        return write_card(words, self.config, values, self.examples)

    def summary(self, values: Mapping[str, Any]) -> str:
        """Summarise a finished training in words."""
        alone = values["best"].get("network_share") == 0
        if not alone or self.model.partner is None:
            return super().summary(values)
        title = self.model.partner.title
        return f"{super().summary(values)}\nThe answers are those of {title} alone: the network did not help."


def refuse_vectors(dataset: Dataset) -> None:
    """Refuse texts with vectors, which are for `compose`."""
    if dataset.kind == "described":
        raise InputError(
            dataset.name,
            "has records with a vector and no label; a classifier needs texts with a label each: rows of a "
            "table with columns text and label",
        )


def _report(confusion: Confusion, values: Mapping[str, Any]) -> str:
    """The scores, also of each label, and the confusions, for people."""
    unknown = values["unknown_labels"]
    beside = f", {unknown:,} of them with labels that training did not know" if unknown else ""
    known = f" of the {values['texts'] - unknown:,} with known labels" if unknown else ""
    scores = [
        (kind.label, f"{kind.precision:.2%}", f"{kind.recall:.2%}", f"{kind.f1:.2%}", f"{kind.support:,}")
        for kind in confusion.classes
    ]
    return "\n".join(
        [
            f"accuracy {values['accuracy']:.2%}, macro F1 {values['macro_f1']:.2%}, "
            f"log loss {values['log_loss']:.4f}{known}",
            f"over {format_count(values['texts'], 'text')}{beside}\n",
            *align_columns([("", "precision", "recall", "F1", "texts"), *scores]),
            *_mistakes(confusion),
        ]
    )


def _mistakes(confusion: Confusion) -> list[str]:
    """How often each label was predicted for each: a table, or for many labels the most frequent mistakes."""
    if len(confusion.labels) > MAX_COLUMNS:
        mistakes = [
            f"{count:6,}  {right} taken for {guess}" for right, guess, count in confusion.list_mistakes()
        ]
        return ["\nmost frequent mistakes:", *mistakes] if mistakes else []
    rows = [
        (f"{number:>2} {label}", *(f"{count:,}" for count in counts))
        for number, (label, counts) in enumerate(
            zip(confusion.labels, confusion.counts.tolist(), strict=True), 1
        )
    ]
    head = ("", *(str(number) for number in range(1, len(rows) + 1)))
    return ["\nconfusion matrix (rows: true labels, columns: predictions):", *align_columns([head, *rows])]
