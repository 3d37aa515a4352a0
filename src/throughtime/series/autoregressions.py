"""Autoregressions of short series, which are differenced before: what ARIMA models are without averages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ORDERS = (0, 1, 2, 3, 5, 8, 12)
MANY = 5
"""A higher order needs four times as many rows."""
PENALTY = 1.0
"""On squared coefficients, in units of the variance of a row."""


def fit_autoregression(values: Array, differences: Sequence[int], season: int) -> Array | None:
    """Return the coefficients [B, lags] by which the last rows, nearest first, give the next one.

    `differences` are the lags over which the values [B, rows] are differenced before; without any, their mean
    is subtracted. The order is that of the lowest AICc. None if there are too few rows.
    """
    changes = values - values.mean(axis=1, keepdims=True)
    for lag in differences:
        changes = changes[:, lag:] - changes[:, :-lag]
    polynomials, scores = list[Array](), list[Array]()
    for order in ORDERS:
        lags = list(range(1, order + 1))
        lags += [season] if order < season and 1 < season < changes.shape[1] - 6 else []
        count, used = changes.shape[1] - max(lags, default=0), len(lags) + 1 + (not differences)
        if count < max(4, used + 2) or (order > MANY and count < 4 * order):
            continue
        weights, spread = _regress(changes, lags)
        polynomial = np.eye(1, values.shape[1]).repeat(len(values), axis=0)
        polynomial[:, lags] -= weights
        polynomials.append(polynomial)
        scores.append(np.log(np.maximum(spread, 1e-12)) + 2 * used / max(count - used - 1, 0.5))
    if not polynomials:
        return None
    chosen = np.stack(polynomials)[np.argmin(scores, axis=0), np.arange(len(values))]
    for lag in differences:
        chosen[:, lag:] = chosen[:, lag:] - chosen[:, :-lag]
    return np.asarray(-chosen[:, 1:])


def _regress(changes: Array, lags: Sequence[int]) -> tuple[Array, Array]:
    """Return the weights [B, lags] of lagged changes by ridge regressions, and the mean squared errors."""
    start, rows = max(lags, default=0), changes.shape[1]
    target = changes[:, start:]
    if not lags:
        return np.zeros((len(changes), 0)), np.asarray((target**2).mean(axis=1))
    table = np.stack([changes[:, start - lag : rows - lag] for lag in lags], axis=2)
    penalty = PENALTY * (changes**2).mean(axis=1) + 1e-9
    inner = table.transpose(0, 2, 1) @ table + penalty[:, None, None] * np.eye(len(lags))
    weights = np.linalg.solve(inner, table.transpose(0, 2, 1) @ target[..., None])
    return weights[..., 0], np.asarray(((target - (table @ weights)[..., 0]) ** 2).mean(axis=1))


def continue_series(values: Array, coefficients: Array, horizon: int, centred: bool) -> Array:
    """Return the next rows [B, horizon]: each the product of the rows before it with the coefficients.

    >>> continue_series(np.array([[1.0, 2.0, 3.0]]), np.array([[2.0, -1.0]]), 3, centred=False)
    array([[4., 5., 6.]])
    """
    mean = values.mean(axis=1, keepdims=True) if centred else 0.0
    rows, lags = values - mean, coefficients.shape[1]
    for _ in range(horizon):
        following = (rows[:, : -lags - 1 : -1] * coefficients).sum(axis=1, keepdims=True)
        rows = np.concatenate([rows, following], axis=1)
    return np.asarray(rows[:, -horizon:] + mean)
