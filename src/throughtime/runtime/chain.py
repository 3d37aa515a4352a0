"""The tags of one sentence from the scores of its words: independent tags, or a chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]


class Chain:
    """A chain with scores for successive tags and for tags at either end; None for independent tags.

    >>> chain = Chain({"transitions": [[0.0, 5.0], [0.0, 0.0]], "first": [0.0, 0.0], "last": [0.0, 0.0]})
    >>> chain.best(np.array([[0.0, 1.0], [0.0, 0.0]], dtype=np.float32)).tolist()
    [0, 1]
    """

    def __init__(self, weights: Mapping[str, Any] | None) -> None:
        self._weights = weights and {
            name: np.array(values, dtype=np.float32) for name, values in weights.items()
        }

    def best(self, scores: Scores) -> NDArray[np.int64]:
        """The likeliest tags [T] of a sentence with scores [T, S]."""
        if not self._weights:
            alone: NDArray[np.int64] = scores.argmax(axis=1)
            return alone
        scored, transitions = self._add_ends(scores), self._weights["transitions"]
        reached, came_from = scored[0], []
        for row in scored[1:]:
            reach = reached[:, None] + transitions
            came_from.append(reach.argmax(axis=0))
            reached = reach.max(axis=0) + row
        path = [int(reached.argmax())]
        for previous in reversed(came_from):
            path.append(int(previous[path[-1]]))
        return np.array(path[::-1])

    def marginals(self, scores: Scores) -> NDArray[np.float32]:
        """P(tag of word t) given the whole sentence, [T, S]."""
        if not self._weights:
            return _softmax(scores)
        scored, transitions = self._add_ends(scores), self._weights["transitions"]
        before, after = [scored[0]], [np.zeros_like(scored[0])]
        for row in scored[1:]:
            before.append(_log_sum_exp(before[-1][:, None] + transitions, 0) + row)
        for row in scored[:0:-1]:
            after.append(_log_sum_exp(transitions + (row + after[-1])[None], 1))
        return _softmax(np.stack(before) + np.stack(after[::-1]))

    def _add_ends(self, scores: Scores) -> Scores:
        assert self._weights
        scored = scores.copy()
        scored[0] += self._weights["first"]
        scored[-1] += self._weights["last"]
        return scored


def _log_sum_exp(values: Scores, axis: int) -> Scores:
    most = values.max(axis=axis, keepdims=True)
    found: Scores = np.log(np.exp(values - most).sum(axis=axis)) + most.squeeze(axis)
    return found


def _softmax(scores: Scores) -> Scores:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    found: Scores = raised / raised.sum(axis=1, keepdims=True)
    return found
