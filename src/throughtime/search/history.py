"""The results of a search in fixed shapes, put together on the host from what happened to its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from throughtime.errors import DamagedModelError
from throughtime.search.fixed import FixedSearch, FixedStrategy
from throughtime.search.generate import Finished, Strategy

Array = NDArray[Any]


def read_results(
    search: FixedSearch, strategy: Strategy, first: Array, sentences: int, steps: int
) -> list[list[Finished]]:
    """The results of the first sentences after this number of steps, best first.

    `first` [rows] says which rows lived at the beginning.
    """
    history = History(search, first, sentences, steps)
    if np.isnan(history.log_probs[0]).any():
        raise DamagedModelError
    begun = strategy.begin(sentences, torch.device("cpu"))
    nothing_left = begun.only(torch.empty(0, dtype=torch.long))
    return strategy.finish(replace(nothing_left, ended=history.results()))


class History:
    """What happened to the rows of some sentences, up to the step at which the last of them ended.

    All arrays are [steps, rows]; see `Decision`.
    """

    def __init__(self, search: FixedSearch, first: Array, sentences: int, steps: int) -> None:
        self.strategy: FixedStrategy = search.strategy
        self.each, self.follows = search.memory.rows_each or 1, search.follows
        rows = sentences * self.each
        live = search.live[:steps, :rows].cpu().numpy()
        over = ~live.any(axis=1)
        steps = int(over.argmax()) + 1 if over.any() else steps
        kept = (search.tokens, search.parents, search.log_probs, search.ended)
        self.tokens, self.parents, self.log_probs, self.ended = (
            part[:steps, :rows].cpu().numpy() for part in kept
        )
        self.live = live[:steps]
        self.before = np.concatenate([first[None, :rows], self.live[:-1]])
        """Which rows lived before each step."""

    def results(self) -> tuple[tuple[Finished, ...], ...]:
        """The results of each sentence, in the order in which they were found."""
        found: list[list[Finished]] = [[] for _ in range(self.tokens.shape[1] // self.each)]
        (cut,) = np.nonzero(self.live[-1])
        places = (self._find_stuck(), np.nonzero(self.ended), (np.full(len(cut), len(self.live) - 1), cut))
        for (steps, rows), by_end in zip(places, (False, True, False), strict=True):
            for row, one in zip(rows.tolist(), self._build(steps, rows, by_end), strict=True):
                found[row // self.each].append(one)
        return tuple(map(tuple, found))

    def _find_stuck(self) -> tuple[Array, Array]:
        """For sentences that cannot continue and have no result, their best row and its last step.

        The step is -1 if nothing can be said at all.
        """
        if not self.follows:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        shape = (len(self.live), -1, self.each)
        lived, possible, ended = (
            part.reshape(shape).any(axis=2)
            for part in (self.before, self.log_probs > -np.inf, np.logical_or.accumulate(self.ended))
        )
        steps, sentences = np.nonzero(lived & ~possible & ~ended)
        reached = np.concatenate([np.zeros_like(self.log_probs[:1]), self.log_probs[:-1]])
        rank = np.where(self.before, reached, -np.inf).reshape(shape)[steps, sentences]
        return steps - 1, sentences * self.each + rank.argmax(axis=1)

    def _build(self, steps: Array, rows: Array, by_end: bool) -> list[Finished]:
        """The results whose last token was taken at these steps by these rows."""
        if not len(steps):
            return []
        tokens, path = self._trace(steps, rows)
        log_prob = np.where(steps < 0, 0.0, self.log_probs[steps, rows])
        score = np.empty_like(log_prob)
        for step in np.unique(steps).tolist():
            own = torch.from_numpy(log_prob[steps == step])
            score[steps == step] = self.strategy.score(own, own, step + 1).numpy()
        columns = (tokens, path, log_prob, score, steps + 1)
        return [
            Finished(tuple(said[: length - by_end]), total, own, by_end, tuple(came_from[:length]))
            for said, came_from, total, own, length in zip(*(x.tolist() for x in columns), strict=True)
        ]

    def _trace(self, steps: Array, rows: Array) -> tuple[Array, Array]:
        """The tokens of results, and the number that the row of each has in the plain loop. [results, L]"""
        number = self.before.cumsum(axis=1) - 1  # rows that are dead have left the plain loop
        tokens = np.zeros((len(rows), int(steps.max()) + 1), dtype=np.int64)
        path = np.zeros_like(tokens)
        for step in reversed(range(tokens.shape[1])):
            own = steps >= step
            tokens[own, step] = self.tokens[step, rows[own]]
            if self.follows:
                rows = np.where(own, self.parents[step, rows], rows)
            path[:, step] = number[step, rows]
        return tokens, path
