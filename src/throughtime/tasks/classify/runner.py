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
from throughtime.text.texts import check_texts

Array = NDArray[np.float64]
TEXTS_PER_BATCH = 128


class TextClassifier(ABC):
    """A classifier of whole texts, trained or exported."""

    codec: Any  # of texts or of vectors
    label_names: Sequence[str]  # in the order of the network's outputs
    max_length: int  # the maximum number of tokens of a text that are read

    @property
    def vectors(self) -> VectorCodec | None:
        """How sequences of vectors are read; None for a classifier of texts."""
        return self.codec if isinstance(self.codec, VectorCodec) else None

    @abstractmethod
    def _compute(self, ids: Ids, lengths: Ids) -> NDArray[np.float32]:
        """ln P of every label, [B, labels], for ids [T, B] of these lengths [B]."""

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
        sequences = [self.ids(text) for text in self._list(texts)]
        results = np.zeros((len(sequences), len(self.label_names)))
        for chosen in batches(sequences, TEXTS_PER_BATCH, empty=True, progress=progress):
            check_interrupt()
            # Normalised again in float64, so that probabilities sum to one as closely as people expect.
            results[chosen] = normalise(self._compute(*pad([sequences[one] for one in chosen])))
        return results

    def ids(self, text: Any) -> Any:
        """A text, or a sequence of vectors, as the network reads it."""
        return self.codec.encode(text)[: self.max_length if self.vectors is None else None]

    def _list(self, texts: Any) -> list[Any]:
        return check_texts(texts) if self.vectors is None else self.vectors.list_sequences(texts)


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

    def _compute(self, ids: Ids, lengths: Ids) -> NDArray[np.float32]:
        (log_probs,) = self.session.run(["log_probs"], {"ids": ids, "lengths": lengths})
        return np.asarray(log_probs)
