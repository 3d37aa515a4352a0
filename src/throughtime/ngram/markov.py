r"""Markov chains: what an n-gram model says about the steps beyond the next one.

A chain of order k over V words has V^k states, but an n-gram model tells few of them apart: P(w | c) depends
only on the longest suffix of the context c that was counted. These suffixes, the n-grams of 0 to k words, are
the states here. Let t be a state and s the same without its first word. Then

    P(w | t) = own(t, w) + back(t) P(w | s)     if the n-gram t w was counted
             =             back(t) P(w | s)     if not

and a step costs as much as there are n-grams; no matrix of all states is ever built. After the word w, the
next state of t is t w if that was counted and has at most k words, else the next state of s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from throughtime.errors import InputError, check_whole
from throughtime.ngram.counts import MISSING, Floats, Ints, NgramCounts, check_ids
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import RelativeFrequency, Smoothing

MAX_POINTERS = 100_000_000
"""Maximum number of words times states in `most_likely`; the pointers back take 400 MB."""


Array = TypeVar("Array", Floats, Ints)


class _Rows(NamedTuple):
    """The probabilities of one step. Index n belongs to n-grams, or contexts, of n words."""

    seen: list[Floats]  # P(last word | the words before it) of each counted n-gram
    own: list[Floats]  # own(t, w) of each counted n-gram
    back: list[Floats]  # back(t) of each context; 1 where the context itself says nothing


class MarkovChain:
    """A Markov model of order k: an n-gram model of order k + 1 seen as a chain over its last k words.

    A context of fewer than k words is the beginning of a text. A text that reaches `end_id` stays there.

    >>> chain = MarkovChain.fit([[0, 1, 0, 1, 0, 0]], order=1, vocabulary_size=2)
    >>> chain.after([1], steps=2).round(2).tolist()                      # two steps after b
    [0.33, 0.67]
    """

    def __init__(self, model: NgramModel, end_id: int | None = None) -> None:
        self.model, self.end_id = model, end_id
        self.order, self.words = model.order - 1, model.vocabulary_size
        if self.order < 1:
            raise InputError("order", "is 1, but a Markov chain needs an n-gram model of order 2 or more")
        if model.interpolation.replaces:
            raise InputError(
                "model", "holds probabilities (of an ARPA file, or pruned); a Markov chain needs counts"
            )
        nothing = np.zeros(1, np.int64)  # the context of 0 words
        levels = model.counts.levels
        self._context = [nothing, *(level.context for level in levels)]
        self._suffix = [nothing, *model.counts.suffix]
        self._last_word = np.concatenate([[MISSING], *(level.word for level in levels[:-1])])  # [states]
        self._ended = self._last_word == (2 * MISSING if end_id is None else end_id)
        self._sizes = [1, *(len(level.keys) for level in levels[:-1])]  # number of states of 0 to k words
        self._rows: dict[int, _Rows] = {}

    @classmethod
    def fit(
        cls,
        sequences: Sequence[Sequence[int]],
        order: int,
        vocabulary_size: int,
        smoothing: Smoothing | None = None,
    ) -> MarkovChain:
        """Estimate a chain of order k; by relative frequency unless another smoothing is given."""
        check_whole("order", order)
        counts = NgramCounts.of(sequences, order + 1, vocabulary_size)
        return cls(NgramModel(counts, smoothing or RelativeFrequency()))

    @property
    def num_states(self) -> int:
        """The number of contexts that the chain tells apart."""
        return len(self._last_word)

    def after(self, context: Sequence[int], steps: int) -> Floats:
        """P(x_{t + steps} | the words up to t) of every word, by dynamic programming. [V]"""
        check_whole("steps", steps)
        belief = np.zeros(self.num_states)
        belief[self._state(context)] = 1.0
        for step in range(steps):
            belief = self._advance(belief, self._step_rows(len(context) + step))
        return _sum_at(self._last_word[1:], belief[1:], self.words)

    def most_likely(self, length: int, context: Sequence[int] = ()) -> tuple[list[int], float]:
        """The most likely next `length` words after a context, and their ln P, by the Viterbi algorithm."""
        check_whole("length", length)
        if length * self.num_states > MAX_POINTERS:
            most = MAX_POINTERS // self.num_states
            raise InputError("length", f"is {length:,}, at most {most:,} for {self.num_states:,} states")
        score = np.full(self.num_states, -np.inf)
        score[self._state(context)] = 0.0
        pointers: list[npt.NDArray[np.int32]] = []
        for step in range(length):
            score, previous = self._advance_best(score, self._step_rows(len(context) + step))
            pointers.append(previous.astype(np.int32))
        state = int(score.argmax())
        log_prob, words = float(score[state]), []
        for came_from in reversed(pointers):
            words.append(int(self._last_word[state]))
            state = int(came_from[state])
        return words[::-1], log_prob

    def _state(self, context: Sequence[int]) -> int:
        """The state after these words: their longest suffix of at most k words that was counted."""
        recent = check_ids(list(context)[-self.order :], self.words)[None]
        for length in range(recent.shape[1], 0, -1):
            node = int(self.model.context_nodes(recent, length)[0])
            if node != MISSING:
                return sum(self._sizes[:length]) + node
        return 0

    def _split_by_length(self, values: Array) -> list[Array]:
        """Values of all states, as one array for each length."""
        return np.split(values, np.cumsum(self._sizes)[:-1])

    def _step_rows(self, length: int) -> _Rows:
        """The probabilities of the word that follows `length` words."""
        base, own, back, to_nothing, _ = self.model.interpolation
        # If every order is mixed with single words, only the longest context that there could be matters.
        only = min(length, self.order) if to_nothing else 0
        if only not in self._rows:
            rows = _Rows([np.ones(1), base], [np.ones(1), base], [np.zeros(1)])
            for n in range(2, self.order + 2):
                matters = ~np.isnan(back[n - 1]) & (not to_nothing or n - 1 == only)
                rows.back.append(np.where(matters, back[n - 1], 1.0))
                rows.own.append(np.where(matters[self._context[n]], own[n - 1], 0.0))
                shorter = rows.seen[n - 1][self._suffix[n]]
                rows.seen.append(rows.own[n] + rows.back[n - 1][self._context[n]] * shorter)
            self._rows[only] = rows
        return self._rows[only]

    def _advance(self, belief: Floats, rows: _Rows) -> Floats:
        """The probability of each state one word later."""
        here = self._split_by_length(np.where(self._ended, 0.0, belief))
        reach = list(here)  # the mass whose next word is drawn after this context, given by longer ones too
        given = [np.zeros(1)] * (self.order + 1)  # what each context gives to the shorter one
        for n in range(self.order, 0, -1):
            given[n] = reach[n] * rows.back[n]
            reach[n - 1] = reach[n - 1] + _sum_at(self._suffix[n], given[n], self._sizes[n - 1])
        moved = [np.zeros(1)]
        for n in range(1, self.order + 1):
            arrival, longer = reach[n - 1][self._context[n]], self._context[n + 1]
            if n < self.order:  # what a longer state can hold goes there
                held = _sum_at(self._suffix[n + 1], given[n][longer], self._sizes[n])
                moved.append((arrival - held).clip(min=0.0) * rows.seen[n])
            else:
                drawn = _sum_at(self._suffix[n + 1], here[n][longer] * rows.own[n + 1], self._sizes[n])
                moved.append(arrival * rows.seen[n] + drawn)
        if self.end_id is not None:
            moved[1][self.end_id] += belief[self._ended].sum()
        return np.concatenate(moved)

    def _advance_best(self, score: Floats, rows: _Rows) -> tuple[Floats, Ints]:
        """The ln P of the best text to each state one word later, and the state before that word."""
        with np.errstate(divide="ignore"):
            seen, back = ([np.log(values) for values in part] for part in (rows.seen, rows.back))
        here = self._split_by_length(score)
        state = self._split_by_length(np.arange(self.num_states))
        reach = [_Best(*pair) for pair in zip(here, state, strict=True)]
        given = list(reach)
        for n in range(self.order, 0, -1):
            given[n] = _Best(reach[n].score + back[n], reach[n].state)
            reach[n - 1] = reach[n - 1].merge_better(given[n], self._suffix[n])
        moved = [_Best(np.full(1, -np.inf), np.zeros(1, np.int64))]
        for n in range(1, self.order + 1):
            before, longer = self._context[n], self._context[n + 1]
            if n < self.order:
                found = self._best_unheld(_Best(here[n - 1], state[n - 1]), given[n], n)
                moved.append(_Best(found.score + seen[n], found.state))
            else:
                unseen = _Best(reach[n - 1].score[before] + seen[n], reach[n - 1].state[before])
                drawn = _Best(here[n][longer] + seen[n + 1], state[n][longer])
                moved.append(unseen.merge_better(drawn, self._suffix[n + 1]))
        best = _Best(*(np.concatenate(part) for part in zip(*moved, strict=True)))
        if self.end_id is not None:
            ended_best = _Best(score[self._ended], np.flatnonzero(self._ended))
            best = best.merge_better(ended_best, np.full(len(ended_best.state), 1 + self.end_id))
        return best

    def _best_unheld(self, here: _Best, given: _Best, n: int) -> _Best:
        """For each n-gram s w, n < k: the best text that ends in s, and not in a longer t with a state t w.

        The contexts t are tried from the best one down. One is passed over for each counted n-gram t w, so
        all trials together are at most as many as there are counted n-grams.
        """
        context, word = self._context[n], self.model.counts.levels[n - 1].word
        order = np.lexsort((-given.score, self._suffix[n]))
        place, end = (
            np.searchsorted(self._suffix[n][order], np.arange(self._sizes[n - 1]), side)[context]
            for side in ("left", "right")
        )
        score, state = here.score[context], here.state[context]
        candidates = np.arange(len(context))
        while len(candidates):
            candidates = candidates[place[candidates] < end[candidates]]
            longer = order[place[candidates]]
            better = given.score[longer] > score[candidates]
            candidates, longer = candidates[better], longer[better]
            held = self.model.counts.levels[n].find(longer, word[candidates]) != MISSING
            found, best = candidates[~held], longer[~held]
            score[found], state[found] = given.score[best], given.state[best]
            candidates = candidates[held]
            place[candidates] += 1
        return _Best(score, state)


class _Best(NamedTuple):
    """The ln P of the best text to each of some places, and the state that it comes from."""

    score: Floats
    state: Ints

    def merge_better(self, others: _Best, place: Ints) -> _Best:
        """The same with others that arrive at these places, where they are better."""
        score, state = self.score.copy(), self.state.copy()
        order = np.argsort(-others.score, kind="stable")[::-1]  # of several the last one written stays
        order = order[others.score[order] > score[place[order]]]
        score[place[order]], state[place[order]] = others.score[order], others.state[order]
        return _Best(score, state)


def _sum_at(place: Ints, values: Floats, size: int) -> Floats:
    """The sum of the values at each place. [size]"""
    return np.bincount(place, values, size).astype(np.float64, copy=False)
