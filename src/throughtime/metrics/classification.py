"""How well labels are guessed: accuracy, precision, recall, F1, and which label is taken for which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError


@dataclass(frozen=True)
class ClassScore:
    """One label's part."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int  # how often it is the right one
    predicted: int

    def values(self) -> dict[str, Any]:
        """Ready for JSON."""
        found = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {**found, "support": self.support, "predicted": self.predicted}


@dataclass(frozen=True, eq=False)
class Confusion:
    """How often each label (row) was taken for each (column). Counts add up over processes and batches.

    A share of nothing is 0: the precision of a label that is never given, the recall of one that never is
    right. Macro F1 is the mean over the labels that occur, given or right.

    >>> found = Confusion.of(["a", "a", "b"], ["a", "b", "b"])
    >>> found.counts.tolist(), round(found.accuracy, 3), round(found.macro_f1, 3)
    ([[1, 1], [0, 1]], 0.667, 0.667)
    """

    labels: tuple[str, ...]
    counts: NDArray[np.int64]  # [right, given]

    @classmethod
    def of(cls, right: Sequence[str], given: Sequence[str], labels: Sequence[str] | None = None) -> Confusion:
        """Of the right labels and those given, text by text; other labels than these may be named too."""
        if len(right) != len(given):
            raise InputError("labels", f"are {len(given)} for {len(right)} texts; give one for each")
        names = tuple(sorted({*right, *given}) if labels is None else labels)
        number = {name: place for place, name in enumerate(names)}
        counts = np.zeros((len(names), len(names)), np.int64)
        np.add.at(counts, ([number[name] for name in right], [number[name] for name in given]), 1)
        return cls(names, counts)

    def __add__(self, other: Confusion) -> Confusion:
        """Of all texts together."""
        if self.labels != other.labels:
            raise InputError("confusions", "are of other labels, so they cannot be added")
        return Confusion(self.labels, self.counts + other.counts)

    @property
    def total(self) -> int:
        """How many texts."""
        return int(self.counts.sum())

    @property
    def accuracy(self) -> float:
        """The share of texts that got their label."""
        return float(np.trace(self.counts)) / self.total if self.total else 0.0

    @property
    def classes(self) -> list[ClassScore]:
        """The scores of each label that occurs."""
        hits = np.diagonal(self.counts)
        support, predicted = self.counts.sum(1), self.counts.sum(0)
        precision, recall = _share(hits, predicted), _share(hits, support)
        f1 = f1_scores(hits, support, predicted)
        return [
            ClassScore(
                label,
                float(precision[place]),
                float(recall[place]),
                float(f1[place]),
                int(support[place]),
                int(predicted[place]),
            )
            for place, label in enumerate(self.labels)
            if support[place] or predicted[place]
        ]

    @property
    def macro_f1(self) -> float:
        """The mean of the labels' F1, frequent or rare."""
        scores = [one.f1 for one in self.classes]
        return sum(scores) / len(scores) if scores else 0.0

    def mistaken(self, most: int = 10) -> list[tuple[str, str, int]]:
        """The labels most often taken for another: right, given, how often."""
        places = np.argwhere(self.counts * (1 - np.eye(len(self.labels), dtype=np.int64)))
        found = [(self.labels[i], self.labels[j], int(self.counts[i, j])) for i, j in places]
        return sorted(found, key=lambda one: (-one[2], one[:2]))[:most]


def f1_scores(
    hits: NDArray[np.int64], support: NDArray[np.int64], predicted: NDArray[np.int64]
) -> NDArray[np.float64]:
    """F1 of each label, from how often it was found, was right and was given; 0 where it never occurs."""
    return _share(2 * hits, support + predicted)


def _share(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(whole > 0, part / np.maximum(whole, 1), 0.0)
