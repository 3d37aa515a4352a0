"""Random numbers from a counter-based generator, Philox 4x32-10.

A usual generator has a state and gives each caller the next number. Here a number is a function of the seed,
the sentence, the choice and the step. So a trained model, its exported copy and a server that writes many
texts at once draw the same text from the same seed, on any device, whatever else they write at the same time.

John K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Words = tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]

LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
WEYL = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
STEPS_AT_ONCE, NUMBERS_AT_ONCE = 64, 4_096


def philox(counter: tuple[ArrayLike, ...], key: tuple[ArrayLike, ...]) -> Words:
    """Four words of 32 bits for a counter of four words and a key of two; arrays are broadcast.

    >>> [f"{word:08x}" for word in philox((0, 0, 0, 0), (0, 0))]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    a, b, c, d = (np.asarray(word, dtype=np.uint64) for word in counter)
    left, right = (np.asarray(word, dtype=np.uint64) for word in key)
    for _ in range(10):
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b, c, d = (second >> HALF) ^ b ^ left, second & LOW, (first >> HALF) ^ d ^ right, first & LOW
        left, right = (left + WEYL[0]) & LOW, (right + WEYL[1]) & LOW
    return a, b, c, d


def uniform(
    seed: Any, step: ArrayLike, sentence: ArrayLike = 0, choice: ArrayLike = 0
) -> NDArray[np.float64]:
    """Numbers in [0, 1) with 53 random bits; arrays (also of seeds) are broadcast.

    >>> uniform(7, [0, 1, 2]).round(3).tolist() == uniform(7, np.arange(3)).round(3).tolist()
    True
    """
    seed = np.asarray(seed, dtype=np.uint64)
    high, low, *_ = philox((step, choice, sentence, 0), (seed & LOW, seed >> HALF))
    return _fraction(high, low)


def uniform_table(
    seed: int, step: int, sentences: NDArray[Any], places: NDArray[Any], count: int
) -> NDArray[np.float64]:
    """`count` numbers in [0, 1) for each row, a place in the beam of a sentence: [rows, count].

    Each counter gives two numbers, and only a few rows are computed at once, so that they stay in the cache.

    >>> table = uniform_table(7, 1, np.array([0, 0, 4]), np.array([0, 1, 0]), 5)
    >>> bool((table[2:] == uniform_table(7, 1, np.array([4]), np.array([0]), 5)).all())
    True
    """
    key = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)
    pairs, some = np.arange(-(-count // 2)), max(1, NUMBERS_AT_ONCE // count)
    found = np.empty((len(sentences), len(pairs), 2))
    for first in range(0, len(found), some):
        rows = slice(first, first + some)
        a, b, c, d = philox((step, pairs, sentences[rows, None], places[rows, None] + 1), key)
        found[rows, :, 0], found[rows, :, 1] = _fraction(a, b), _fraction(c, d)
    return found.reshape(len(found), -1)[:, :count]


def _fraction(high: NDArray[np.uint64], low: NDArray[np.uint64]) -> NDArray[np.float64]:
    bits = (high >> np.uint64(5)) * np.float64(2**26) + (low >> np.uint64(6))
    found: NDArray[np.float64] = bits / 2**53
    return found


def whole_seed(seed: int | None) -> int:
    """A seed as 64 bits; a new random one if it is None."""
    return secrets.randbits(64) if seed is None else seed % 2**64


class Draws:
    """One number per row and step, computed for several steps at once."""

    def __init__(self, seed: int | None, sentences: NDArray[Any], choices: NDArray[Any]) -> None:
        self.seed, self.sentences, self.choices = whole_seed(seed), sentences, choices
        self.size = max(1, min(STEPS_AT_ONCE, NUMBERS_AT_ONCE // max(1, len(sentences))))

    def __iter__(self) -> Iterator[NDArray[np.float64]]:
        """The numbers of all rows, [rows], step after step."""
        for step in count(0, self.size):
            yield from self.block(step)

    def block(self, step: int) -> NDArray[np.float64]:
        """The numbers of all rows from this step on, [size, rows]."""
        steps = np.arange(step, step + self.size)[:, None]
        return uniform(self.seed, steps, self.sentences, self.choices)
