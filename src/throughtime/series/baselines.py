"""The forecasts that any model has to beat: the last value, the last season, the straight line.

Each is a Gaussian whose mean and deviation the history gives in closed form, with s the deviation of the
one-step residuals within the history, n their number, T the length of the history, m the season:

naive           mean y_T                          deviation s sqrt(k)
seasonal-naive  mean y_{T+k-m(j+1)}               deviation s sqrt(j + 1), j = floor((k - 1) / m)
drift           mean y_T + k (y_T - y_1) / (T-1)  deviation s sqrt(k (1 + k / (T-1)))

Where the last values are missing, k counts from the last that was observed; where a value of the last season
is, seasonal-naive goes back to the season before, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from throughtime.data.panel import Panel
from throughtime.errors import InputError, unknown
from throughtime.results import Forecast
from throughtime.series.protocol import ForecastModel

Array = npt.NDArray[np.float64]


class Gaussians(NamedTuple):
    """The next h values, each with its mean and deviation."""

    mean: Array  # [h]
    deviation: Array  # [h]


def naive(y: Array, h: int, season: int = 1) -> Gaussians:
    """The last value again and again; `season` does not matter here.

    >>> naive(np.array([1.0, 2.0, 4.0]), h=4).mean.tolist()
    [4.0, 4.0, 4.0, 4.0]
    """
    last = _observed(y)[-1]
    ahead = len(y) - 1 - last + np.arange(1, h + 1)
    return Gaussians(np.full(h, y[last]), _deviation(y[1:] - y[:-1]) * np.sqrt(ahead))


def seasonal_naive(y: Array, h: int, season: int) -> Gaussians:
    """The last season again and again.

    >>> seasonal_naive(np.array([9.0, 1.0, 2.0, 3.0]), h=5, season=3).mean.tolist()
    [1.0, 2.0, 3.0, 1.0, 2.0]
    """
    _observed(y)
    rows = repeated_rows(~np.isnan(y), np.array([len(y)]), h, season)[:, 0]
    lacking = np.flatnonzero(rows < 0)
    if len(lacking):
        problem = f"has nothing observed a season of {season} before row {len(y) + lacking[0] + 1}"
        raise InputError("the history", f"{problem}; give a shorter season or more rows")
    seasons = (len(y) + np.arange(h) - rows) // season
    return Gaussians(y[rows], _deviation(y[season:] - y[:-season]) * np.sqrt(seasons))


def drift(y: Array, h: int, season: int = 1) -> Gaussians:
    """The line through the first and the last value, continued; `season` does not matter here.

    >>> drift(np.array([1.0, 2.0, 5.0]), h=2).mean.tolist()
    [7.0, 9.0]
    """
    observed = _observed(y)
    first, last = observed[0], observed[-1]
    steps = max(last - first, 1)
    slope = (y[last] - y[first]) / steps
    ahead = len(y) - 1 - last + np.arange(1, h + 1)
    deviation = _deviation(y[1:] - y[:-1] - slope, parameters=1)
    return Gaussians(y[last] + slope * ahead, deviation * np.sqrt(ahead * (1 + ahead / steps)))


def repeated_rows(
    observed: npt.NDArray[np.bool_], origins: npt.NDArray[np.int64], h: int, season: int
) -> npt.NDArray[np.int64]:
    """The rows [h, origins] that seasonal-naive repeats from each origin, the first row that is not known.

    Each lies whole seasons before the row that is forecast, and is the last one before the origin that was
    observed; -1 where none was. With a season of 1 they are those of naive.

    >>> observed = np.array([True, True, False, True])
    >>> repeated_rows(observed, np.array([4]), h=3, season=2).ravel().tolist()
    [0, 3, 0]
    """
    rows = np.where(observed, np.arange(len(observed)), -1)
    seasons = np.pad(rows, (0, -len(rows) % season), constant_values=-1).reshape(-1, season)
    last = np.maximum.accumulate(seasons, axis=0).ravel()  # of the same place in a season
    places = origins - season + np.arange(h)[:, None] % season
    return np.where(places < 0, -1, last[np.maximum(places, 0)])


BASELINES: dict[str, Callable[[Array, int, int], Gaussians]] = {
    "naive": naive,
    "seasonal-naive": seasonal_naive,
    "drift": drift,
}


def _observed(y: Array) -> npt.NDArray[Any]:
    """Where values were observed: there must be one."""
    places = np.flatnonzero(~np.isnan(y))
    if not len(places):
        raise InputError("the history", "has no observed value to go on from; give more rows")
    return places


def _deviation(residuals: Array, parameters: int = 0) -> float:
    """sqrt(sum e^2 / (n - parameters)) over the n residuals that exist; NaN where they do not suffice."""
    known = residuals[~np.isnan(residuals)]
    freedom = len(known) - parameters
    return math.sqrt(float(known @ known) / freedom) if freedom > 0 else math.nan


class Baseline(ForecastModel):
    """One rule of `BASELINES`, by name; the season is the frequency's unless given.

    >>> from throughtime.data.panel import Series
    >>> days = Panel((Series.of("a", [1.0, 2.0, 3.0, 4.0]),), frequency=None)
    >>> [forecast] = Baseline("drift").predict(days, h=2)
    >>> forecast.mean.tolist()
    [5.0, 6.0]
    """

    def __init__(self, name: str, season: int | None = None) -> None:
        if name not in BASELINES:
            raise unknown("baseline", name, BASELINES)
        if season is not None and season < 1:
            raise InputError("season", f"is {season}, expected at least 1 row")
        self.name, self.season = name, season

    def predict(
        self,
        panel: Panel,
        h: int,
        probabilities: Sequence[float] = (),
        *,
        paths: int = 0,
        future: Panel | None = None,
        seed: int | None = None,
    ) -> list[Forecast]:
        """A forecast for each series; columns of the future are not used.

        Samples are drawn for each step on its own: together they are no path that the series could take.
        """
        generator = np.random.default_rng(0 if seed is None else seed)
        season = self.season or season_of(panel)
        found = []
        for series in panel.series:
            try:
                mean, deviation = BASELINES[self.name](series.y, h, season)
            except InputError as error:
                raise InputError(f"series {series.unique_id!r}", error.problem) from None
            quantiles = {p: mean + NormalDist().inv_cdf(p) * deviation for p in probabilities}
            samples = mean + deviation * generator.standard_normal((paths, h)) if paths else None
            found.append(Forecast(series.unique_id, mean, quantiles, samples, panel.after(series, h)))
        return found


def season_of(panel: Panel) -> int:
    """How many rows make a season: a day of hours, a week of days, a year of months; 1 where none is known.

    >>> season_of(Panel((), frequency=None))
    1
    """
    return (panel.frequency.season if panel.frequency else None) or 1
