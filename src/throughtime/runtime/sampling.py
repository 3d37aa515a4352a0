"""Drawing a token from a distribution, or from its likelier part."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError

Array = NDArray[Any]
COLDEST = 1e-30
"""Below it log-probabilities would overflow; there the likeliest token alone is left long before."""


class Sampling:
    """Draw from P^(1/temperature), cut to the `top_k` likeliest tokens and the smallest set of mass `top_p`.

    >>> draws = Sampling(top_k=1, seed=0)
    >>> draws.draw(np.log([[0.2, 0.7, 0.1], [0.5, 0.2, 0.3]])).tolist()
    [1, 0]
    """

    def __init__(
        self,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> None:
        if not 0 < temperature < np.inf:
            raise InputError(
                "temperature", f"is {temperature}, expected a finite number above 0 (greedy is greedy=True)"
            )
        if top_k is not None and top_k < 1:
            raise InputError("top_k", f"is {top_k}, expected 1 or more")
        if top_p is not None and not 0 < top_p <= 1:
            raise InputError("top_p", f"is {top_p}, expected a number in (0, 1]")
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        self._draws = np.random.default_rng(seed)

    def draw(self, log_probs: Array) -> Array:
        """One token for each row [rows, V]."""
        below = self.probabilities(log_probs).cumsum(axis=1)
        at = self._draws.random((len(below), 1)) * below[:, -1:]
        drawn: Array = (below <= at).sum(axis=1)
        return drawn

    def probabilities(self, log_probs: Array) -> Array:
        """What is drawn from, [rows, V]."""
        scaled = log_probs.astype(np.float64) / max(self.temperature, COLDEST)
        if self.top_k is not None and self.top_k < scaled.shape[1]:
            least = np.partition(scaled, -self.top_k, axis=1)[:, -self.top_k, None]
            scaled = np.where(scaled < least, -np.inf, scaled)
        p = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        if self.top_p is not None and self.top_p < 1:
            order = np.argsort(-p, axis=1, kind="stable")
            falling = np.take_along_axis(p, order, axis=1)
            beyond = falling.cumsum(axis=1) - falling >= self.top_p  # the mass before it suffices
            np.put_along_axis(p, order, np.where(beyond, 0.0, falling), axis=1)
        found: Array = p
        return found
