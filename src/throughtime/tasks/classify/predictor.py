"""A classifier with the network and the settings that made it: what is trained, judged and saved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.markup import escape

from throughtime.data.batching import RaggedIds
from throughtime.data.batching.labelled import LabelledBatches
from throughtime.data.records import Labelled
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.metrics.classification import Confusion
from throughtime.models.heads import IGNORED
from throughtime.results import Classified
from throughtime.tasks.classify.config import ClassifyConfig
from throughtime.tasks.classify.network import SequenceClassifier
from throughtime.tasks.labels import Labels, labelled
from throughtime.tasks.report import Asked, Progress, Report, refuse_others, trained_for
from throughtime.text.codec import Codec
from throughtime.text.texts import check_texts, several
from throughtime.train.devices import products

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

TASK = "classify"
TEXTS_AT_ONCE = 128
MOST_COLUMNS = 12


class TrainedClassifier:
    """A network over whole texts, with its codec, its labels and the configuration that made it."""

    def __init__(
        self, model: SequenceClassifier, codec: Codec, labels: Labels, config: ClassifyConfig
    ) -> None:
        self.model, self.codec, self.labels, self.config = model, codec, labels, config

    def classify(
        self, texts: Sequence[str], *, k: int | None = None, progress: Progress | None = None
    ) -> list[Classified]:
        """Each text with its `k` likeliest labels, or all of them, in the order of the texts.

        A text that says nothing gets what the model expects of any text.
        """
        if k is not None and k < 1:
            raise InputError("--k", f"is {k}, expected 1 or more")
        found = []
        for text, log_probs in zip(texts, self.log_probs(texts, progress), strict=True):
            order = np.argsort(-log_probs, kind="stable")[:k]
            ranked = [(self.labels.names[place], math.exp(log_probs[place])) for place in order.tolist()]
            found.append(Classified(text, tuple(ranked)))
        return found

    def input_warnings(self, texts: Sequence[str], **how: Any) -> dict[str, str]:
        """Warnings about texts that the model knows little about, by kind (see `InputWarnings.of`)."""
        return self.codec.warnings.of(check_texts(texts), **how)

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
        with products("float32"):
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

    def report(self, dataset: Dataset, split: str, asked: Asked, progress: Progress | None = None) -> Report:
        """What `throughtime evaluate` shows of a split."""
        refuse_others(asked, (), "is not for classifiers")
        refuse_vectors(dataset)
        records = list(labelled(dataset, split))
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
        text = f"{dataset.name}, {split}: {_told(confusion, values)}"
        return Report(values, self._reading(), text)

    def _reading(self) -> list[str]:
        """How texts are read, as a signature tells it."""
        device = self.model.head.weight.device.type
        return [
            f"tokens:{self.config.tokens}",
            f"vocabulary:{self.codec.hash[:12]}",
            f"device:{device}",
            "precision:float32",
        ]

    @property
    def notes(self) -> tuple[str, ...]:
        """What should be known of the text that its vocabulary was made of."""
        return self.codec.notes

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        config = self.config
        weights = sum(weight.numel() for weight in self.model.parameters())
        layers = f"{config.num_layers} x " if config.num_layers > 1 else ""
        return (
            f"{config.data}: {layers}{config.cell} of {config.hidden_size}, {config.pooling} pooling, "
            f"{weights / 1e6:.2f} M weights, {several(len(self.labels), 'label')}, "
            f"vocabulary {len(self.codec.vocabulary):,} ({config.tokens})"
        )

    def begin(self, folder: ModelFolder) -> None:
        """Write all of the model but its weights."""
        folder.write_config(TASK, self.config.model_dump(mode="json"))
        self.codec.save(folder.path)
        self.labels.save(folder)

    def card(self, values: Mapping[str, Any]) -> str:
        """README.md of the model folder."""
        config, codec = self.config, self.codec
        best = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in values["best"].items())
        ways = ", both ways" if config.bidirectional else ""
        return f"""# Classifier of {config.data}

{config.num_layers} x {config.hidden_size} {config.cell} cells{ways}, {config.pooling} pooling, made by
throughtime. The labels, with their counts in training, are in labels.json.

| | |
|---|---|
| data | {config.data}, split train |
| labels | {len(self.labels)} |
| tokens | {config.tokens}, vocabulary of {len(codec.vocabulary):,} (`{codec.hash[:12]}`) |
| weights | {values["parameters"]:,} |
| training | {trained_for(values)}, seed {config.seed}, {values["device"]} |
| validation | {best or "not measured"} |

    throughtime classify FOLDER "a text"
    throughtime evaluate FOLDER --split test

In Python: `throughtime.load("FOLDER").classify(["a text"])[0].label`. The settings are in config.json.
"""


def refuse_vectors(dataset: Dataset) -> None:
    """Refuse texts that go with numbers: they are for composers."""
    if dataset.kind == "described":
        raise InputError(
            dataset.name,
            "has records with a vector and no label; a classifier needs texts with a label each: rows of a "
            "table with columns text and label",
        )


def _told(confusion: Confusion, values: Mapping[str, Any]) -> str:
    """The scores, those of each label, and what is taken for what, for people."""
    strange = values["unknown_labels"]
    beyond = f", {strange:,} of them with labels that training did not know" if strange else ""
    known = f" of the {values['texts'] - strange:,} with known labels" if strange else ""
    lines = [
        f"accuracy [bold]{values['accuracy']:.2%}[/bold], macro F1 {values['macro_f1']:.2%}, "
        f"log loss {values['log_loss']:.4f}{known}",
        f"over {several(values['texts'], 'text')}{beyond}",
    ]
    width = max(len(label) for label in confusion.labels) + 4
    lines.append(f"\n{'':{width}}precision   recall       F1    texts")
    for one in confusion.classes:
        shares = f"{one.precision:9.2%}{one.recall:9.2%}{one.f1:9.2%}{one.support:9,}"
        lines.append(escape(one.label.ljust(width)) + shares)
    return "\n".join([*lines, *_mistakes(confusion, width)])


def _mistakes(confusion: Confusion, width: int) -> list[str]:
    """Which label is taken for which: a table, or of many labels the most frequent mistakes."""
    if len(confusion.labels) > MOST_COLUMNS:
        told = [f"{count:6,}  {right} taken for {given}" for right, given, count in confusion.mistaken()]
        return ["\nmost often taken for another:", *map(escape, told)] if told else []
    numbered = [f"{number:>2} {label}" for number, label in enumerate(confusion.labels, 1)]
    heads = "".join(f"{number:7}" for number in range(1, len(numbered) + 1))
    return [
        "\nthe right label, and how often which was given:",
        f"{'':{width}}{heads}",
        *(
            escape(label.ljust(width)) + "".join(f"{count:7,}" for count in row)
            for label, row in zip(numbered, confusion.counts.tolist(), strict=True)
        ),
    ]
