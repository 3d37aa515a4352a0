"""Classification without torch: what a trained classifier and its export share, and the export itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from throughtime.interrupt import check_interrupt
from throughtime.results import Classified, Progress
from throughtime.runtime.checks import Size
from throughtime.runtime.keywords import complete_options
from throughtime.runtime.runner import Ids, TextRunner, batches, normalise, pad
from throughtime.runtime.session import ExportFolder
from throughtime.runtime.vectors import VectorCodec
from throughtime.tasks.classify import ClassifyOptions
from throughtime.text.grams import Grams
from throughtime.text.texts import check_texts

Array = NDArray[np.float64]
TEXTS_PER_BATCH, SEQUENCES_PER_BATCH = 128, 16


class TextClassifier(ABC):
    """A classifier of whole texts, trained or exported."""

    codec: Any  # of texts or of vectors
    label_names: Sequence[str]  # in the order of the network's outputs
    max_length: int  # the maximum number of tokens that are read at once
    grams: Grams  # those that the partner of the network knows, if it has one
    mixture: tuple[float, ...]  # the weights of ln P of the network and of its partner; empty without one

    @property
    def vectors(self) -> VectorCodec | None:
        """How sequences of vectors are read; None for a classifier of texts."""
        return self.codec if isinstance(self.codec, VectorCodec) else None

    @abstractmethod
    def _compute(self, ids: Ids, lengths: Ids) -> NDArray[np.float32]:
        """ln P of every label by the network, [B, labels], for ids [T, B] of these lengths [B]."""

    @abstractmethod
    def _add_up(self, *given: NDArray[Any]) -> NDArray[np.float32]:
        """ln P of every label by the partner, for the n-grams of a text, or for vectors and their lengths."""

    def classify(
        self,
        texts: str | Sequence[Any] | Array,
        *,
        progress: Progress | None = None,
        **options: Unpack[ClassifyOptions],
    ) -> list[Classified]:
        """Classify each text: its `k` most likely labels, by default all of them, with their probabilities.

        For an empty text, these are the probabilities that the model gives without knowing the text.
        """
        k = complete_options(ClassifyOptions, options)["k"]
        texts, names, answers = self._list(texts), self.label_names, []
        for text, own in zip(texts, self.log_probs(texts, progress), strict=True):
            order = np.argsort(-own, kind="stable")[:k].tolist()
            title = text if isinstance(text, str) else getattr(text, "name", "")
            answers.append(Classified(title, tuple((names[one], float(np.exp(own[one]))) for one in order)))
        return answers

    def log_probs(self, texts: Sequence[str], progress: Progress | None = None) -> Array:
        """ln P of every label for each text, [texts, labels]."""
        texts = self._list(texts)
        none, mixture = np.zeros((len(texts), len(self.label_names))), tuple(self.mixture) or (1.0, 0.0)
        network = self.network_log_probs(texts, progress) if mixture[0] else none
        return mix(mixture, network, self.partner_log_probs(texts) if mixture[1] else none)

    def network_log_probs(self, texts: Sequence[Any], progress: Progress | None = None) -> Array:
        """The same by the network: the mean over the parts of a text, which need not be normalised."""
        parts = [self.split(text) for text in texts]
        owners = np.repeat(np.arange(len(texts)), [len(own) for own in parts])
        sequences = [ids for own in parts for ids in own]
        results = np.zeros((len(texts), len(self.label_names)))
        for chosen in batches(sequences, TEXTS_PER_BATCH, empty=True, progress=progress):
            check_interrupt()
            np.add.at(results, owners[chosen], self._compute(*pad([sequences[one] for one in chosen])))
        return results / np.bincount(owners, minlength=len(texts))[:, None]

    def partner_log_probs(self, texts: Sequence[Any]) -> Array:
        """The same by the n-grams of words and letters, or by the convolutions of vectors."""
        found = np.zeros((len(texts), len(self.label_names)))
        if self.vectors is None:
            for row, text in enumerate(texts):
                found[row] = self._add_up(*self.grams.read(text))
            return found
        sequences = [self.vectors.encode(text) for text in texts]
        for chosen in batches(sequences, SEQUENCES_PER_BATCH):
            found[chosen] = self._add_up(*pad([sequences[one] for one in chosen]))
        return found

    def split(self, text: Any) -> list[Any]:
        """A text as the network reads it, in equal parts of at most `max_length` tokens, or whole vectors."""
        ids = self.codec.encode(text)
        if self.vectors is not None:
            return [ids]
        size = -(-len(ids) // max(1, -(-len(ids) // self.max_length)))
        return [ids[first : first + size] for first in range(0, len(ids), size)] if ids else [[]]

    def _list(self, texts: Any) -> list[Any]:
        return check_texts(texts) if self.vectors is None else self.vectors.list_sequences(texts)


def mix(mixture: Sequence[float], network: Array, partner: Array) -> Array:
    """The weighted sums of ln P of the network and of its partner, normalised in float64."""
    added = mixture[0] * network + mixture[1] * partner
    return normalise(added - added.max(axis=1, keepdims=True, initial=-np.inf))


class ClassifierSettings(TypedDict):
    """The settings of an exported classifier."""

    labels: list[str]
    max_length: Size


class ClassifierRunner(TextClassifier, TextRunner):
    """An exported classifier."""

    settings_type = ClassifierSettings

    def __init__(self, folder: ExportFolder) -> None:
        super().__init__(folder)
        self.label_names, self.max_length = self.settings["labels"], self.settings["max_length"]
        name = "grams" if self.vectors is None else "convolutions"
        self.partner = folder.session(name) if name in folder.values["parts"] else None
        self.grams, self.mixture = Grams(np.zeros(0, np.int64), np.zeros(0, np.float32)), ()
        if self.partner is not None:
            names = ["mixture"] if self.vectors is not None else ["mixture", "keys", "rarity"]
            empty: Any = (
                self.grams.read("") if self.vectors is None else pad([np.zeros((1, self.codec.size))])
            )
            mixture, *known = self._run_partner(names, *empty)
            self.mixture = tuple(mixture.tolist())
            self.grams = Grams(*known) if known else self.grams

    def _compute(self, ids: Ids, lengths: Ids) -> NDArray[np.float32]:
        (log_probs,) = self.session.run(["log_probs"], {"ids": ids, "lengths": lengths})
        return np.asarray(log_probs)

    def _add_up(self, *given: NDArray[Any]) -> NDArray[np.float32]:
        return np.asarray(self._run_partner(["log_probs"], *given)[0])

    def _run_partner(self, names: list[str], *given: NDArray[Any]) -> list[Any]:
        assert self.partner is not None
        return self.partner.run(names, dict(zip(self.partner.inputs, given, strict=True)))
