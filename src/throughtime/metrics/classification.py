"""Scores of predicted labels: of whole texts, and of the words of a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError
from throughtime.text.texts import align_columns


@dataclass
class ChunkCounts:
    """Numbers of chunks (or labels) in the data, of predicted ones, and of those predicted rightly."""

    given: int = 0  # in the data
    found: int = 0  # predicted
    right: int = 0  # both

    @property
    def precision(self) -> float:
        """The share of the predicted chunks that are right; 0 if none was predicted."""
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """The share of the chunks in the data that were predicted rightly; 0 if there are none."""
        return self.right / self.given if self.given else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.right / (self.found + self.given) if self.found + self.given else 0.0

    def values(self) -> dict[str, float | int]:
        """The scores and the counts by name."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, **asdict(self)}


class ClassScore(NamedTuple):
    """The scores of one label."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int  # number of texts with this label
    predicted: int  # number of texts for which this label was predicted

    def values(self) -> dict[str, Any]:
        """Everything but the label, by name."""
        return {name: value for name, value in self._asdict().items() if name != "label"}


@dataclass(frozen=True, eq=False)
class Confusion:
    """How often each label (column) was predicted for texts with each true label (row).

    Precision is 0 for a label that was never predicted, recall is 0 for one that never occurs. Macro F1 is
    the mean over the labels that occur on either side.

    >>> confusion = Confusion.of(["a", "a", "b"], ["a", "b", "b"])
    >>> confusion.counts.tolist(), round(confusion.accuracy, 3), round(confusion.macro_f1, 3)
    ([[1, 1], [0, 1]], 0.667, 0.667)
    """

    labels: tuple[str, ...]
    counts: NDArray[np.int64]  # [true label, predicted label]

    @classmethod
    def of(cls, references: Sequence[str], predictions: Sequence[str]) -> Confusion:
        """Count the true and the predicted label of each text."""
        if len(references) != len(predictions):
            raise InputError(
                "labels", f"are {len(predictions)} for {len(references)} texts; give one for each"
            )
        names = tuple(sorted({*references, *predictions}))
        number = {name: number_of_name for number_of_name, name in enumerate(names)}
        counts = np.zeros((len(names), len(names)), np.int64)
        np.add.at(counts, ([number[name] for name in references], [number[name] for name in predictions]), 1)
        return cls(names, counts)

    @property
    def total(self) -> int:
        """The number of texts."""
        return int(self.counts.sum())

    @property
    def accuracy(self) -> float:
        """The share of texts with the right label."""
        return float(np.trace(self.counts)) / self.total if self.total else 0.0

    @property
    def classes(self) -> list[ClassScore]:
        """The scores of each label."""
        columns = (self.counts.sum(1), self.counts.sum(0), np.diagonal(self.counts))
        scored = [ChunkCounts(*map(int, counts)) for counts in zip(*columns, strict=True)]
        return [
            ClassScore(label, score.precision, score.recall, score.f1, score.given, score.found)
            for label, score in zip(self.labels, scored, strict=True)
        ]

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the labels, whether frequent or rare."""
        scores = [score.f1 for score in self.classes]
        return sum(scores) / len(scores) if scores else 0.0

    def list_mistakes(self, most: int = 10) -> list[tuple[str, str, int]]:
        """The most frequent mistakes: the true label, the predicted one, and how often."""
        places = np.argwhere(self.counts * (1 - np.eye(len(self.labels), dtype=np.int64)))
        mistakes = [(self.labels[i], self.labels[j], int(self.counts[i, j])) for i, j in places]
        return sorted(mistakes, key=lambda mistake: (-mistake[2], mistake[:2]))[:most]


def f1_scores(
    hits: NDArray[np.int64], support: NDArray[np.int64], predicted: NDArray[np.int64]
) -> NDArray[np.float64]:
    """F1 of each label, from how often it was predicted rightly, was true, and was predicted; 0 if never."""
    scores: NDArray[np.float64] = 2 * hits / np.maximum(support + predicted, 1)
    return scores


OUTSIDE = "O"
BEGINS, ENDS = frozenset("BS"), frozenset("ES")
_SAME_ROLE = {"L": "E", "U": "S"}  # BILOU's words for what IOBES calls the end and a single


class Chunk(NamedTuple):
    """The words from `start` to before `end`, which together are one thing of this type."""

    type: str
    start: int
    end: int


def chunks(tags: Sequence[str]) -> list[Chunk]:
    """Find the chunks of one sentence, tagged as IOB1, IOB2, IOBES or BILOU.

    As in conlleval, I- begins a chunk after O and after another type, and continues one of the same type; B-
    always begins a chunk. S- is a chunk of one word, and E- ends a chunk. Unlike in conlleval, S- and
    B- after E- begin a chunk.

    >>> chunks(["I-PER", "I-PER", "B-PER", "O", "I-LOC", "I-ORG"])
    [Chunk(type='PER', start=0, end=2), Chunk(type='PER', start=2, end=3), Chunk(type='LOC', start=4, end=5),
    Chunk(type='ORG', start=5, end=6)]
    """
    result: list[Chunk] = []
    start, before, type_before = 0, OUTSIDE, ""
    for position, tag in enumerate([*tags, OUTSIDE]):
        role, _, type_ = tag.partition("-")  # a type may contain other hyphens
        role = _SAME_ROLE.get(role, role)
        begins = role != OUTSIDE and (
            role in BEGINS or before == OUTSIDE or before in ENDS or type_ != type_before
        )
        # An open chunk ends where another begins or where no chunk continues.
        if before != OUTSIDE and (begins or role == OUTSIDE):
            result.append(Chunk(type_before, start, position))
        if begins:
            start = position
        before, type_before = role, type_
    return result


def is_chunked(tags: Iterable[str]) -> bool:
    """Whether these tags mark chunks, rather than a class for each word.

    >>> is_chunked(["O", "B-PER", "I-PER"]), is_chunked(["NOUN", "VERB"]), is_chunked(["O"])
    (True, False, False)
    """
    known = set(tags) - {OUTSIDE}
    return bool(known) and all(len(tag) > 2 and tag[0] in "BIESLU" and tag[1] == "-" for tag in known)


def impossible_pairs(tags: Sequence[str]) -> NDArray[np.bool_]:
    """Which tags of chunks cannot follow which, [S + 1, S + 1]; the last place is either end of a sentence.

    I- and E- continue a chunk of their type, if the type has a B-; B- and I- go on, if it has an E-. So all
    sequences of IOB1 are possible, because its types without a B- begin with I-.

    >>> impossible_pairs(["O", "B-LOC", "I-LOC", "I-PER"])[:, 2].tolist()   # before I-LOC
    [True, False, False, True, True]
    """
    parts = [tag.partition("-")[::2] for tag in (*tags, OUTSIDE)]
    roles = np.array([_SAME_ROLE.get(role, role) for role, _ in parts])
    types = np.array([type_ for _, type_ in parts])
    goes_on, continues = np.isin(roles, ["B", "I"]), np.isin(roles, ["I", "E"])
    joined = goes_on[:, None] & continues & (types[:, None] == types)
    must_end = goes_on & np.isin(types, types[roles == "E"])
    must_begin = continues & np.isin(types, types[roles == "B"])
    impossible: NDArray[np.bool_] = ~joined & (must_end[:, None] | must_begin)
    return impossible


def count_impossible(sentences: Iterable[Sequence[str]]) -> tuple[int, int]:
    """Count the pairs of tags, ends of sentences included, that are impossible, and the chunks.

    >>> count_impossible([["B-LOC", "I-LOC", "O"], ["O", "I-LOC"]])
    (1, 2)
    """
    known = list(sentences)
    names = sorted({tag for tags in known for tag in tags})
    number, forbidden = {name: position for position, name in enumerate(names)}, impossible_pairs(names)
    rows = ([len(names), *(number[tag] for tag in tags), len(names)] for tags in known)
    count = sum(int(forbidden[row[:-1], row[1:]].sum()) for row in rows)
    return count, sum(len(chunks(tags)) for tags in known)


MAX_CONFUSIONS = 10
"""The number of confusions that a report lists."""


@dataclass
class Tagging:
    """Counts of right and wrong tags, over sentences that are added one by one.

    A chunk is right if its type, its first and its last word are.

    >>> tagging = Tagging()
    >>> tagging.add(["B-LOC", "I-LOC", "O"], ["B-LOC", "O", "O"])
    >>> tagging.accuracy, tagging.chunks.f1, tagging.confusions
    (0.6666666666666666, 0.0, [('I-LOC', 'O', 1)])
    """

    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)  # (true tag, predicted tag) of each word
    types: dict[str, ChunkCounts] = field(default_factory=dict)
    sentences: int = 0
    unknown: int = 0  # number of words that are not in the training data
    unknown_right: int = 0
    labelled: int = 0
    labels_right: int = 0

    def add(self, references: Sequence[str], predictions: Sequence[str]) -> None:
        """Count a sentence with its true and its predicted tags."""
        self.sentences += 1
        self.pairs.update(zip(references, predictions, strict=True))
        right, guessed = set(chunks(references)), set(chunks(predictions))
        for chunk in right | guessed:
            counts = self.types.setdefault(chunk.type, ChunkCounts())
            counts.given += chunk in right
            counts.found += chunk in guessed
            counts.right += chunk in right and chunk in guessed

    @property
    def words(self) -> int:
        """The number of words."""
        return self.pairs.total()

    @property
    def right(self) -> int:
        """The number of words with the right tag."""
        return sum(count for (true, predicted), count in self.pairs.items() if true == predicted)

    @property
    def accuracy(self) -> float:
        """The share of words with the right tag; 0 without words."""
        return self.right / self.words if self.words else 0.0

    @property
    def chunks(self) -> ChunkCounts:
        """The counts of all types together, as in the first line of conlleval."""
        counts = self.types.values()
        return ChunkCounts(*(sum(column) for column in zip(*map(astuple, counts), strict=True)))

    @property
    def confusions(self) -> list[tuple[str, str, int]]:
        """The true tag, the wrong one that was predicted, and how often; most frequent first."""
        wrong = [(*pair, count) for pair, count in self.pairs.items() if pair[0] != pair[1]]
        return sorted(wrong, key=lambda confusion: (-confusion[2], confusion[:2]))

    def table(self) -> dict[str, dict[str, int]]:
        """The confusion table: for each true tag, how often each tag was predicted; without zeros."""
        rows: dict[str, dict[str, int]] = {}
        for (true, predicted), count in sorted(self.pairs.items()):
            rows.setdefault(true, {})[predicted] = count
        return rows

    def measures(self, *, chunked: bool) -> dict[str, Any]:
        """Accuracy, the F1 of chunks if tags mark some, and the numbers of words and sentences."""
        chunks = self.chunks
        values: dict[str, Any] = {"accuracy": self.accuracy}
        if chunked:
            values |= {"f1": chunks.f1, "precision": chunks.precision, "recall": chunks.recall}
            values["types"] = {name: self.types[name].values() for name in sorted(self.types)}
        if self.labelled:
            values["intent_accuracy"] = self.labels_right / self.labelled
        values["unknown_word_accuracy"] = self.unknown_right / self.unknown if self.unknown else None
        counts = {"words": self.words, "unknown_words": self.unknown, "sentences": self.sentences}
        return {**values, **counts, "confusion": self.table()}

    def report(self, *, chunked: bool) -> str:
        """The measures for people, with those of each type of chunk and the most frequent confusions."""
        values = self.measures(chunked=chunked)
        parts = [f"F1 {values['f1']:.2%}"] if chunked else []
        parts.append(f"accuracy {values['accuracy']:.2%}")
        if chunked:
            parts.append(f"precision {values['precision']:.2%}, recall {values['recall']:.2%}")
        if self.labelled:
            parts.append(f"intents {values['intent_accuracy']:.2%}")
        lines = [", ".join(parts), f"over {values['words']:,} words of {values['sentences']:,} sentences"]
        if self.unknown:
            right = f"{values['unknown_word_accuracy']:.2%} are right"
            lines[-1] += f"; of {self.unknown:,} words not seen in training {right}"
        if chunked:
            shares = ("precision", "recall", "f1")
            rows = [
                (name, *(f"{one[share]:.1%}" for share in shares), f"{one['given']:,}")
                for name, one in values["types"].items()
            ]
            table = align_columns([("type", "precision", "recall", "F1", "chunks"), *rows])
            lines += [f"  {line}" for line in table]
            lines.append(
                "Chunks are counted as conlleval counts them: I- after O or another type begins one."
            )
        if confused := self.confusions[:MAX_CONFUSIONS]:
            counted = [(true, predicted, f"{count:,}") for true, predicted, count in confused]
            table = align_columns([("true tag", "predicted", "times"), *counted], left=2)
            lines += ["Most frequent errors:", *(f"  {line}" for line in table)]
        return "\n".join(lines)
