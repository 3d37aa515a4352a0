"""Is a series stationary? Its mean, deviation and autocorrelation, segment by segment."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from throughtime.errors import InputError

MIN_VALUES = 3
"""Minimum number of values in a segment."""


class SeriesSegment(NamedTuple):
    """One segment of a series, steps `start` to `stop`, and the statistics of its values."""

    start: int
    stop: int
    mean: float
    deviation: float
    autocorrelation: float


@dataclass(frozen=True)
class Drift:
    """The segments of a series and how far their means differ.

    `spread` is the standard deviation of the segments' means divided by that of the whole series: near 1 if
    the level drifts. `expected` is the spread of a stationary series with the same variance and lag-1
    autocorrelation within segments; it is too low if segments are short compared with the correlation time.
    """

    segments: tuple[SeriesSegment, ...]
    spread: float
    expected: float

    @property
    def drifts(self) -> bool:
        """Whether the means differ more than twice as much as expected by chance."""
        return self.spread > 2 * self.expected


def drift(values: ArrayLike, segments: int = 10) -> Drift:
    """Split a series into equal segments and compare them; NaN is a missing value.

    >>> drift(np.linspace(0, 10, 1000)).drifts
    True
    >>> noise = drift(np.random.default_rng(0).normal(size=1000))
    >>> noise.drifts, f"{noise.spread:.2f} where chance gives {noise.expected:.2f}"
    (False, '0.10 where chance gives 0.10')
    """
    series = np.asarray(values)
    if series.ndim != 1 or series.dtype.kind not in "fiu" or np.isinf(series).any():
        raise InputError("values", "must be one series of finite numbers")
    series = series.astype(np.float64)
    present = series[~np.isnan(series)]
    if segments < 2 or len(present) < MIN_VALUES * segments:
        raise InputError(
            "segments", f"is {segments}; give 2 or more, each with at least 3 of the {len(present)} values"
        )
    bounds = np.linspace(0, len(series), segments + 1).astype(int).tolist()
    stretches = [
        (start, stop)
        for start, stop in pairwise(bounds)
        if np.count_nonzero(~np.isnan(series[start:stop])) >= MIN_VALUES
    ]
    if len(stretches) < 2:
        raise InputError(
            "values", f"lie in one of {segments} segments, and the others are empty; use fewer segments"
        )
    measured = tuple(_segment(series, start, stop) for start, stop in stretches)
    whole = float(present.std())
    if whole == 0:
        return Drift(measured, spread=0.0, expected=0.0)
    means = np.array([segment.mean for segment in measured])
    # The standard error of a segment's mean, with fewer effective values if they are autocorrelated.
    variance = np.mean([segment.deviation**2 for segment in measured])
    memory = np.clip(np.mean([segment.autocorrelation for segment in measured]), -0.9, 0.99)
    chance = float(np.sqrt(variance * (1 + memory) / (1 - memory) / (len(present) / len(measured))))
    return Drift(measured, float(means.std(ddof=1)) / whole, chance / whole)


def _segment(series: NDArray[np.float64], start: int, stop: int) -> SeriesSegment:
    there = ~np.isnan(series[start:stop])
    values = series[start:stop][there]
    neighbours = int(np.count_nonzero(there[1:] & there[:-1]))
    centred = np.zeros(stop - start)
    centred[there] = values - values.mean()
    power = float(centred @ centred)
    memory = 0.0
    if power > 0 and neighbours:
        # With missing values there are fewer products of neighbours than squares.
        memory = float(centred[1:] @ centred[:-1]) / power * ((len(values) - 1) / neighbours)
    return SeriesSegment(start, stop, float(values.mean()), float(values.std()), min(1.0, max(-1.0, memory)))
