"""Errors of forecasts: of points, quantiles and intervals.

Every measure takes arrays that broadcast and a numpy `axis`; without an axis the result is a single number.
Missing observations (NaN in `y`) are ignored; a NaN in a forecast makes the result NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Axis = int | tuple[int, ...] | None


def mae(y: npt.ArrayLike, forecast: npt.ArrayLike, axis: Axis = None) -> Any:
    """Mean absolute error: mean |y - f|.

    >>> round(float(mae([1, 2, np.nan, 5], [1, 4, 9, 2])), 4)
    1.6667
    """
    return _observed_mean(np.abs(_array(y) - _array(forecast)), y, axis)


def mse(y: npt.ArrayLike, forecast: npt.ArrayLike, axis: Axis = None) -> Any:
    """Mean squared error: mean (y - f)^2.

    >>> round(float(mse([1, 2, 5], [1, 4, 2])), 4)
    4.3333
    """
    return _observed_mean((_array(y) - _array(forecast)) ** 2, y, axis)


def rmse(y: npt.ArrayLike, forecast: npt.ArrayLike, axis: Axis = None) -> Any:
    """Root of the mean squared error: sqrt(mean (y - f)^2).

    >>> round(float(rmse([0, 0], [3, 4])), 4)
    3.5355
    """
    return np.sqrt(mse(y, forecast, axis))


def smape(y: npt.ArrayLike, forecast: npt.ArrayLike, axis: Axis = None) -> Any:
    """Symmetric mean absolute percentage error, at most 200: mean 200 |y - f| / (|y| + |f|); 0/0 is 0.

    >>> round(float(smape([100, 0], [50, 0])), 4)             # (66.6667 + 0) / 2
    33.3333
    """
    y, forecast = np.broadcast_arrays(_array(y), _array(forecast))
    size = np.abs(y) + np.abs(forecast)
    share = np.abs(y - forecast) / np.where(size == 0, 1.0, size)
    return _observed_mean(200 * share, y, axis)


def mase(y: npt.ArrayLike, forecast: npt.ArrayLike, scale: npt.ArrayLike, axis: Axis = None) -> Any:
    """Mean absolute scaled error: mean |y - f| / scale, with the `seasonal_scale` of each history.

    A value below 1 is better than the seasonal-naive forecast, one step ahead, in the history. Series whose
    scale is zero or NaN are ignored.

    >>> float(mase([5, 6], [5, 8], scale=seasonal_scale([1, 2, 4, 5], season=1)))     # scale 4/3
    0.75
    """
    scale = _array(scale)
    scale = np.where(scale > 0, scale, np.nan)
    y, forecast, scale = np.broadcast_arrays(_array(y), _array(forecast), scale)
    return _observed_mean(np.abs(y - forecast) / scale, np.where(np.isnan(scale), np.nan, y), axis)


def seasonal_scale(history: npt.ArrayLike, season: int) -> float:
    """The scale of MASE: mean |y_t - y_{t-m}| over the history; NaN if no such pair was observed.

    >>> seasonal_scale([1, 2, 4, 5, np.nan], season=2)           # |4 - 1| and |5 - 2|
    3.0
    """
    values = _array(history)
    changes = np.abs(values[season:] - values[:-season])
    return float(_observed_mean(changes, changes, None))


def pinball(y: npt.ArrayLike, quantile: npt.ArrayLike, probability: float, axis: Axis = None) -> Any:
    """Pinball loss, which the quantile minimises: mean max(p (y - q), (p - 1) (y - q)).

    >>> round(float(pinball([10, 10], [8, 13], probability=0.9)), 4)     # (0.9 x 2 + 0.1 x 3) / 2
    1.05
    """
    error = _array(y) - _array(quantile)
    return _observed_mean(np.maximum(probability * error, (probability - 1) * error), y, axis)


def crps_quantiles(y: npt.ArrayLike, quantiles: Mapping[float, npt.ArrayLike], axis: Axis = None) -> Any:
    """Continuous ranked probability score of quantiles by probability: twice the integral of pinball over p.

    The integral is computed by the trapezoid rule, with no loss at 0 and 1. More probabilities make it more
    exact; compare models only on the same ones.

    >>> float(crps_quantiles(1.0, {0.25: 0.0, 0.5: 1.0, 0.75: 2.0}))    # 2 (1/4 + 0 + 1/4) / 4
    0.25
    """
    edges = np.array([0.0, *sorted(quantiles), 1.0])
    weights = (edges[2:] - edges[:-2]) / 2
    terms = [
        weight * pinball(y, quantiles[probability], probability, axis)
        for weight, probability in zip(weights, sorted(quantiles), strict=True)
    ]
    return 2 * np.sum(terms, axis=0)


def coverage(y: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike, axis: Axis = None) -> Any:
    """The share of observations within their intervals, ends included: mean [low <= y <= high].

    >>> round(float(coverage([1, 5, 9, np.nan], [0, 0, 0, 0], [5, 5, 5, 5])), 4)
    0.6667
    """
    y, low, high = np.broadcast_arrays(_array(y), _array(low), _array(high))
    within = ((low <= y) & (y <= high)).astype(np.float64)
    return _observed_mean(np.where(np.isnan(low) | np.isnan(high), np.nan, within), y, axis)


def _observed_mean(values: Array, y: npt.ArrayLike, axis: Axis) -> Any:
    """The mean of `values` where `y` was observed; NaN if nothing was."""
    observed = ~np.isnan(np.broadcast_to(_array(y), values.shape))
    counts = observed.sum(axis=axis)
    sums = np.where(observed, values, 0.0).sum(axis=axis)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)[()]


def _array(values: npt.ArrayLike) -> Array:
    return np.asarray(values, dtype=np.float64)
