"""How well labels are guessed, those of whole texts and those of words in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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


OUTSIDE = "O"
BEGINS, ENDS = frozenset("BS"), frozenset("ES")
_SAME_ROLE = {"L": "E", "U": "S"}  # BILOU's words for what IOBES calls the end and a single


class Chunk(NamedTuple):
    """Words `start` to before `end` that are one thing of this type."""

    type: str
    start: int
    end: int


def chunks(tags: Sequence[str]) -> list[Chunk]:
    """The chunks of one sentence, whatever its scheme: IOB1, IOB2, IOBES or BILOU.

    As in conlleval, an I- begins a chunk after O and after another type, and goes on with the same one; B-
    always begins one. S- is a chunk by itself, and E- ends one. conlleval's own table lacks S-, and
    B- after E-: both begin a chunk here.

    >>> chunks(["I-PER", "I-PER", "B-PER", "O", "I-LOC", "I-ORG"])
    [Chunk(type='PER', start=0, end=2), Chunk(type='PER', start=2, end=3), Chunk(type='LOC', start=4, end=5),
    Chunk(type='ORG', start=5, end=6)]
    """
    found: list[Chunk] = []
    start, before, type_before = 0, OUTSIDE, ""
    for place, tag in enumerate([*tags, OUTSIDE]):
        role, type_ = _parted(tag)
        begins = role != OUTSIDE and (
            role in BEGINS or before == OUTSIDE or before in ENDS or type_ != type_before
        )
        # What is left open by the word before ends where another begins, or none goes on.
        if before != OUTSIDE and (begins or role == OUTSIDE):
            found.append(Chunk(type_before, start, place))
        if begins:
            start = place
        before, type_before = role, type_
    return found


def _parted(tag: str) -> tuple[str, str]:
    """Role and type: the first hyphen parts them, so that a type may hold others."""
    role, _, type_ = tag.partition("-")
    return _SAME_ROLE.get(role, role), type_


def is_chunked(tags: Iterable[str]) -> bool:
    """Whether these tags mark chunks, and are not a class of each word alone.

    >>> is_chunked(["O", "B-PER", "I-PER"]), is_chunked(["NOUN", "VERB"]), is_chunked(["O"])
    (True, False, False)
    """
    known = set(tags) - {OUTSIDE}
    return bool(known) and all(len(tag) > 2 and tag[0] in "BIESLU" and tag[1] == "-" for tag in known)


@dataclass
class ChunkCounts:
    """How many chunks the data have, how many were found, and how many of these are right."""

    given: int = 0
    found: int = 0
    right: int = 0

    @property
    def precision(self) -> float:
        """Of what was found, the share that is right; 0 where nothing was found."""
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """Of what is there, the share that was found; 0 where nothing is there."""
        return self.right / self.given if self.given else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        return 2 * self.right / (self.found + self.given) if self.found + self.given else 0.0

    def values(self) -> dict[str, float | int]:
        """The measures and what they count, by name."""
        measures = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {**measures, "given": self.given, "found": self.found, "right": self.right}


@dataclass
class Tagging:
    """What is counted of sentences whose tags are known, one after another.

    A chunk is right where its type, its first and its last word are.

    >>> judged = Tagging()
    >>> judged.add(["B-LOC", "I-LOC", "O"], ["B-LOC", "O", "O"])
    >>> judged.accuracy, judged.chunks.f1, judged.confused
    (0.6666666666666666, 0.0, [('I-LOC', 'O', 1)])
    """

    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)  # (given, found) of each word
    types: dict[str, ChunkCounts] = field(default_factory=dict)

    def add(self, given: Sequence[str], found: Sequence[str]) -> None:
        """Count a sentence."""
        self.pairs.update(zip(given, found, strict=True))
        right, guessed = set(chunks(given)), set(chunks(found))
        for chunk in right:
            self._of(chunk.type).given += 1
        for chunk in guessed:
            self._of(chunk.type).found += 1
        for chunk in right & guessed:
            self._of(chunk.type).right += 1

    @property
    def words(self) -> int:
        """How many words were judged."""
        return self.pairs.total()

    @property
    def right(self) -> int:
        """How many of them have the right tag."""
        return sum(count for (given, found), count in self.pairs.items() if given == found)

    @property
    def accuracy(self) -> float:
        """The share of words with the right tag; 0 where there is none."""
        return self.right / self.words if self.words else 0.0

    @property
    def chunks(self) -> ChunkCounts:
        """All types together, as conlleval's first line has it."""
        counts = self.types.values()
        return ChunkCounts(
            *(sum(getattr(one, name) for one in counts) for name in ("given", "found", "right"))
        )

    @property
    def confused(self) -> list[tuple[str, str, int]]:
        """What was taken for what, and how often, most frequent first."""
        wrong = [(*pair, count) for pair, count in self.pairs.items() if pair[0] != pair[1]]
        return sorted(wrong, key=lambda one: (-one[2], one[:2]))

    def table(self) -> dict[str, dict[str, int]]:
        """How often each given tag was found as which: the confusion table, without its empty cells."""
        rows: dict[str, dict[str, int]] = {}
        for (given, found), count in sorted(self.pairs.items()):
            rows.setdefault(given, {})[found] = count
        return rows

    def _of(self, type_: str) -> ChunkCounts:
        return self.types.setdefault(type_, ChunkCounts())
