"""Finding many numbers at once in a sorted array."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

MISSING = -1
"""The place of a number that the array does not hold."""
MAX_TABLE = 1 << 22
"""Number of keys up to which a table is made: it takes 8 to 16 bytes for each."""
FEW = 256
"""Number of wanted numbers that are searched for as they come; more are sorted first."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: the products of near numbers are far apart (Knuth, volume 3, 6.4)."""


class SortedKeys:
    """Sorted, distinct keys of 0 or more.

    The first few searches are binary. Once that has cost about as much as a table would, a table is made: the
    place of a key stands at its hash value, or, if that was taken, at the next free entry. Keys that are too
    many for a table are searched for in their order, which reads a file from its beginning to its end.

    >>> SortedKeys(np.array([2, 3, 7])).find(np.array([7, 4, 2, -1])).tolist()
    [2, -1, 0, -1]
    """

    def __init__(self, keys: Ints) -> None:
        self.keys = keys
        self._asked = 0
        self._table: npt.NDArray[np.int32] | None = None

    def find(self, wanted: Ints) -> Ints:
        """The place of each wanted number among the keys; MISSING if it is not there."""
        self._asked += len(wanted)
        if self._table is None and len(self.keys) < min(4 * self._asked, MAX_TABLE):
            self._table = build_table(self.keys)
        return self.look_up(wanted, self._table) if self._table is not None else self.search(wanted)

    def search(self, wanted: Ints) -> Ints:
        """Find them by binary search."""
        if not len(self.keys):
            return np.full(wanted.shape, MISSING)
        order = np.argsort(wanted) if len(wanted) > FEW else slice(None)
        sought = wanted[order]
        place = np.searchsorted(self.keys, sought).clip(max=len(self.keys) - 1)
        found = np.empty(wanted.shape, np.int64)
        found[order] = np.where(self.keys[place] == sought, place, MISSING)
        return found

    def look_up(self, wanted: Ints, table: npt.NDArray[np.int32]) -> Ints:
        """Find them in a table, all at once: those that meet another key go on to the next entry."""
        if not len(self.keys):
            return self.search(wanted)
        entry = _hash(wanted, len(table))
        place: Ints = table[entry].astype(np.int64)
        wrong = np.flatnonzero((self.keys[place] != wanted) & (place != MISSING))
        entry = entry[wrong]
        while len(wrong):
            entry = entry + 1 & len(table) - 1
            met = table[entry]
            place[wrong] = met
            lost = (self.keys[met] != wanted[wrong]) & (met != MISSING)
            entry, wrong = entry[lost], wrong[lost]
        return place


def build_table(keys: Ints) -> npt.NDArray[np.int32]:
    """The places of the keys by their hash values; at most half of the entries are taken."""
    table = np.full(1 << (2 * len(keys) - 1).bit_length(), MISSING, np.int32)
    place = np.arange(len(keys), dtype=np.int32)
    entry = _hash(keys, len(table))
    while len(place):
        free = table[entry] == MISSING
        table[entry[free]] = place[free]  # of several keys, the last one gets the entry
        lost = table[entry] != place
        place, entry = place[lost], entry[lost] + 1 & len(table) - 1
    return table


def _hash(numbers: Ints, size: int) -> Ints:
    """An entry of a table of `size`, a power of two, for each number: the upper bits of a product."""
    product = numbers.astype(np.uint64) * _FACTOR
    return (product >> np.uint64(65 - size.bit_length())).astype(np.int64)
