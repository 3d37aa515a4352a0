"""The results of a search in fixed shapes, put together on the host from what happened to its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.errors import DamagedModelError
from throughtime.search.fixed import FixedSearch, FixedStrategy
from throughtime.search.generate import Finished, Strategy

Array = NDArray[Any]
NOWHERE: tuple[Array, Array] = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def read_results(
    search: FixedSearch, strategy: Strategy, first: Array, sentences: int, steps: int
) -> list[list[Finished]]:
    """The results of the first sentences after this number of steps, best first.

    `first` [rows] says which rows lived at the beginning.
    """
    history = SearchHistory(search, first, sentences, steps)
    if np.isnan(history.log_probs[0]).any():
        raise DamagedModelError
    begun = strategy.begin(sentences, torch.device("cpu"))
    nothing_left = begun.only(torch.empty(0, dtype=torch.long))
    return strategy.finish(replace(nothing_left, ended=history.results()))


def read_together(tensors: Sequence[Tensor]) -> list[Array]:
    """Return tensors of one device as arrays; the host waits for a GPU only once."""
    held = [torch.empty(one.shape, dtype=one.dtype, pin_memory=one.is_cuda) for one in tensors]
    for own, one in zip(held, tensors, strict=True):
        own.copy_(one, non_blocking=True)
    if tensors[0].is_cuda:
        torch.cuda.current_stream(tensors[0].device).synchronize()
    return [own.numpy() for own in held]


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
        kept = (search.live, search.tokens, search.parents, search.log_probs, search.ended)
        live, *others = read_together([part[:steps] for part in kept])
        over = ~live[:, :rows].any(axis=1)
        steps = int(over.argmax()) + 1 if over.any() else steps
        self.live, self.tokens, self.parents, self.log_probs, self.ended = (
            part[:steps, :rows] for part in (live, *others)
        )
        self.before = np.concatenate([first[None, :rows], self.live[:-1]])
        """Which rows lived before each step."""

    def results(self) -> tuple[tuple[Finished, ...], ...]:
        """The results of each sentence that may be returned, in the order in which they were found."""
        found: list[list[Finished]] = [[] for _ in range(self.sentences)]
        ends = self._select(self._find_ends())
        tokens, paths = self._trace(ends)
        columns = (tokens, paths, *ends)
        for said, path, step, row, ended, log_prob, score in zip(*(x.tolist() for x in columns), strict=True):
            length = step + 1
            one = Finished(tuple(said[: length - ended]), log_prob, score, ended, tuple(path[:length]))
            found[row // self.each].append(one)
        return tuple(map(tuple, found))

    def _find_ends(self) -> Ends:
        """All results: of sentences that got stuck, by the end token, and cut at the maximum length."""
        (cut,), ended = np.nonzero(self.live[-1]), np.nonzero(self.ended)
        answered = np.bincount(np.concatenate([cut, ended[1]]) // self.each, minlength=self.sentences)
        stuck = self._find_stuck() if self.follows and not answered.all() else NOWHERE
        places = (stuck, ended, (np.full(len(cut), len(self.live) - 1), cut))
        step, row = (np.concatenate(parts) for parts in zip(*places, strict=True))
        by_end = np.repeat([False, True, False], [len(steps) for steps, _ in places])
        log_prob = np.where(step < 0, 0.0, self.log_probs[step, row])
        score = np.empty_like(log_prob)
        for own in np.split(np.arange(len(step)), np.flatnonzero(np.diff(step)) + 1):
            if len(own):  # of one length
                part = torch.from_numpy(log_prob[own])
                score[own] = self.strategy.score(part, part, int(step[own[0]]) + 1).numpy()
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
        """The tokens of results, and the number that the row of each has in the plain loop. [results, L]"""
        number = self.before.cumsum(axis=1) - 1  # rows that are dead have left the plain loop
        steps = int(ends.step.max(initial=-1)) + 1
        tokens, path = np.empty((2, steps, len(ends.row)), dtype=np.int64)
        row = ends.row
        for step in reversed(range(steps)):
            tokens[step] = self.tokens[step][row]
            came_from = self.parents[step][row] if self.follows else row
            path[step] = number[step][came_from]
            row = np.where(ends.step >= step, came_from, ends.row)
        return tokens.T, path.T
