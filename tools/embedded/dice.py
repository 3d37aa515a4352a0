"""Choices that look random and are the same in every process and every version of Python."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")
_MASK = (1 << 64) - 1


def digest(text: str) -> int:
    """64 bits that stand for a text, whatever PYTHONHASHSEED says."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


class Dice:
    """A splitmix64 generator, written out because `random` may change how it chooses.

    >>> dice = Dice("an example")
    >>> [dice.choose("abcdef") for _ in range(8)] == [Dice("an example").choose("abcdef")] * 8
    False
    """

    def __init__(self, seed: str) -> None:
        self.state = digest(seed)

    def throw(self, sides: int) -> int:
        """A whole number from 0 to `sides` - 1."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self.state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return (mixed ^ (mixed >> 31)) % sides

    def choose(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self.throw(len(items))]

    def once_in(self, times: int) -> bool:
        """True about once in so many times."""
        return self.throw(times) == 0
