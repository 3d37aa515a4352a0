"""Markov chains: what an n-gram model says about the steps beyond the next one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from throughtime.errors import InputError
from throughtime.ngram.counts import Floats, Ints, NgramCounts, check_ids
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import RelativeFrequency, Smoothing

MOST_STATES = 2_048
"""A chain of more states would need a transition matrix of over 32 MB; such models are for `NgramModel`."""


class MarkovChain:
    """A Markov model of order k: an n-gram model of order k + 1 seen as a chain over its last k words.

    A state is the tuple of the last k words, written as a number in base V.

    >>> chain = MarkovChain.fit([[0, 1, 0, 1, 0, 0]], order=1, vocabulary_size=2)
    >>> chain.transition.round(2).tolist()
    [[0.33, 0.67], [1.0, 0.0]]
    >>> chain.after([1], steps=2).round(2).tolist()                      # two steps after b
    [0.33, 0.67]
    """

    def __init__(self, model: NgramModel) -> None:
        self.model = model
        self.order = model.order - 1
        self.words = model.vocabulary_size
        if self.order < 1:
            raise InputError(
                "a Markov chain needs an n-gram model of order 2 or more; train one with order=2"
            )
        self.states = self.words**self.order
        if self.states > MOST_STATES:
            raise InputError(
                f"a chain of order {self.order} over {self.words} tokens has {self.states:,} states, "
                f"more than {MOST_STATES:,}; use a smaller vocabulary or a lower order"
            )

    @classmethod
    def fit(
        cls,
        sequences: Sequence[Sequence[int]],
        order: int,
        vocabulary_size: int,
        smoothing: Smoothing | None = None,
    ) -> MarkovChain:
        """Estimate a chain of order k; by relative frequency unless another smoothing is given."""
        counts = NgramCounts.of(sequences, order + 1, vocabulary_size)
        return cls(NgramModel(counts, smoothing or RelativeFrequency()))

    @cached_property
    def next_word(self) -> Floats:
        """P(next word | state). [states, V], rows sum to 1"""
        return self.model.distribution(self._tuples(self.order))

    @cached_property
    def transition(self) -> Floats:
        """P(next state | state). [states, states], rows sum to 1"""
        matrix = np.zeros((self.states, self.states))
        rows = np.arange(self.states)[:, None]
        matrix[rows, self._moved()] = self.next_word
        return matrix

    def after(self, context: Sequence[int], steps: int) -> Floats:
        """P(x_{t+steps} | the last k words), by dynamic programming: never a power of the matrix. [V]"""
        if steps < 1:
            raise InputError("steps", f"is {steps}, expected 1 or more")
        belief = np.zeros(self.states)
        belief[self._state(context)] = 1.0
        for _ in range(steps - 1):
            moved = (belief[:, None] * self.next_word).ravel()
            belief = np.bincount(self._moved().ravel(), weights=moved, minlength=self.states)
        result: Floats = belief @ self.next_word
        return result

    def most_likely(self, length: int, context: Sequence[int] = ()) -> tuple[list[int], float]:
        """The most likely next `length` words after a context (or from the beginning), and their ln P."""
        if length < 1:
            raise InputError("length", f"is {length}, expected 1 or more")
        import torch

        from throughtime.search.exact import viterbi

        with np.errstate(divide="ignore"):
            transition = torch.from_numpy(np.log(self.transition))
        if context:
            first = transition[self._state(context)]
            steps, opening = length, 1
        else:
            opening = min(length, self.order)
            words = self._tuples(opening)
            log_p = np.array([row.sum() for row in self.model.log_probs([list(word) for word in words])])
            if opening < self.order or length == opening:
                best = int(log_p.argmax())
                return words[best].tolist(), float(log_p[best])
            first, steps = torch.from_numpy(log_p), length - self.order + 1
        scores = torch.zeros(steps, 1, self.states, dtype=torch.float64)
        scores[0, 0] = first
        path = viterbi(scores, transition)
        states = path.states[:, 0].tolist()
        words_of_first = self._tuples(self.order)[states[0]].tolist()[-opening:]
        return words_of_first + [state % self.words for state in states[1:]], float(path.score[0])

    def _tuples(self, length: int) -> Ints:
        """All tuples of this many words. [V ** length, length]"""
        digits = np.unravel_index(np.arange(self.words**length), (self.words,) * length)
        tuples: Ints = np.stack(digits, axis=1)
        return tuples

    def _moved(self) -> Ints:
        """The state that each state becomes with each next word. [states, V]"""
        kept = np.arange(self.states) % self.words ** (self.order - 1)
        moved: Ints = kept[:, None] * self.words + np.arange(self.words)
        return moved

    def _state(self, context: Sequence[int]) -> int:
        recent = list(context)[-self.order :]
        if len(recent) < self.order:
            raise InputError(
                f"a chain of order {self.order} needs {self.order} words of context, got {len(recent)}"
            )
        state = 0
        for word in check_ids(recent, self.words).tolist():
            state = state * self.words + word
        return state
