"""Isolated outliers: values that stand out from those around them far more than the series ever moves.

A value is compared with the median of the three before it and of the three after it, so that a change of the
level is no outlier, nor is a value that has company. The limit is several times the largest other step of the
series, more if there are few steps or if they differ much in size: heavy tails, skewed data and rare demand
hardly ever reach it. Values that come again after a season or a year are a pattern, and so are those of rows
whose known columns are unusual, such as a rare promotion.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from throughtime.data.panel import DAY, Frequency, Panel, Series

Outliers = Literal["replace", "keep"]
Values = NDArray[np.float64]
Rows = NDArray[np.int64]
SIDE = 3
"""Number of values on each side that a value is compared with; two outliers may lie next to each other."""
MIN_ROWS = 10
"""In fewer values none is an outlier."""
MAX_SHARE = 0.02
"""A larger share of the values are no outliers, unless it is a single value."""
TIMES, FEW = 4.0, 50
"""An outlier stands out by more than 4 times the largest other step; by 8 times it if there are 50 steps."""
SHAPE = 1.5
"""... or by this power of the ratio of the steps' 90th percentile to their median, if that is more."""
CLEAR = 4 / 3
"""A value that stands out less, compared with the next, cannot exceed the limit."""
YEAR = 365.25 * DAY
USUAL = (0.05, 0.95)
"""The probabilities between which the values of a known column are usual."""


def stand_out(y: Values) -> Values:
    """Return how far each value lies beyond the medians of both sides; 0 between them, or if it is missing.

    At an end of the series, its neighbour is the other side.

    >>> stand_out(np.array([1.0, 1.0, 2.0, 9.0, 1.0, 2.0, np.nan, 5.0, 5.0]))
    array([0., 0., 0., 7., 1., 0., 0., 0., 0.])
    """
    places = np.flatnonzero(~np.isnan(y))
    out, values = np.zeros(len(y)), y[places]
    if len(values) < 2:
        return out
    padded = np.concatenate([values[:1].repeat(SIDE), values, values[-1:].repeat(SIDE)])
    middles = np.median(sliding_window_view(padded, SIDE), axis=1)
    before, after = values - middles[: len(values)], values - middles[SIDE + 1 :]
    before[0], after[-1] = values[0] - values[1], values[-1] - values[-2]
    out[places] = np.where(before * after > 0, np.minimum(np.abs(before), np.abs(after)), 0.0)
    return out


def remove_outliers(series: Series, frequency: Frequency | None, limit: float = 0.0) -> Series:
    """Return a series in which outliers are missing: what is beyond its own limit, and beyond this one.

    So neither a spike that is usual in training, nor one that is usual in new rows, is an outlier.
    """
    if math.isinf(limit):
        return series
    outlying = _stand_out(series) > max(limit, outlier_limit(series, frequency))
    few = outlying.sum() <= _most(series)
    return replace(series, y=np.where(outlying, np.nan, series.y)) if few else series


def clean_panel(panel: Panel) -> Panel:
    """Return a panel in which the outliers of every series are missing, as its own values show them.

    >>> y = np.sin(np.arange(60.0))
    >>> y[20] = 1e6
    >>> np.flatnonzero(np.isnan(clean_panel(Panel((Series.of("a", y),), None)).series[0].y))
    array([20])
    """
    return replace(panel, series=tuple(remove_outliers(each, panel.frequency) for each in panel.series))


def outlier_limit(series: Series, frequency: Frequency | None) -> float:
    """Return how far a value of this series has to stand out to be an outlier; infinity if none can be."""
    out = _stand_out(series)
    order = np.argsort(-out, kind="stable")
    ranked = out[order]
    for count in range(min(_most(series), len(out) - 1), 0, -1):
        if ranked[count - 1] > CLEAR * ranked[count]:
            limit = _limit_without(series.y, order[:count])
            if ranked[count - 1] > limit and not _is_pattern(order[:count], ranked[:count], frequency):
                return limit
    return _limit_without(series.y, order[:0])


def _most(series: Series) -> int:
    rows = int((~np.isnan(series.y)).sum())
    return max(1, int(MAX_SHARE * rows)) if rows >= MIN_ROWS else 0


def _stand_out(series: Series) -> Values:
    """How far values stand out where the known columns are as usual."""
    if not series.known.shape[1]:
        return stand_out(series.y)
    known = np.nan_to_num(series.known)
    low, high = np.quantile(known, USUAL, axis=0)
    return np.where(((known < low) | (known > high)).any(axis=1), 0.0, stand_out(series.y))


def _limit_without(y: Values, left_out: Rows) -> float:
    """The limit by the steps between all other values; a constant that is not 0 may have outliers, too."""
    rest = np.delete(y, left_out)
    rest = rest[~np.isnan(rest)]
    steps = np.abs(np.diff(rest))
    steps = steps[steps > 0]
    if not len(steps):
        return TIMES * float(abs(rest[0])) if len(rest) and rest[0] else math.inf
    middle, high = np.quantile(steps, (0.5, 0.9))
    return float(steps.max() * max(TIMES * (1 + FEW / len(steps)), (high / middle) ** SHAPE))


def _is_pattern(rows: Rows, sizes: Values, frequency: Frequency | None) -> bool:
    """Return whether values of similar size come again after equal numbers of rows, seasons or years."""
    if len(rows) < 2 or sizes[0] > 2 * sizes[-1]:
        return False
    gaps = np.diff(np.sort(rows)).astype(np.float64)
    periods = [(gaps.min(), 1.5)] if len(rows) > 2 else []
    if frequency is not None and frequency.season:
        seconds = frequency.step * (YEAR / 12 if frequency.unit == "month" else 1)
        periods += [(frequency.season, 0.5), (YEAR / seconds, max(0.5, 1.5 * DAY / seconds))]
    return any(
        bool((np.abs(gaps - np.maximum(1, np.round(gaps / period)) * period) <= off).all())
        for period, off in periods
    )
