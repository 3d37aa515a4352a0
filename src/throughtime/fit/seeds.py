"""The random seed of each update, many at a time: numpy takes 10 µs for one alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLOCK = 1024
"""Number of updates whose seeds are computed together."""
_POOL = 4
_FIRST, _LAST = (0x43B0D7E5, 0x931E8875), (0x8B51F9DD, 0x58F38DED)
"""The first constant of numpy's hash and its factor, for mixing the numbers and for the result."""
_LEFT, _RIGHT = 0xCA01F9DD, 0x4973F715
_32_BITS = 0xFFFFFFFF

Words = NDArray[np.uint32]


class UpdateSeeds:
    """The seeds of all updates of a process; they follow from the seed of the run, the update and the rank.

    >>> UpdateSeeds(seed=7, rank=0).find(3) == int(np.random.SeedSequence([7, 3, 0]).generate_state(1)[0])
    True
    """

    def __init__(self, seed: int, rank: int) -> None:
        self._seed, self._rank = seed, rank
        self._first = 0
        self._block: list[int] = []

    def find(self, step: int) -> int:
        """Return the seed of the update with this number."""
        place = step - self._first
        if not 0 <= place < len(self._block):
            self._first, place = step, 0
            steps = np.arange(step, step + BLOCK, dtype=np.uint32)
            numbers = [*_split_words(self._seed), steps, *_split_words(self._rank)]
            self._block = _hash_numbers(numbers).tolist()
        return self._block[place]


def _split_words(number: int) -> list[Words]:
    """Return a number in words of 32 bits, the lowest first."""
    words = max(-(-number.bit_length() // 32), 1)
    return [np.full(BLOCK, number >> 32 * place & _32_BITS, dtype=np.uint32) for place in range(words)]


def _hash_numbers(numbers: list[Words]) -> Words:
    """Return the first word that `np.random.SeedSequence` generates from these numbers, for each column."""
    constant, factor = _FIRST

    def scramble(word: Words) -> Words:
        nonlocal constant
        word = word ^ np.uint32(constant)
        constant = constant * factor & _32_BITS
        return _fold(word * np.uint32(constant))

    empty = np.zeros_like(numbers[0])
    pool = [scramble(word) for word in [*numbers, *[empty] * _POOL][:_POOL]]
    for source in range(_POOL):
        for place in range(_POOL):
            if place != source:
                pool[place] = _mix(pool[place], scramble(pool[source]))
    for word in numbers[_POOL:]:
        pool = [_mix(own, scramble(word)) for own in pool]
    first, factor = _LAST
    return _fold((pool[0] ^ np.uint32(first)) * np.uint32(first * factor & _32_BITS))


def _mix(one: Words, other: Words) -> Words:
    return _fold(np.uint32(_LEFT) * one - np.uint32(_RIGHT) * other)


def _fold(words: Words) -> Words:
    return words ^ words >> np.uint32(16)
