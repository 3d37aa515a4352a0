"""Counts of n-grams of every length up to an order, as a trie in flat arrays.

An n-gram w_1..w_n is a node of level n. Its key is `node(w_1..w_{n-1}) * V + w_n`, so that sorting the keys
puts the continuations of one context side by side. An n-gram that was not counted, or that would begin before
its sentence, has the node MISSING.
"""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from throughtime.errors import InputError, check_whole

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Links = npt.NDArray[np.signedinteger[Any]]

MISSING = -1
"""The place of a number that an array does not hold."""
FEW = 256
"""Number of wanted numbers that are searched for as they come; more are sorted first."""
SLICE = 1 << 18
"""Number of nodes that are worked on at once, so that large models need little memory besides their own."""


@dataclass(frozen=True)
class NgramLevel:
    """The n-grams of one length: their sorted keys, and how often each occurred."""

    keys: Ints  # [nodes]
    count: Ints  # [nodes]
    vocabulary_size: int

    @property
    def context(self) -> Ints:
        """Each node's parent: the n-gram without its last word."""
        return self.keys // self.vocabulary_size

    @property
    def word(self) -> Ints:
        """Each node's last word."""
        return self.keys % self.vocabulary_size

    def slices(self, size: int = SLICE) -> Iterator[tuple[slice, Ints]]:
        """Cut the nodes into slices of about `size`; yield each with the contexts of its nodes.

        All continuations of a context are in one slice.

        >>> level = NgramLevel(np.array([0, 1, 2, 5, 6, 12]), np.ones(6, np.int64), 5)
        >>> [(part.start, part.stop) for part, _ in level.slices(4)]
        [(0, 3), (3, 6)]
        """
        start, nodes = 0, len(self.keys)
        while start < nodes:
            end = min(start + size, nodes)
            if end < nodes:
                cut = self.keys[end] // self.vocabulary_size * self.vocabulary_size
                end = int(np.searchsorted(self.keys, cut))
                if end == start:  # a context with more continuations than fit
                    end = int(np.searchsorted(self.keys, cut + self.vocabulary_size))
            yield slice(start, end), self.keys[start:end] // self.vocabulary_size
            release(self.keys, self.count)
            start = end

    def find(self, context: Ints, word: Ints) -> Ints:
        """Find the nodes of these contexts continued by these words; MISSING if there are none."""
        known = np.flatnonzero((context >= 0) & (word >= 0))
        nodes = np.full(context.shape, MISSING)
        nodes[known] = find_keys(self.keys, context[known] * self.vocabulary_size + word[known])
        return nodes

    def fits(self, contexts: int) -> bool:
        """Return whether this can be a level above one of `contexts` nodes.

        >>> [NgramLevel(np.array([1, key]), np.array([4, 1]), 5).fits(contexts=2) for key in (9, 1, 10)]
        [True, False, False]
        """
        whole = all(array.dtype == np.int64 and array.ndim == 1 for array in (self.keys, self.count))
        if not whole or self.keys.shape != self.count.shape:
            return False
        if any((part < 0).any() for part in read_parts(self.count)):
            return False
        last = MISSING
        for part in read_parts(self.keys):
            if part[0] <= last or not (part[1:] > part[:-1]).all():
                return False
            last = int(part[-1])
        return last < contexts * self.vocabulary_size

    def children(self, context: Ints) -> tuple[Ints, Ints]:
        """List all continuations of these contexts: the row of the context, and the node."""
        first = np.searchsorted(self.keys, context * self.vocabulary_size)
        after = np.searchsorted(self.keys, (context + 1) * self.vocabulary_size)
        size = np.where(context >= 0, after - first, 0)
        row = np.repeat(np.arange(len(context)), size)
        within = np.arange(len(row)) - np.repeat(np.cumsum(size) - size, size)
        return row, np.repeat(first, size) + within


@dataclass(frozen=True)
class NgramCounts:
    """Counts of all n-grams of 1 to `order` ids, which are 0 to V - 1.

    `never` lists ids that are never predicted, such as the beginning of a sentence and padding.

    >>> counts = NgramCounts.of([[0, 1, 0, 2]], order=2, vocabulary_size=3)
    >>> counts.levels[0].count.tolist()         # a twice, b once, c once
    [2, 1, 1]
    >>> [(int(c), int(w)) for c, w in zip(counts.levels[1].context, counts.levels[1].word)]
    [(0, 1), (0, 2), (1, 0)]
    """

    levels: tuple[NgramLevel, ...]
    vocabulary_size: int
    never: tuple[int, ...] = ()

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return len(self.levels)

    @classmethod
    def of(
        cls, sentences: Sequence[Sequence[int]], order: int, vocabulary_size: int, never: Sequence[int] = ()
    ) -> NgramCounts:
        """Count the n-grams of sentences; none crosses from one sentence into the next."""
        if not all(hasattr(sentence, "__len__") for sentence in sentences):
            raise InputError("sentences", "are one list of ids; give a list of sentences, each a list of ids")
        ids, starts, _ = join_sequences(sentences)
        return cls.of_stream(ids, starts, order, vocabulary_size, never)

    @classmethod
    def of_stream(
        cls,
        ids: Ints,
        starts: Ints,
        order: int,
        vocabulary_size: int,
        never: Sequence[int] = (),
        *,
        counted: int = 0,
    ) -> NgramCounts:
        """Count one array of ids in which a sentence begins at each of `starts`.

        N-grams that end among the first `counted` ids are listed, but counted elsewhere.
        """
        check_whole("order", order)
        if not len(ids):
            raise InputError("the training text", "has no tokens to count")
        ids = check_ids(ids, vocabulary_size)
        levels = itertools.islice(grow_levels(ids, starts, vocabulary_size, counted), order)
        return cls(tuple(levels), vocabulary_size, tuple(sorted(set(never))))

    def suffix_links(self) -> Generator[Links]:
        """For each level, the node of each n-gram without its first word, which is in the level below."""
        links: Links = np.zeros(self.vocabulary_size, np.int32)
        yield links
        for below, level in itertools.pairwise(self.levels):
            longer: Links = np.empty(len(level.keys), np.int32 if len(below.keys) < 2**31 else np.int64)
            for part, context in level.slices():
                words = level.keys[part] % self.vocabulary_size
                longer[part] = below.find(links[context].astype(np.int64), words)
            links = longer
            yield links

    @cached_property
    def suffix(self) -> tuple[Ints, ...]:
        """The links of all levels, kept in memory."""
        return tuple(links.astype(np.int64) for links in self.suffix_links())

    def count(self, ngram: Sequence[int]) -> int:
        """Return how often an n-gram occurred."""
        if not 1 <= len(ngram) <= self.order:
            raise InputError("ngram", f"has {len(ngram)} ids, expected 1 to {self.order}")
        check_ids(ngram, self.vocabulary_size)
        node = np.array([ngram[0]])
        for level, word in zip(self.levels[1:], ngram[1:], strict=False):
            node = level.find(node, np.array([word]))
        return int(self.levels[len(ngram) - 1].count[node[0]]) if node[0] >= 0 else 0


def grow_levels(ids: Ints, starts: Ints, vocabulary_size: int, counted: int = 0) -> Iterator[NgramLevel]:
    """Yield the n-grams of length 1, 2, ... of a text; see `NgramCounts.of_stream`."""
    once = np.bincount(ids[counted:], minlength=vocabulary_size)
    yield NgramLevel(np.arange(vocabulary_size), once, vocabulary_size)
    node = ids
    while True:
        keys = continue_nodes(node, starts) * vocabulary_size + ids
        seen = keys >= 0
        # With indices, numpy sorts stably, which is faster for integers.
        unique, _, inverse, count = np.unique(
            keys[seen], return_index=True, return_inverse=True, return_counts=True
        )
        count -= np.bincount(inverse[: np.count_nonzero(seen[:counted])], minlength=len(unique))
        yield NgramLevel(unique, count, vocabulary_size)
        node = np.full(len(ids), MISSING)
        node[seen] = inverse


def join_sequences(sequences: Sequence[Sequence[int]]) -> tuple[Ints, Ints, Ints]:
    """Join sequences to one array; return also where each that is not empty begins, and where each ends."""
    lengths = np.fromiter((len(sequence) for sequence in sequences), np.int64, len(sequences))
    # No dtype is given here: an array of integers would silently round fractions.
    ids = np.array(list(itertools.chain.from_iterable(sequences)) or np.empty(0, np.int64))
    ends = np.cumsum(lengths)
    return ids, (ends - lengths)[lengths > 0], ends


def find_keys(keys: Ints, wanted: Ints) -> Ints:
    """Return the place of each wanted number among sorted, distinct keys; MISSING if it is not there.

    >>> find_keys(np.array([2, 3, 7]), np.array([7, 4, 2, -1])).tolist()
    [2, -1, 0, -1]
    """
    if not len(keys):
        return np.full(wanted.shape, MISSING)
    # In their order, the keys are read from the beginning to the end.
    order = np.argsort(wanted) if len(wanted) > FEW else slice(None)
    places = np.searchsorted(keys, wanted[order]).clip(max=len(keys) - 1)
    result = np.empty(wanted.shape, np.int64)
    result[order] = np.where(keys[places] == wanted[order], places, MISSING)
    return result


def no_counts(size: int) -> Ints:
    """Zeros that take no memory, for n-grams with probabilities but no counts."""
    return np.broadcast_to(np.int64(0), (size,))


def read_parts(values: npt.NDArray[Any], size: int = SLICE) -> Iterator[npt.NDArray[Any]]:
    """Cut an array into parts, each of which leaves memory after it was read if it is on a file."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
        release(values)


def release(*arrays: npt.NDArray[Any]) -> None:
    """Let what was read of arrays on files leave the memory of the process; it is read again when needed."""
    for array in arrays:
        whole = getattr(array, "_mmap", None)  # a copy of a memmap is one, too, but has no file
        if whole is not None and array.size and hasattr(mmap, "MADV_DONTNEED"):
            start = array.ctypes.data - np.frombuffer(whole, np.uint8).ctypes.data
            page = start // mmap.PAGESIZE * mmap.PAGESIZE
            whole.madvise(mmap.MADV_DONTNEED, page, start + array.nbytes - page)


def continue_nodes(node: Ints, starts: Ints) -> Ints:
    """Shift nodes by one position: the node before a word is its context; MISSING where a sentence begins."""
    before = np.empty_like(node)
    before[1:] = node[:-1]
    before[:1] = MISSING
    before[starts] = MISSING
    return before


def check_ids(ids: npt.ArrayLike, vocabulary_size: int) -> Ints:
    """Return ids as an array; refuse those that are outside a vocabulary of this size.

    >>> check_ids([0, 5], vocabulary_size=2)
    Traceback (most recent call last):
    throughtime.errors.InputError: ids: hold 5, outside a vocabulary of 0 to 1
    """
    check_whole("vocabulary_size", vocabulary_size)
    array = np.asarray(ids)
    if len(array) and array.dtype.kind not in "iu":
        raise InputError("ids", f"are {array.dtype}, expected whole numbers")
    wrong = array[(array < 0) | (array >= vocabulary_size)]
    if len(wrong):
        raise InputError("ids", f"hold {wrong[0]}, outside a vocabulary of 0 to {vocabulary_size - 1}")
    return array.astype(np.int64, copy=False)
