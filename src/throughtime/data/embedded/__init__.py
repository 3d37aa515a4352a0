"""Corpora that come with the package: sentence pairs, a short story, and two noisy series.

A small grammar wrote the sentences: `tools/embedded` in the repository.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from collections.abc import Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from throughtime.data.records import Pair
from throughtime.errors import InputError, unknown

if TYPE_CHECKING:
    import numpy as np

    Values = np.ndarray[Any, np.dtype[np.float64]]

__all__ = ["LANGUAGE_PAIRS", "SERIES", "SPLITS", "all_pairs", "english", "pairs", "series", "story"]

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
    for part in rows.values():  # the file keeps similar sentences together, so that it is small
        part.sort(key=lambda sentences: hashlib.sha256(sentences[0].encode()).digest())
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


def all_pairs(name: str) -> list[Pair]:
    """Return the pairs of train, then valid, then test."""
    return [pair for split in SPLITS for pair in pairs(name, split)]


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


def _sine(length: int) -> Values:
    import numpy as np

    curve: Values = np.sin(0.01 * np.arange(1, length + 1))
    return curve


def _ramp(length: int) -> Values:
    import numpy as np

    return np.linspace(0.0, 10.0, length)


SERIES: dict[str, tuple[Callable[[int], Values], float]] = {"sine": (_sine, 0.2), "ramp": (_ramp, 0.5)}
"""Each series: its curve without noise, and the standard deviation of the noise added to it."""


def series(name: str, length: int = 1000, seed: int = 0) -> Values:
    """Return `length` values of a series; the same name, length and seed always give the same values.

    >>> series("ramp", length=3).round(2).tolist()
    [0.88, 5.2, 10.49]
    """
    import numpy as np

    if name not in SERIES:
        raise unknown("series", name, SERIES)
    if length < 1:
        raise InputError("length", f"is {length}, expected at least 1")
    curve, noise = SERIES[name]
    # numpy promises never to change the numbers of RandomState; of default_rng it does not.
    return curve(length) + noise * np.random.RandomState(seed).standard_normal(length)
