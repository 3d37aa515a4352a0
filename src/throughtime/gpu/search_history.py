"""The results of a search in fixed shapes, put together on the host from what happened to its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from throughtime.errors import DamagedModelError
from throughtime.gpu.fixed_search import FixedSearch, FixedStrategy
from throughtime.search.generate import Finished, Strategy

Array = NDArray[Any]
NOWHERE: tuple[Array, Array] = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def read_results(
    search: FixedSearch, strategy: Strategy, first: Array, sentences: int, steps: int
) -> list[list[Finished]]:
    """Return the results of the first sentences after this number of steps, best first.

    `first` [rows] says which rows lived at the beginning.
    """
    history = SearchHistory(search, first, sentences, steps)
    if np.isnan(history.log_probs[0]).any():
        raise DamagedModelError
    if sentences not in search.nothing_left:
        begun = strategy.begin(sentences, torch.device("cpu"))
        search.nothing_left[sentences] = begun.only(torch.empty(0, dtype=torch.long))
    return strategy.finish(replace(search.nothing_left[sentences], ended=history.results()))


class Ends(NamedTuple):
    """Where results end, in the order in which they were found: all [results]."""

    step: Array  # of the last token; -1 if there is none
    row: Array
    by_end_token: Array
    log_prob: Array
    score: Array


class SearchHistory:
    """What happened to the rows of some sentences, up to the step at which the last of them ended.

    All arrays are [steps, rows]; see `Decision`.
    """

    def __init__(self, search: FixedSearch, first: Array, sentences: int, steps: int) -> None:
        self.strategy: FixedStrategy = search.strategy
        self.each, self.follows, self.sentences = search.memory.rows_each or 1, search.follows, sentences
        rows = sentences * self.each
        read = search.read(steps)
        over = ~read[-1][:, :rows].any(axis=1)
        steps = int(over.argmax()) + 1 if over.any() else steps
        self.tokens, self.parents, self.log_probs, self.ended, self.live = (
            part[:steps, :rows] for part in read
        )
        self.before = np.concatenate([first[None, :rows], self.live[:-1]])
        """Which rows lived before each step."""

    def results(self) -> tuple[tuple[Finished, ...], ...]:
        """Return the results of each sentence that may be returned, in the order in which they were found."""
        found: list[list[Finished]] = [[] for _ in range(self.sentences)]
        ends = self._select(self._find_ends())
        tokens, path = (part.tolist() for part in self._trace(ends))
        last = (ends.step + 1).cumsum()
        columns = (last - ends.step - 1, last, last - ends.by_end_token, ends.row // self.each, *ends[2:])
        for start, stop, end, sentence, ended, log_prob, score in zip(
            *(x.tolist() for x in columns), strict=True
        ):
            one = Finished(tuple(tokens[start:end]), log_prob, score, ended, tuple(path[start:stop]))
            found[sentence].append(one)
        return tuple(map(tuple, found))

    def _find_ends(self) -> Ends:
        """All results: of sentences that got stuck, by the end token, and cut at the maximum length."""
        cut = np.flatnonzero(self.live[-1])
        ended = np.divmod(np.flatnonzero(self.ended), self.ended.shape[1])  # numpy's nonzero is slow
        answered = np.bincount(np.concatenate([cut, ended[1]]) // self.each, minlength=self.sentences)
        stuck = self._find_stuck() if self.follows and not answered.all() else NOWHERE
        places = (stuck, ended, (np.full(len(cut), len(self.live) - 1), cut))
        step, row = (np.concatenate(parts) for parts in zip(*places, strict=True))
        by_end = np.repeat([False, True, False], [len(steps) for steps, _ in places])
        log_prob = np.where(step < 0, 0.0, self.log_probs[step, row])
        score = self.strategy.score(torch.from_numpy(log_prob), torch.from_numpy(step + 1)).numpy()
        return Ends(step, row, by_end, log_prob, score)

    def _find_stuck(self) -> tuple[Array, Array]:
        """For sentences that cannot continue and have no result, their best row and its last step.

        The step is -1 if no first token is possible.
        """
        shape = (len(self.live), -1, self.each)
        lived, possible, ended = (
            part.reshape(shape).any(axis=2)
            for part in (self.before, self.log_probs > -np.inf, np.logical_or.accumulate(self.ended))
        )
        steps, sentences = np.nonzero(lived & ~possible & ~ended)
        reached = np.concatenate([np.zeros_like(self.log_probs[:1]), self.log_probs[:-1]])
        rank = np.where(self.before, reached, -np.inf).reshape(shape)[steps, sentences]
        return steps - 1, sentences * self.each + rank.argmax(axis=1)

    def _select(self, ends: Ends) -> Ends:
        """Drop results that `finish` would not return: building them takes longer than all the rest."""
        if self.strategy.n_best is None:
            return ends
        sentence = ends.row // self.each
        order = np.lexsort((-ends.score, sentence))  # stable: among equals, the one found first
        first = np.searchsorted(sentence[order], sentence[order])  # of the same sentence
        kept = np.sort(order[np.arange(len(order)) - first < self.strategy.n_best])
        return Ends(*(part[kept] for part in ends))

    def _trace(self, ends: Ends) -> tuple[Array, Array]:
        """Return the tokens of all results, one after the other, and their rows in the plain loop."""
        number = self.before.cumsum(axis=1) - 1  # rows that are dead have left the plain loop
        steps = int(ends.step.max(initial=-1)) + 1
        inside = ends.step >= np.arange(steps)[:, None]  # [steps, results]
        rows = np.empty((steps + 1, len(ends.row)), dtype=np.int64)  # before and after each step
        rows[:] = ends.row
        if self.follows and self.each > 1:
            for step in reversed(range(steps)):
                np.copyto(rows[step], self.parents[step].take(rows[step + 1]), where=inside[step])
        result, at = np.nonzero(inside.T)
        return self.tokens[at, rows[at + 1, result]], number[at, rows[at, result]]
