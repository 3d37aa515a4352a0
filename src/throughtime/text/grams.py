"""The n-grams of a text, of its words and of its letters, as numbers: a hash that a page computes as well.

The text is in lower case. Words are runs of letters and digits, alone and in pairs. Letters are taken from
the text between white space with a space on each side, one to five at a time; a text of a script without
spaces is one such word.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

MAX_LETTERS = 5
BASIS, WORD_BASIS, PRIME = 2166136261, 84696351, 16777619
"""Those of FNV-1a in 32 bits, which is taken over code points; words begin with another basis."""
HASH = 2**31 - 1
"""The bits of a hash that are kept, as a page has signed numbers."""
WORD = re.compile(r"[^\W_]+")

MIN_TEXTS = 2
"""Number of training texts that a known n-gram is in, at least."""

Hashes = NDArray[np.int64]
Columns = tuple[NDArray[np.int64], NDArray[np.float32]]
"""The numbers of the known n-grams of a text, and the weight of each."""


@dataclass(frozen=True)
class Grams:
    """The n-grams that a model knows: their hashes in order, and the weight of each, by how rare it is.

    >>> known = Grams.of(["a cat", "a cow", "the cat"], most=100)
    >>> columns, values = known.read("cat!")
    >>> len(columns), round(float((values**2).sum()), 3)
    (10, 2.0)
    >>> len(known.read("")[0])
    0
    """

    keys: Hashes
    rarity: NDArray[np.float32]

    @classmethod
    def of(cls, texts: Iterable[str], most: int) -> Self:
        """Collect those of at least `MIN_TEXTS` texts; if they are more than `most`, the frequent ones."""
        found = [np.unique(np.concatenate(hash_grams(text))) for text in texts]
        keys, counts = np.unique(np.concatenate([np.zeros(0, np.int64), *found]), return_counts=True)
        order = np.argsort(-counts, kind="stable")[:most]
        chosen = np.sort(order[counts[order] >= MIN_TEXTS])
        rarity = np.log((1 + len(found)) / (1 + counts[chosen])) + 1
        return cls(keys[chosen], rarity.astype(np.float32))

    def read(self, text: str) -> Columns:
        """The known n-grams of a text; those of words and those of letters have each the length 1."""
        columns, values = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
        for hashes in hash_grams(text):
            grams, counts = np.unique(hashes, return_counts=True)
            places = np.searchsorted(self.keys, grams)
            known = places < len(self.keys)
            known[known] = self.keys[places[known]] == grams[known]
            column = places[known]
            value = (1 + np.log(counts[known])) * self.rarity[column]
            columns.append(column)
            values.append((value / max(1e-9, float(np.sqrt(np.square(value).sum())))).astype(np.float32))
        return np.concatenate(columns), np.concatenate(values)


def hash_grams(text: str) -> tuple[Hashes, Hashes]:
    """The hashes of the n-grams of words, and of those of letters, with repeats.

    >>> words, letters = hash_grams("To be")
    >>> len(words), len(letters)
    (3, 16)
    >>> np.array_equal(hash_grams("to  BE")[0], words)
    True
    """
    lower = text.lower()
    words = np.array([_hash_word(word) for word in WORD.findall(lower)], dtype=np.uint32)
    pairs = (words[:-1] * np.uint32(PRIME) ^ words[1:]) * np.uint32(PRIME)
    spaced = " ".join(["", *lower.split(), ""])
    points = np.frombuffer(spaced.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return _shorten([words, pairs]), _shorten(_hash_letters(points))


def _hash_letters(points: NDArray[np.uint32]) -> list[NDArray[np.uint32]]:
    """The hashes of one to five code points; a space may only be the first or the last of them."""
    blank = points == 32
    hashes, whole, found = np.full(len(points), BASIS, dtype=np.uint32), np.ones(len(points), bool), []
    for size in range(1, min(MAX_LETTERS, len(points)) + 1):
        ends = points[size - 1 :]
        if size > 2:
            whole = whole[: len(ends)] & ~blank[size - 2 : size - 2 + len(ends)]
        hashes = (hashes[: len(ends)] ^ ends) * np.uint32(PRIME)
        inside = whole[: len(ends)] & ~blank[: len(ends)] if size == 1 else whole[: len(ends)]
        found.append(hashes[inside])
    return found


def _shorten(hashes: Sequence[NDArray[np.uint32]]) -> Hashes:
    return (np.concatenate(hashes) & np.uint32(HASH)).astype(np.int64)


@functools.lru_cache(maxsize=200_000)
def _hash_word(word: str) -> int:
    number = WORD_BASIS
    for letter in word:
        number = (number ^ ord(letter)) * PRIME & 0xFFFFFFFF
    return number
