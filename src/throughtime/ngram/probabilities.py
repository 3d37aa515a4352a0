"""The probabilities of an n-gram model: what follows from counts and a smoothing, without torch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from throughtime.ngram.counts import (
    MISSING,
    Floats,
    Ints,
    NgramCounts,
    NgramLevel,
    check_ids,
    continue_nodes,
    join_sequences,
    no_counts,
)
from throughtime.ngram.smoothing import Fixed, Interpolation, Smoothing


class NgramProbabilities:
    """P(next id | the last order - 1 ids); exported models compute with it."""

    def __init__(self, counts: NgramCounts, smoothing: Smoothing) -> None:
        self.counts = counts
        self.smoothing = smoothing

    @cached_property
    def interpolation(self) -> Interpolation:
        """The fitted smoothing, computed when it is first needed: a model can be saved without it."""
        return self.smoothing.fit(self.counts)

    @property
    def order(self) -> int:
        """The length of the longest n-grams: one more than the words that a prediction depends on."""
        return self.counts.order

    @property
    def vocabulary_size(self) -> int:
        """The number of ids."""
        return self.counts.vocabulary_size

    def log_probs(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """Return ln P of every id given those before it in its sequence; -inf for the impossible.

        Ids that are never predicted, such as the beginning of a sentence, are given and score 0.
        """
        ids, starts, ends = join_sequences(sequences)
        log_probs = self.stream_log_probs(ids, starts)
        return [log_probs[first:end] for first, end in itertools.pairwise([0, *ends.tolist()])]

    def stream_log_probs(self, ids: Ints, starts: Ints) -> Floats:
        """Return the same for one array in which a sequence begins at each of `starts`."""
        ids = check_ids(ids, self.vocabulary_size)
        base, shares, back, to_nothing, replaces = self.interpolation
        p, node, before = base[ids], ids, _words_before(len(ids), starts)
        single = p.copy() if to_nothing else p
        for n, level in enumerate(self.counts.levels[1:], start=2):
            context = continue_nodes(node, starts)
            node = np.full(len(ids), MISSING)
            if to_nothing:
                p = np.where(before >= n - 1, single, p)
            known = np.flatnonzero(context != MISSING)  # far from all: few long contexts were counted
            context = context[known]
            node[known] = nodes = level.find(context, ids[known])
            p[known] = _mix(nodes, shares[n - 1], back[n - 1][context], p[known], replaces)
        with np.errstate(divide="ignore"):
            log_p: Floats = np.log(p)
        log_p[np.isin(ids, self.counts.never)] = 0.0
        return log_p

    def distribution(self, contexts: Ints) -> Floats:
        """Return P of every id after each row of `contexts`, as [rows, V].

        `contexts` is [rows, words], with MISSING before the first word of a row. Only the last order - 1
        words of a row matter.
        """
        base, shares, back, to_nothing, replaces = self.interpolation
        p = everywhere = np.tile(base, (len(contexts), 1))
        for n in range(2, self.order + 1):
            level, context = self.counts.levels[n - 1], self.context_nodes(contexts, n - 1)
            weight = _weight(context, back[n - 1])
            seen = ~np.isnan(weight)
            lower = np.where(_have_words(contexts, n - 1)[:, None], everywhere, p) if to_nothing else p
            p = np.where(seen, weight, 1.0)[:, None] * lower
            row, node = level.children(np.where(seen, context, MISSING))
            word = level.keys[node] % self.vocabulary_size
            p[row, word] = shares[n - 1][node] + (0.0 if replaces else p[row, word])
        return p

    def context_nodes(self, contexts: Ints, words: int) -> Ints:
        """Find the node of the last `words` words of each row."""
        if contexts.shape[1] < words:
            return np.full(len(contexts), MISSING)
        recent = contexts[:, contexts.shape[1] - words :]
        node: Ints = recent[:, 0].astype(np.int64)
        for level, word in zip(self.counts.levels[1:], recent.T[1:], strict=False):
            node = level.find(node, word.astype(np.int64))
        return node

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any], order: int, never: Sequence[int]) -> Self:
        """Build a model of stored probabilities from the tables of its export."""
        base = tables["base"].astype(np.float64)
        levels, empty = [NgramLevel(np.arange(len(base)), no_counts(len(base)), len(base))], np.empty(0)
        own, back = [empty], [empty]
        for n in range(2, order + 1):
            contexts, words = np.arange(len(tables[f"size_{n}"])), tables[f"word_{n}"].astype(np.int64)
            keys = np.repeat(contexts, tables[f"size_{n}"]) * len(base) + words
            levels.append(NgramLevel(keys, no_counts(len(keys)), len(base)))
            own.append(tables[f"own_{n}"])
            back.append(tables[f"back_{n}"])
        fixed = Fixed(Interpolation(base, tuple(own), tuple(back), False, replaces=True))
        return cls(NgramCounts(tuple(levels), len(base), tuple(never)), fixed)


def _mix(node: Ints, shares: Floats, weight: Floats, lower: Floats, replaces: bool) -> Floats:
    """own + weight * lower; lower alone where the context was never continued.

    If own `replaces`, it is the whole probability of the n-grams that have one.
    """
    counted = np.flatnonzero(node != MISSING)
    mixed = weight * lower
    mixed[counted] = shares[node[counted]] + (0.0 if replaces else mixed[counted])
    return np.where(np.isnan(weight), lower, mixed)


def _words_before(count: int, starts: Ints) -> Ints:
    """The number of words before each position in its own sequence."""
    positions = np.arange(count)
    first_places = np.zeros(count, dtype=np.int64)
    first_places[starts] = starts
    counts: Ints = positions - np.maximum.accumulate(first_places)
    return counts


def _have_words(contexts: Ints, words: int) -> npt.NDArray[np.bool_]:
    """Which rows have at least this number of words."""
    if contexts.shape[1] < words:
        return np.zeros(len(contexts), dtype=bool)
    has_words: npt.NDArray[np.bool_] = contexts[:, contexts.shape[1] - words] != MISSING
    return has_words


def _weight(context: Ints, back: Floats) -> Floats:
    """The weight of the shorter context; NaN for a context that was not counted or never continued."""
    return np.where(context >= 0, back[context], np.nan) if len(back) else np.full(len(context), np.nan)
