"""The inputs of a forecaster, the distribution of a future value, and the levels of intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError

MIN_SCALE = 1e-4  # in units of a series' spread: without a minimum the likelihood is unbounded
MIN_CHANCE = 2.0**-54  # a normal distribution has no quantile for 0
GRID = 4_097  # number of angles at which Student's t distribution is tabulated
Array = NDArray[Any]


@dataclass(frozen=True)
class History:
    """A series: its values, oldest first (nan for a gap), and the other columns that the model needs.

    `known` has the rows of y followed by those to forecast, `past` only the rows of y.
    """

    unique_id: str
    y: Sequence[float]
    known: Sequence[Sequence[float]] = field(default_factory=tuple)
    past: Sequence[Sequence[float]] = field(default_factory=tuple)

    def columns(self, role: str, count: int, rows: int, names: Sequence[str] = ()) -> Array:
        """Return the `known` or `past` columns as an array [rows or more, count]; an error gives `names`."""
        if not count:
            return np.zeros((rows, 0))
        table = np.array(getattr(self, role), dtype=float)
        if table.ndim != 2 or table.shape[1] != count or len(table) < rows:
            wanted = f"[{rows} or more, {count}]" + (f": {', '.join(names)}" if names else "")
            problem = f"its {role} columns have the shape {list(table.shape)}, expected {wanted}"
            raise InputError(f"series {self.unique_id!r}", problem)
        return table


def read_histories(data: Mapping[str, Any] | Sequence[Any]) -> list[History]:
    """Return the series of a dict of values by name, or of a list of `History`; names must differ.

    >>> read_histories({"shop": [3.0, 1.0]})
    [History(unique_id='shop', y=[3.0, 1.0], known=(), past=())]
    """
    histories = [History(*one) for one in data.items()] if isinstance(data, Mapping) else list(data)
    names = set()
    for place, one in enumerate(histories):
        if not isinstance(one, History):
            problem = f"is of type {type(one).__name__}, expected a History"
            raise InputError(
                f"data[{place}]", f'{problem}; give values by name, as in {{"sales": [3.0, 1.0]}}'
            )
        if one.unique_id in names:
            raise InputError("data", f"has two series named {one.unique_id!r}; give each a different name")
        names.add(one.unique_id)
    return histories


class OutputDistribution:
    """Interprets the outputs of a graph, [..., width], as the distribution of one value."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.kind: str = settings["kind"]
        self.settings = settings

    @property
    def probabilistic(self) -> bool:
        """Whether it is a distribution, not a single number."""
        return self.kind != "point"

    def mean(self, outputs: Array) -> Array:
        """The point forecast, [...]."""
        found: Array = outputs[..., self.settings.get("centre", 0)]
        return found

    def quantiles(self, outputs: Array, probabilities: Sequence[float]) -> Array:
        """The quantiles for these probabilities, [probabilities, ...]."""
        if self.kind == "quantiles":
            ordered = self._sort_quantiles(outputs)
            return np.stack([self._interpolate(ordered, each) for each in probabilities])
        centre, scale = _centre_and_scale(outputs)
        points = self._standard(np.array(probabilities))
        return np.stack([centre + scale * point for point in points])

    def draw(self, outputs: Array, chances: Array) -> Array:
        """Draw a value from the distribution, [...]: its quantile for a random number in [0, 1), [...]."""
        if self.kind == "quantiles":
            return self._draw_between(self._sort_quantiles(outputs), chances)
        centre, scale = _centre_and_scale(outputs)
        standard = self._standard(np.maximum(chances, MIN_CHANCE))
        drawn: Array = (centre + scale * standard).astype(np.float32)
        return drawn

    def _standard(self, probabilities: Array) -> Array:
        """Quantiles of the distribution with centre 0 and scale 1."""
        if self.kind == "gaussian":
            points = [NormalDist().inv_cdf(each) for each in probabilities.ravel().tolist()]
            return np.array(points).reshape(probabilities.shape)
        # With t = sqrt(n) tan(a) the density becomes cos(a)^(n - 1).
        degrees = self.settings["degrees"]
        angles = np.linspace(-math.pi / 2, math.pi / 2, GRID)
        density = np.cos(angles).clip(min=0) ** (degrees - 1)
        below = np.append(0, np.cumsum((density[1:] + density[:-1]) / 2))
        return math.sqrt(degrees) * np.tan(np.interp(probabilities, below / below[-1], angles))

    def _sort_quantiles(self, outputs: Array) -> Array:
        """The quantiles, from the middle one and the distances between them."""
        middle = self.settings["centre"]
        centre = outputs[..., middle : middle + 1]
        above = centre + np.cumsum(_softplus(outputs[..., middle + 1 :]), axis=-1)
        below = centre - np.cumsum(_softplus(outputs[..., :middle])[..., ::-1], axis=-1)[..., ::-1]
        return np.concatenate([below, centre, above], axis=-1)

    def _interpolate(self, ordered: Array, probability: float) -> Array:
        known = self.settings["probabilities"]
        if not known[0] - 1e-6 <= probability <= known[-1] + 1e-6:
            raise InputError(
                "level", f"needs the quantile {probability:g}, outside of {known[0]:g} to {known[-1]:g}"
            )
        above = int(np.searchsorted(known, probability - 1e-9).clip(0, len(known) - 1))
        if above == 0 or abs(known[above] - probability) < 1e-9:
            found: Array = ordered[..., above]
            return found
        share = (probability - known[above - 1]) / (known[above] - known[above - 1])
        between: Array = ordered[..., above - 1] * (1 - share) + ordered[..., above] * share
        return between

    def _draw_between(self, ordered: Array, chances: Array) -> Array:
        known = np.array(self.settings["probabilities"])
        if len(known) == 1:
            alone: Array = ordered[..., 0]
            return alone
        above = np.searchsorted(known, chances).clip(1, len(known) - 1)
        share = ((chances - known[above - 1]) / (known[above] - known[above - 1])).clip(0, 1)
        low, high = (np.take_along_axis(ordered, at[..., None], -1)[..., 0] for at in (above - 1, above))
        between: Array = (low * (1 - share) + high * share).astype(np.float32)
        return between


def _centre_and_scale(outputs: Array) -> tuple[Array, Array]:
    return outputs[..., 0], MIN_SCALE + _softplus(outputs[..., 1])


def _softplus(values: Array) -> Array:
    return np.logaddexp(values, 0)


def check_levels(levels: Iterable[float]) -> None:
    """Refuse levels that are not percentages; for a share such as 0.95 the error suggests 95.

    >>> check_levels([80, 0.95])
    Traceback (most recent call last):
    throughtime.errors.InputError: level: 0.95 is below 1; levels are percentages: use 95
    """
    for level in levels:
        if 0 < level < 1:
            raise InputError("level", f"{level:g} is below 1; levels are percentages: use {100 * level:g}")
        if not 1 <= level < 100:
            raise InputError("level", f"is {level:g}, expected a percentage of at least 1 and below 100")


def ends(level: float) -> tuple[float, float]:
    """The probabilities at the two ends of an interval of this level, in per cent.

    >>> ends(80)
    (0.1, 0.9)
    """
    return round(0.5 - level / 200, 10), round(0.5 + level / 200, 10)


def interval_ends(levels: Iterable[float]) -> list[float]:
    """Check several levels and return the ends of their intervals, sorted.

    >>> interval_ends([80, 95])
    [0.025, 0.1, 0.9, 0.975]
    """
    if isinstance(levels, int | float):
        raise InputError("level", f"is {levels}, expected a list of percentages, such as [80, 95]")
    levels = list(levels)
    check_levels(levels)
    return sorted({end for level in levels for end in ends(level)})
