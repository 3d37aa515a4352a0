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
from throughtime.tasks.classify import ClassifyOptions
from throughtime.text.codec import Codec
from throughtime.text.grams import Grams
from throughtime.text.texts import check_texts

Array = NDArray[np.float64]
TEXTS_PER_BATCH = 128


class TextClassifier(ABC):
    """A classifier of whole texts, trained or exported."""

    codec: Codec
    label_names: Sequence[str]  # in the order of the network's outputs
    max_length: int  # the maximum number of tokens that are read at once
    grams: Grams  # those that the partner of the network knows, if it has one
    mixture: tuple[float, ...]  # the weights of ln P of the network and of its partner; empty without one

    @abstractmethod
    def _compute(self, ids: Ids, lengths: Ids) -> NDArray[np.float32]:
        """ln P of every label by the network, [B, labels], for ids [T, B] of these lengths [B]."""

    @abstractmethod
    def _add_up(self, columns: Ids, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """ln P of every label by the partner, for the n-grams of a text."""

    def classify(
        self,
        texts: str | Sequence[str],
        *,
        progress: Progress | None = None,
        **options: Unpack[ClassifyOptions],
    ) -> list[Classified]:
        """Classify each text: its `k` most likely labels, by default all of them, with their probabilities.

        For an empty text, these are the probabilities that the model gives without knowing the text.
        """
        k = complete_options(ClassifyOptions, options)["k"]
        texts, names, answers = check_texts(texts), self.label_names, []
        for text, own in zip(texts, self.log_probs(texts, progress), strict=True):
            order = np.argsort(-own, kind="stable")[:k].tolist()
            answers.append(Classified(text, tuple((names[one], float(np.exp(own[one]))) for one in order)))
        return answers

    def log_probs(self, texts: Sequence[str], progress: Progress | None = None) -> Array:
        """ln P of every label for each text, [texts, labels]."""
        texts = check_texts(texts)
        none, mixture = np.zeros((len(texts), len(self.label_names))), tuple(self.mixture) or (1.0, 0.0)
        network = self.network_log_probs(texts, progress) if mixture[0] else none
        return mix(mixture, network, self.partner_log_probs(texts) if mixture[1] else none)

    def network_log_probs(self, texts: Sequence[str], progress: Progress | None = None) -> Array:
        """The same by the network: the mean over the parts of a text, which need not be normalised."""
        parts = [self.split(text) for text in texts]
        owners = np.repeat(np.arange(len(texts)), [len(own) for own in parts])
        sequences = [ids for own in parts for ids in own]
        results = np.zeros((len(texts), len(self.label_names)))
        for chosen in batches(sequences, TEXTS_PER_BATCH, empty=True, progress=progress):
            check_interrupt()
            np.add.at(results, owners[chosen], self._compute(*pad([sequences[one] for one in chosen])))
        return results / np.bincount(owners, minlength=len(texts))[:, None]

    def partner_log_probs(self, texts: Sequence[str]) -> Array:
        """The same by the n-grams of words and letters."""
        grams, found = self.grams, np.zeros((len(texts), len(self.label_names)))
        for row, text in enumerate(texts):
            found[row] = self._add_up(*grams.read(text))
        return found

    def split(self, text: str) -> list[list[int]]:
        """A text as the network reads it: in equal parts of at most `max_length` tokens."""
        ids = self.codec.encode(text)
        size = -(-len(ids) // max(1, -(-len(ids) // self.max_length)))
        return [ids[first : first + size] for first in range(0, len(ids), size)] if ids else [[]]


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
        self.partner = folder.session("grams") if "grams" in folder.values["parts"] else None
        self.grams, self.mixture = Grams(np.zeros(0, np.int64), np.zeros(0, np.float32)), ()
        if self.partner is not None:
            keys, rarity, mixture = self._run_partner(["keys", "rarity", "mixture"], *self.grams.read(""))
            self.grams, self.mixture = Grams(keys, rarity), tuple(mixture.tolist())

    def _compute(self, ids: Ids, lengths: Ids) -> NDArray[np.float32]:
        (log_probs,) = self.session.run(["log_probs"], {"ids": ids, "lengths": lengths})
        return np.asarray(log_probs)

    def _add_up(self, columns: Ids, values: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(self._run_partner(["log_probs"], columns, values)[0][0])

    def _run_partner(self, names: list[str], columns: Ids, values: NDArray[np.float32]) -> list[Any]:
        assert self.partner is not None
        return self.partner.run(names, {"columns": columns, "values": values})
