"""Does a series stay the same kind of series? Its mean, spread and memory, stretch by stretch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from throughtime.errors import InputError


class Segment(NamedTuple):
    """One stretch of a series, steps `start` to `stop`, and its statistics."""

    start: int
    stop: int
    mean: float
    deviation: float
    autocorrelation: float


@dataclass(frozen=True)
class Drift:
    """The segments of a series and how far their means lie apart.

    `spread` is the standard deviation of the segments' means over that of the whole series: near 1 when the
    level wanders. `expected` is what chance alone would give a stationary series with the same variance and
    lag-1 autocorrelation inside its segments; it is too low where these are short beside the series' memory.
    """

    segments: tuple[Segment, ...]
    spread: float
    expected: float

    @property
    def drifts(self) -> bool:
        """Whether the means lie more than twice as far apart as chance would put them."""
        return self.spread > 2 * self.expected


def drift(values: ArrayLike, segments: int = 10) -> Drift:
    """Cut one series into equal segments and compare them.

    >>> drift(np.linspace(0, 10, 1000)).drifts
    True
    >>> noise = drift(np.random.default_rng(0).normal(size=1000))
    >>> noise.drifts, f"{noise.spread:.2f} where chance gives {noise.expected:.2f}"
    (False, '0.10 where chance gives 0.10')
    """
    series = np.asarray(values)
    if series.ndim != 1 or series.dtype.kind not in "fiu" or not np.isfinite(series).all():
        raise InputError("values", "must be one series of finite numbers")
    if segments < 2 or len(series) < 3 * segments:
        raise InputError("segments", f"is {segments}; give 2 or more, each of 3 values out of {len(series)}")
    series = series.astype(np.float64)
    bounds = np.linspace(0, len(series), segments + 1).astype(int).tolist()
    parts = tuple(_segment(series, start, stop) for start, stop in pairwise(bounds))
    whole = float(series.std())
    if whole == 0:
        return Drift(parts, spread=0.0, expected=0.0)
    means = np.array([part.mean for part in parts])
    return Drift(parts, float(means.std(ddof=1)) / whole, _chance(parts, len(series) / segments) / whole)


def _segment(series: NDArray[np.float64], start: int, stop: int) -> Segment:
    part = series[start:stop]
    centred = part - part.mean()
    power = float(centred @ centred)
    memory = float(centred[1:] @ centred[:-1]) / power if power > 0 else 0.0
    return Segment(start, stop, float(part.mean()), float(part.std()), memory)


def _chance(parts: tuple[Segment, ...], length: float) -> float:
    """The standard error of a segment's mean: values that resemble their neighbours count for fewer."""
    variance = np.mean([part.deviation**2 for part in parts])
    memory = np.clip(np.mean([part.autocorrelation for part in parts]), -0.9, 0.99)
    return float(np.sqrt(variance * (1 + memory) / (1 - memory) / length))
