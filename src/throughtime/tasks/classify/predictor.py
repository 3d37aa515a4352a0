"""A trained classifier: texts in, labels and their probabilities out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.sequences import LabelledBatches
from throughtime.data.records import Labelled
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.layers.devices import matmul_precision
from throughtime.metrics.classification import Confusion
from throughtime.metrics.measures import compute_measures
from throughtime.models.heads import IGNORED
from throughtime.results import Classified, Evaluation
from throughtime.tasks.base import Progress
from throughtime.tasks.classify.config import ClassifyConfig
from throughtime.tasks.classify.network import SequenceClassifier, build
from throughtime.tasks.classify.runner import rank_labels
from throughtime.tasks.classify.training import ClassifyTask
from throughtime.tasks.description import Description, refuse_options
from throughtime.tasks.labels import Labels, labelled_texts
from throughtime.tasks.texts import TextPredictor, build_codec, spread
from throughtime.text.codec import Codec
from throughtime.text.texts import check_texts, several

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

TEXTS_AT_ONCE = 128
MOST_COLUMNS = 12
SAMPLES = 3


class ClassifierAssets(NamedTuple):
    """The vocabulary of texts, and their labels."""

    codec: Codec
    labels: Labels

    def save(self, folder: ModelFolder) -> None:
        """Write both into a model folder."""
        self.codec.save(folder.path)
        self.labels.save(folder)


class Classifier(TextPredictor):
    """Gives whole texts a label: `tt.load("RUN").classify("play some jazz")[0].label`."""

    task = "classify"
    config_type = ClassifyConfig
    network_parts = ("log_probs", "head")
    model: SequenceClassifier
    assets: ClassifierAssets
    config: ClassifyConfig

    @classmethod
    def prepare(cls, config: ClassifyConfig, dataset: Dataset) -> tuple[ClassifyConfig, ClassifierAssets]:
        """Find the labels, and build the vocabulary of the training texts."""
        refuse_vectors(dataset)
        labels = Labels.of(dataset)
        if len(labels) == 1:
            raise InputError(
                dataset.name, f"has the label {labels.names[0]!r} only; a classifier needs two or more"
            )
        config = config.settled(dataset)
        texts = (one.text for one in dataset.labelled("train"))
        codec = build_codec(texts, config, dataset.name, reserved=("<pad>", "<unk>"))
        return config, ClassifierAssets(codec, labels)

    @classmethod
    def load_assets(cls, folder: ModelFolder, config: ClassifyConfig) -> ClassifierAssets:
        """Read the vocabulary and the labels."""
        return ClassifierAssets(Codec.load(folder.path), Labels.load(folder))

    @classmethod
    def build_network(cls, config: ClassifyConfig, assets: ClassifierAssets) -> SequenceClassifier:
        """The network that a configuration describes."""
        vocabulary = assets.codec.vocabulary
        return build(
            len(vocabulary),
            len(assets.labels),
            unknown_id=vocabulary.unk_id,
            **config.arguments_for(build),
        )

    def initialise_weights(self) -> None:
        """Expect each label as often as it occurs in training."""
        self.model.expect(torch.tensor(self.labels.frequencies))

    @property
    def labels(self) -> Labels:
        """The labels of training."""
        return self.assets.labels

    def training_task(self, dataset: Dataset) -> ClassifyTask:
        """Batches, loss and validation on these data."""
        train = list(labelled_texts(dataset, "train"))
        if strange := next((one.label for one in train if one.label not in self.labels), None):
            raise InputError(
                dataset.name, f"has the label {strange!r}, which the model does not know; train a new model"
            )
        valid = list(labelled_texts(dataset, "valid")) if "valid" in dataset.splits else []
        written = [one for one in valid if one.text.strip()]
        return ClassifyTask(
            self, self.rows(train), self.rows(valid) if valid else None, spread(written, SAMPLES)
        )

    def classify(
        self, texts: str | Sequence[str], *, k: int | None = None, progress: Progress | None = None
    ) -> list[Classified]:
        """One answer for each text: its `k` most likely labels, or all of them, with their probabilities.

        An empty text gets the labels that the model expects of any text.
        """
        texts = check_texts(texts)
        return rank_labels(texts, self.log_probs(texts, progress), self.labels.names, k)

    @torch.inference_mode()
    def log_probs(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float64]:
        """ln P of every label for each text, [texts, labels]."""
        texts = check_texts(texts)
        found = np.zeros((len(texts), len(self.labels)))
        if not texts:
            return found
        self.model.eval()
        device = self.model.head.weight.device
        rows, done = self.ids(texts), 0
        batches = LabelledBatches(rows, [0] * len(texts), batch_size=TEXTS_AT_ONCE, shuffle=False)
        with matmul_precision("float32"):
            for batch in batches:
                own = self.model.log_probs(batch.ids.to(device), batch.lengths.to(device))
                # Again in float64, so that probabilities sum to one as closely as people expect.
                found[batch.indices.numpy()] = own.cpu().double().log_softmax(1).numpy()
                done += batch.rows
                if progress is not None:
                    progress(done, len(texts))
        return found

    def ids(self, texts: Sequence[str]) -> RaggedIds:
        """Texts as the network reads them."""
        return RaggedIds.of(self.codec.encode(text) for text in texts).cut(self.config.max_length)

    def rows(self, records: Sequence[Labelled]) -> tuple[RaggedIds, NDArray[np.int64]]:
        """Texts as ids and the numbers of their labels; IGNORED for one that is not known."""
        known = [self.labels.number(one.label) if one.label in self.labels else IGNORED for one in records]
        return self.ids([one.text for one in records]), np.array(known, dtype=np.int64)

    def evaluate_split(
        self, dataset: Dataset, split: str, *, progress: Progress | None = None, **options: Any
    ) -> Evaluation:
        """Accuracy, macro F1, log loss and the confusion of labels on a split."""
        refuse_options(options, ("measures",), "is not for classifiers")
        refuse_vectors(dataset)
        records = list(labelled_texts(dataset, split))
        if not records:
            raise InputError(f"{dataset.name}, split {split}", "holds no labelled text")
        log_probs = self.log_probs([one.text for one in records], progress)
        given = [self.labels.names[place] for place in log_probs.argmax(1).tolist()]
        confusion = Confusion.of([one.label for one in records], given)
        right = [self.labels.number(one.label) if one.label in self.labels else None for one in records]
        known = [(row, place) for row, place in enumerate(right) if place is not None]
        nats = -sum(float(log_probs[row, place]) for row, place in known)
        values: dict[str, Any] = {
            "accuracy": confusion.accuracy,
            "macro_f1": confusion.macro_f1,
            "log_loss": nats / len(known) if known else math.inf,
            "texts": len(records),
            "unknown_labels": len(records) - len(known),
            "classes": {one.label: one.values() for one in confusion.classes},
            "confusion": {"labels": list(confusion.labels), "counts": confusion.counts.tolist()},
        }
        references = [one.label for one in records]
        values |= (further := compute_measures(options.get("measures") or (), self.task, given, references))
        lines = [_report(confusion, values), *(f"{name} {value:.4g}" for name, value in further.items())]
        return Evaluation(values, self._reading, "\n".join(lines))

    def describe(self) -> Description:
        """The model in words."""
        config, labels = self.config, len(self.labels)
        ways = " each way" if config.bidirectional else ""
        return Description(
            f"Classifier of {config.data}",
            f"{self._layers}{ways}, {config.pooling} pooling",
            f"{several(labels, 'label')}, {self._vocabulary}",
            {"labels": f"{labels}, listed in labels.json", **self._tokens},
            ['classify FOLDER "a text"'],
            'classify("a text")[0].label',
        )


def refuse_vectors(dataset: Dataset) -> None:
    """Refuse texts that go with numbers: they are for composers."""
    if dataset.kind == "described":
        raise InputError(
            dataset.name,
            "has records with a vector and no label; a classifier needs texts with a label each: rows of a "
            "table with columns text and label",
        )


def _report(confusion: Confusion, values: Mapping[str, Any]) -> str:
    """The scores, those of each label, and what is taken for what, for people."""
    strange = values["unknown_labels"]
    beyond = f", {strange:,} of them with labels that training did not know" if strange else ""
    known = f" of the {values['texts'] - strange:,} with known labels" if strange else ""
    lines = [
        f"accuracy {values['accuracy']:.2%}, macro F1 {values['macro_f1']:.2%}, "
        f"log loss {values['log_loss']:.4f}{known}",
        f"over {several(values['texts'], 'text')}{beyond}",
    ]
    width = max(len(label) for label in confusion.labels) + 4
    lines.append(f"\n{'':{width}}precision   recall       F1    texts")
    for one in confusion.classes:
        shares = f"{one.precision:9.2%}{one.recall:9.2%}{one.f1:9.2%}{one.support:9,}"
        lines.append(one.label.ljust(width) + shares)
    return "\n".join([*lines, *_mistakes(confusion, width)])


def _mistakes(confusion: Confusion, width: int) -> list[str]:
    """Which label is taken for which: a table, or of many labels the most frequent mistakes."""
    if len(confusion.labels) > MOST_COLUMNS:
        told = [f"{count:6,}  {right} taken for {given}" for right, given, count in confusion.mistaken()]
        return ["\nmost often taken for another:", *told] if told else []
    numbered = [f"{number:>2} {label}" for number, label in enumerate(confusion.labels, 1)]
    heads = "".join(f"{number:7}" for number in range(1, len(numbered) + 1))
    return [
        "\nthe right label, and how often which was given:",
        f"{'':{width}}{heads}",
        *(
            label.ljust(width) + "".join(f"{count:7,}" for count in row)
            for label, row in zip(numbered, confusion.counts.tolist(), strict=True)
        ),
    ]
