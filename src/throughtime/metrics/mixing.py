"""The weights of interpolated models: checked, or chosen by the likelihood of a text; and the mean itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

from throughtime.errors import InputError

Floats = npt.NDArray[np.float64]

PRECISION = 1e-7
"""How far below its maximum the mean log-probability of a token may remain when weights are chosen."""
MAX_ROUNDS = 10_000
DECIMALS = 3
"""Chosen weights are rounded to as many, so that the weights that are printed are those that are used."""


def choose_weights(log_probs: Floats) -> tuple[float, ...]:
    """Choose the weights of models from their ln P of some tokens [tokens, models].

    They are those that maximise the likelihood, rounded to DECIMALS; but if a single model is at least as
    good, it gets the whole weight.

    >>> choose_weights(np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]))   # the first is better at two
    (0.708, 0.292)
    >>> choose_weights(np.log([[0.9, 0.8], [0.5, 0.4]]))
    (1.0, 0.0)
    """
    weights = maximise_likelihood(log_probs)
    rounded = [round(float(weight), DECIMALS) for weight in weights]
    largest = int(np.argmax(weights))
    rest = math.fsum(rounded) - rounded[largest]
    rounded[largest] = round(1 - rest, DECIMALS)
    alone = [tuple(row) for row in np.eye(len(rounded)).tolist()]
    return max([*alone, tuple(rounded)], key=lambda one: float(mix_log_probs([*log_probs.T], one).mean()))


def maximise_likelihood(log_probs: Floats) -> Floats:
    """Find the weights that maximise the likelihood of tokens, from their ln P [tokens, models].

    Expectation maximisation: each round gives a model the mean share that it has in the probabilities of the
    tokens. The likelihood is concave, so there is no second maximum. With g_i the mean of P_i / P, the mean
    log-probability is at most max(g) - 1 below its maximum, which says when to stop.
    """
    best = log_probs.max(axis=1)
    possible = best > -math.inf  # no weights help where all models have 0
    shares = np.exp(log_probs[possible] - best[possible, None])
    count = log_probs.shape[1]
    weights = np.full(count, 1 / count)
    for _ in range(MAX_ROUNDS if len(shares) else 0):
        gains = (shares / (shares @ weights)[:, None]).mean(axis=0)
        if gains.max() - 1 < PRECISION:
            break
        weights = weights * gains
    return np.asarray(weights / weights.sum())


def mix_log_probs(log_probs: Sequence[Floats], weights: Sequence[float]) -> Floats:
    """ln of the weighted mean of P; each model's ln P is an array of one shape."""
    weighted = (part + math.log(w) for part, w in zip(log_probs, weights, strict=True) if w > 0)
    return reduce(np.logaddexp, weighted)


def check_weights(weights: Sequence[float], count: int) -> tuple[float, ...]:
    """Refuse weights that are not shares of one for each model."""
    if len(weights) != count:
        raise InputError("weights", f"has {len(weights)} numbers for {count} models; give one for each")
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights):
        raise InputError("weights", f"is {list(weights)}, expected numbers from 0 to 1")
    if abs((total := math.fsum(weights)) - 1) > 1e-6:
        raise InputError("weights", f"sums to {total:g}, expected 1")
    return tuple(float(weight) for weight in weights)
