"""The n-grams of a text, of its words and of its letters, as numbers: a hash that a page computes as well.

The text is in lower case. Words are runs of letters and digits, alone and in pairs. Letters are taken from
the text between white space with a space on each side, one to five at a time; a text of a script without
spaces is one such word.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MAX_LETTERS = 5
BASIS, WORD_BASIS, PRIME = 2166136261, 84696351, 16777619
"""Those of FNV-1a in 32 bits, which is taken over code points; words begin with another basis."""
HASH = 2**31 - 1
"""The bits of a hash that are kept, as a page has signed numbers."""
WORD = re.compile(r"[^\W_]+")

Hashes = NDArray[np.int64]


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
