"""A classifier: texts in, labels and their probabilities out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError
from throughtime.results import Classified, Progress
from throughtime.runtime.runner import TextRunner, batches, normalise, pad
from throughtime.text.texts import check_texts

TEXTS_AT_ONCE = 64


class ClassifierRunner(TextRunner):
    """One graph over whole texts, with the names of its labels."""

    def classify(
        self, texts: str | Sequence[str], *, k: int | None = None, progress: Progress | None = None
    ) -> list[Classified]:
        """One answer for each text: its `k` most likely labels, or all of them, with their probabilities."""
        texts = check_texts(texts)
        return rank_labels(texts, self.log_probs(texts, progress), self.settings["labels"], k)

    def log_probs(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float64]:
        """ln P of every label for each text, [texts, labels]."""
        texts = check_texts(texts)
        found = np.zeros((len(texts), len(self.settings["labels"])))
        sequences = [self.codec.encode(text)[: self.settings["max_length"]] for text in texts]
        for chosen in batches(sequences, TEXTS_AT_ONCE, empty=True, progress=progress):
            ids, lengths = pad([sequences[one] for one in chosen])
            (log_probs,) = self.session.run(["log_probs"], {"ids": ids, "lengths": lengths})
            found[chosen] = normalise(log_probs)
        return found


def rank_labels(
    texts: Sequence[str], log_probs: NDArray[np.float64], names: Sequence[str], k: int | None
) -> list[Classified]:
    """The texts with their `k` most likely labels, or all of them."""
    if k is not None and k < 1:
        raise InputError("k", f"is {k}, expected 1 or more")
    found = []
    for text, own in zip(texts, log_probs, strict=True):
        order = np.argsort(-own, kind="stable")[:k].tolist()
        found.append(Classified(text, tuple((names[one], float(np.exp(own[one]))) for one in order)))
    return found
