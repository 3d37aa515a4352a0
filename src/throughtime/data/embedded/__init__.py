"""Corpora that come with the package: sentence pairs, a short story, two noisy series and gestures of a pen.

A small grammar wrote the sentences, and formulas the gestures: `tools/embedded` in the repository.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from throughtime.data.records import Line, Observation, Pair
from throughtime.data.vectors import VectorSequence
from throughtime.errors import check_whole, unknown

if TYPE_CHECKING:
    import numpy as np

    Values = np.ndarray[Any, np.dtype[np.float64]]

SPLITS = ("train", "valid", "test")
LANGUAGE_PAIRS = ("en-fr", "en-zh")


@functools.cache
def _rows() -> dict[str, list[list[str]]]:
    """English, French and Chinese sentences by split."""
    text = gzip.decompress(files(__package__).joinpath("sentences.tsv.gz").read_bytes()).decode()
    rows: dict[str, list[list[str]]] = {split: [] for split in SPLITS}
    for line in text.splitlines():
        split, *sentences = line.split("\t")
        rows[split].append(sentences)
    for sentences_split in rows.values():  # the file keeps similar sentences together to be small
        sentences_split.sort(key=lambda sentences: hashlib.sha256(sentences[0].encode()).digest())
    return rows


def pairs(name: str, split: str = "train") -> list[Pair]:
    """Return the sentence pairs of a split of `en-fr` or `en-zh`; no two splits share a sentence.

    >>> pairs("en-zh", "test")[0]
    Pair(source='When did your grandfather go to China?', target='你爷爷是什么时候去中国的？')
    """
    if name not in LANGUAGE_PAIRS:
        raise unknown("embedded pairs", name, LANGUAGE_PAIRS)
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    column = 1 + LANGUAGE_PAIRS.index(name)
    return [Pair(row[0], row[column]) for row in _rows()[split]]


def story() -> list[str]:
    """Return the sentences of a short story about a summer at grandma's."""
    return files(__package__).joinpath("story.txt").read_text("utf-8").splitlines()


def english(split: str = "train") -> list[str]:
    """Return the distinct English sentences of a split; train begins with the story.

    >>> english("train")[0]
    'My grandma lives in a small house near the beach.'
    """
    opening = story() if split == "train" else []
    return list(dict.fromkeys([*opening, *(pair.source for pair in pairs("en-fr", split))]))


SERIES = {"sine": 0.2, "ramp": 0.5}
"""The standard deviation of the noise of each series."""


def series(name: str, length: int = 1000, seed: int = 0) -> Values:
    """Return `length` values of a series; the same name, length and seed always give the same values.

    >>> series("ramp", length=3).round(2).tolist()
    [0.88, 5.2, 10.49]
    """
    import numpy as np

    if name not in SERIES:
        raise unknown("series", name, SERIES)
    check_whole("length", length)
    curve = np.sin(0.01 * np.arange(1, length + 1)) if name == "sine" else np.linspace(0.0, 10.0, length)
    # numpy guarantees the numbers of RandomState, but not those of default_rng.
    noise: Values = np.random.RandomState(seed).standard_normal(length)
    return curve + SERIES[name] * noise


GESTURES_IN_A_ROW = 3


def gestures(split: str, *, steps: bool = False) -> list[VectorSequence]:
    """Return the gestures of a split, points of a pen; `steps` joins several, with a label for each step.

    >>> first = gestures("train")[0]
    >>> first.label, first.features, len(first.values)
    ('circle', ('x', 'y'), 48)
    """
    import numpy as np

    text = gzip.decompress(files(__package__).joinpath("gestures.tsv.gz").read_bytes()).decode()
    sequences = []
    for line in text.splitlines():
        of, name, label, points = line.split("\t")
        if of == split:
            values = np.array([point.split(",") for point in points.split()], dtype=np.float64) / 100
            sequences.append(VectorSequence.of(values, [label], name, ("x", "y")))
    if not steps:
        return sequences
    joined = []
    for first in range(0, len(sequences), GESTURES_IN_A_ROW):
        row = sequences[first : first + GESTURES_IN_A_ROW]
        labels = [each.label for each in row for _ in each.values]
        values = np.concatenate([each.values for each in row])
        joined.append(VectorSequence.of(values, labels, row[0].name, ("x", "y")))
    return joined


def records(kind: str, name: str, split: str) -> list[Any]:
    """Return the pairs, sequences, observations or lines of a split, as a reader would yield them."""
    if kind == "vectors":
        return list(gestures(split, steps=name == "gesture-steps"))
    if kind == "pairs":
        return list(pairs(name, split))
    if kind == "series":
        return [Observation(name, str(time), float(y)) for time, y in enumerate(series(name), start=1)]
    return [Line(sentence) for sentence in english(split)]
