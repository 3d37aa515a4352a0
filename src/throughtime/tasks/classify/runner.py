"""A classifier: texts in, labels and their probabilities out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError
from throughtime.results import Classified
from throughtime.runtime.folder import ExportFolder
from throughtime.runtime.ragged import padded
from throughtime.runtime.session import Session
from throughtime.text.codec import Codec
from throughtime.text.texts import check_texts

TEXTS_AT_ONCE = 64


class Classifier:
    """One graph over whole texts, with the names of its labels."""

    def __init__(self, session: Session, codec: Codec, settings: dict[str, Any]) -> None:
        self.session, self.codec, self.settings = session, codec, settings

    def classify(self, texts: Sequence[str], *, k: int | None = None) -> list[Classified]:
        """Each text with its `k` likeliest labels, or all of them, in the order of the texts."""
        if k is not None and k < 1:
            raise InputError("k", f"is {k}, expected 1 or more")
        names = self.settings["labels"]
        found = []
        for text, log_probs in zip(texts, self.log_probs(texts), strict=True):
            order = np.argsort(-log_probs, kind="stable")[:k].tolist()
            found.append(
                Classified(text, tuple((names[one], float(np.exp(log_probs[one]))) for one in order))
            )
        return found

    def input_warnings(self, texts: Sequence[str], **how: Any) -> dict[str, str]:
        """Warnings about texts that the model knows little about, by kind (see `InputWarnings.of`)."""
        return self.codec.warnings.of(check_texts(texts), **how)

    def log_probs(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """ln P of every label for each text, [texts, labels]."""
        texts = check_texts(texts)
        found = np.zeros((len(texts), len(self.settings["labels"])))
        sequences = [self.codec.encode(text)[: self.settings["max_length"]] for text in texts]
        order = sorted(range(len(texts)), key=lambda number: len(sequences[number]))
        for first in range(0, len(order), TEXTS_AT_ONCE):
            chosen = order[first : first + TEXTS_AT_ONCE]
            ids, lengths = padded([sequences[one] for one in chosen])
            (log_probs,) = self.session.run(["log_probs"], {"ids": ids, "lengths": lengths})
            wide = log_probs.astype(np.float64)
            found[chosen] = wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))
        return found


def opened(folder: ExportFolder) -> Classifier:
    """The classifier of an export."""
    return Classifier(folder.session("model"), Codec.load(folder.path), folder.settings)
