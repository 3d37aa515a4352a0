"""The interface of a forecasting model, and simple forecasts that any model should beat.

These are the last value, the last season, and a straight line. Each is a Gaussian whose mean and deviation
follow from the history in closed form, where s is the deviation of the one-step residuals within the history,
T the length of the history and m the season:

naive           mean y_T                          deviation s sqrt(k)
seasonal-naive  mean y_{T+k-m(j+1)}               deviation s sqrt(j + 1), j = floor((k - 1) / m)
drift           mean y_T + k (y_T - y_1) / (T-1)  deviation s sqrt(k (1 + k / (T-1)))

If the last values are missing, k counts from the last observed one. If a value of the last season is missing,
seasonal-naive uses the season before, and so on.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from throughtime.data.panel import DAY, Frequency, Panel, Series
from throughtime.errors import InputError, check_whole, unknown
from throughtime.results import Forecast
from throughtime.series.scaling import PLAIN


@dataclass(frozen=True)
class ForecastQuery:
    """What to forecast: the next `h` rows of each series of a panel.

    `probabilities` are those of the quantiles, `paths` is the number of sample paths to draw with `seed`, and
    `future` holds the columns that are known in the future, by their times.
    """

    panel: Panel
    h: int
    probabilities: Sequence[float] = ()
    paths: int = 0
    future: Panel | None = None
    seed: int | None = None


class ForecastModel(ABC):
    """A model that forecasts every series of a panel; `name` heads the columns of its output."""

    name: str
    lookback: int = 1
    """Number of rows that a forecast is made from."""
    reach: tuple[float, float] = (0.0, 1.0)
    """The lowest and highest probabilities for which the model has quantiles."""

    @abstractmethod
    def answer(self, query: ForecastQuery) -> list[Forecast]:
        """Return a forecast for each series of the query."""

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
        """Forecast the next `h` rows of each series; see `ForecastQuery` for the arguments."""
        return self.answer(ForecastQuery(panel, h, probabilities, paths, future, seed))

    def power(self, series: Series) -> float:
        """Return the Box-Cox power of a series; on its scale, errors do not depend on the level."""
        return PLAIN

    def clean(self, panel: Panel) -> Panel:
        """Return the series as the model reads them, without outliers."""
        return panel

    def lowest(self, series: Series) -> float:
        """Return the lowest value that a forecast of a series may have."""
        return -math.inf


Array = npt.NDArray[np.float64]
MAX_SERIES, MIN_ROWS = 50, 16
"""Number of series in which a season is looked for, and of rows that each of them needs."""
MIN_SEASONS, MAX_SEASONS = 3, 100
"""Number of last seasons from which a series may contradict the season of its dates."""
AS_MUCH = 0.9
"""A divisor of that season that explains this part of what the season explains is the season."""
CLEAR = 0.85
"""A season counts as the first if it is this clear, compared with its multiples."""
CHANGES = {12: 3.1, 6: 2.2, 3: 1.6, 1: 1.6}
"""Numbers of rows over whose changes a season is looked for, and how much more their correlations vary than
those of noise, as changes over several rows overlap (Bartlett)."""


class Gaussians(NamedTuple):
    """The mean and the deviation of each of the next h values."""

    mean: Array  # [h]
    deviation: Array  # [h]


def naive(y: Array, h: int, season: int = 1) -> Gaussians:
    """Repeat the last value; `season` is ignored.

    >>> naive(np.array([1.0, 2.0, 4.0]), h=4).mean.tolist()
    [4.0, 4.0, 4.0, 4.0]
    """
    return seasonal_naive(y, h, 1)


def seasonal_naive(y: Array, h: int, season: int) -> Gaussians:
    """Repeat the last season.

    >>> seasonal_naive(np.array([9.0, 1.0, 2.0, 3.0]), h=5, season=3).mean.tolist()
    [1.0, 2.0, 3.0, 1.0, 2.0]
    """
    _find_observed(y)
    rows = repeated_rows(~np.isnan(y), np.array([len(y)]), h, season)[:, 0]
    lacking = np.flatnonzero(rows < 0)
    if len(lacking):
        problem = f"has nothing observed a season of {season} before row {len(y) + lacking[0] + 1}"
        raise InputError("the history", f"{problem}; give a shorter season or more rows")
    seasons = (len(y) + np.arange(h) - rows) // season
    return Gaussians(y[rows], _deviation(y[season:] - y[:-season]) * np.sqrt(seasons))


def drift(y: Array, h: int, season: int = 1) -> Gaussians:
    """Continue the line through the first and the last value; `season` is ignored.

    >>> drift(np.array([1.0, 2.0, 5.0]), h=2).mean.tolist()
    [7.0, 9.0]
    """
    observed = _find_observed(y)
    first, last = observed[0], observed[-1]
    steps = max(last - first, 1)
    slope = (y[last] - y[first]) / steps
    ahead = len(y) - 1 - last + np.arange(1, h + 1)
    deviation = _deviation(y[1:] - y[:-1] - slope, parameters=1)
    return Gaussians(y[last] + slope * ahead, deviation * np.sqrt(ahead * (1 + ahead / steps)))


def repeated_rows(
    observed: npt.NDArray[np.bool_], origins: npt.NDArray[np.int64], h: int, season: int
) -> npt.NDArray[np.int64]:
    """Return the rows [h, origins] that seasonal-naive repeats; an origin is the first row to forecast.

    Each is the last observed row before the origin that lies whole seasons before the forecast row; -1 if
    there is none. A season of 1 gives the rows of naive.

    >>> observed = np.array([True, True, False, True])
    >>> repeated_rows(observed, np.array([4]), h=3, season=2).ravel().tolist()
    [0, 3, 0]
    """
    rows = np.where(observed, np.arange(len(observed)), -1)
    seasons = np.pad(rows, (0, -len(rows) % season), constant_values=-1).reshape(-1, season)
    last = np.maximum.accumulate(seasons, axis=0).ravel()  # at the same position of a season
    places = origins - season + np.arange(h)[:, None] % season
    return np.where(places < 0, -1, last[np.maximum(places, 0)])


BASELINES: dict[str, Callable[[Array, int, int], Gaussians]] = {
    "naive": naive,
    "seasonal-naive": seasonal_naive,
    "drift": drift,
}


def _find_observed(y: Array) -> npt.NDArray[Any]:
    """The positions of the observed values, of which there must be one."""
    places = np.flatnonzero(~np.isnan(y))
    if not len(places):
        raise InputError("the history", "has no observed value to continue from; give more rows")
    return places


def _deviation(residuals: Array, parameters: int = 0) -> float:
    """sqrt(sum e^2 / (n - parameters)) over the n residuals that are not NaN; NaN if there are too few."""
    known = residuals[~np.isnan(residuals)]
    freedom = len(known) - parameters
    return math.sqrt(float(known @ known) / freedom) if freedom > 0 else math.nan


class Baseline(ForecastModel):
    """A baseline by its name in `BASELINES`; by default the season is that of the frequency.

    >>> from throughtime.data.panel import Series
    >>> days = Panel((Series.of("a", [1.0, 2.0, 3.0, 4.0]),), frequency=None)
    >>> [forecast] = Baseline("drift").predict(days, h=2)
    >>> forecast.mean.tolist()
    [5.0, 6.0]
    """

    def __init__(self, name: str, season: int | None = None) -> None:
        if name not in BASELINES:
            raise unknown("baseline", name, BASELINES)
        if season is not None:
            check_whole("season", season)
        self.name, self.season = name, season

    def answer(self, query: ForecastQuery) -> list[Forecast]:
        """Return a forecast for each series, without using columns known in the future.

        Paths are drawn independently for each step, so a path is not a realistic course of the series.
        """
        panel, h = query.panel, query.h
        generator = np.random.default_rng(query.seed or 0)
        season = self.season or find_season(panel)
        forecasts = []
        for series in panel.series:
            try:
                mean, deviation = BASELINES[self.name](series.y, h, season)
            except InputError as error:
                raise InputError(f"series {series.unique_id!r}", error.problem) from None
            quantiles = {p: mean + NormalDist().inv_cdf(p) * deviation for p in query.probabilities}
            draws = generator.standard_normal((query.paths, h)) if query.paths else None
            samples = None if draws is None else mean + deviation * draws
            forecasts.append(Forecast(series.unique_id, mean, quantiles, samples, panel.after(series, h)))
        return forecasts


def find_season(panel: Panel) -> int:
    """Return the number of rows in a season, such as 24 hours, 7 days or 12 months; 1 if there is none.

    The season of the dates counts unless the values contradict it. Without dates that tell, or if their
    season is not there, it is the first lag, below that season, at which the changes of the series repeat
    about as clearly as at any lag: they are correlated there and at twice the lag, more than those of noise.

    >>> from throughtime.data.panel import Series
    >>> waves, noise = np.tile([1.0, 5.0, 2.0, 3.0], 12), np.random.default_rng(0).normal(size=200)
    >>> [find_season(Panel((Series.of("a", values),), frequency=None)) for values in (waves, noise)]
    [4, 1]
    """
    usual = None if panel.frequency is None else panel.frequency.season
    if usual and (confirmed := _confirm_season(panel, usual)):
        return confirmed
    # Changes over more rows show smoother seasons in noise; those over one row also the shortest ones.
    seasons = (_find_repetition(panel, back) for back in CHANGES)
    return next((season for season in seasons if 1 < season < (usual or math.inf)), 1)


def rows_in_week(frequency: Frequency | None, season: int | None) -> int | None:
    """Return the number of rows in a week, if the season is a day: its days may differ."""
    daily = frequency is not None and frequency.unit == "second" and season and season * frequency.step == DAY
    return 7 * season if daily and season else None


def _confirm_season(panel: Panel, season: int) -> int | None:
    """Return the season if the values do not contradict it, a divisor that explains as much, or None.

    What is compared is the part of the variance, about a moving mean, that the mean season explains. Series
    of less than three seasons contradict nothing.
    """
    shown = [series.y[-MAX_SEASONS * season :] for series in panel.series[:MAX_SERIES]]
    tables = [y for y in shown if len(y) >= MIN_SEASONS * season]
    if not tables:
        return season
    parts = {each: np.mean([_seasonal_part(y, season, each) for y in tables]) for each in _divisors(season)}
    # Without a season, the part is 0 on average, and about as much by chance as its degrees of freedom are.
    if parts[season] < np.mean([season / len(y) for y in tables]):
        return None
    return next(each for each, part in parts.items() if part >= AS_MUCH * parts[season])


def _divisors(season: int) -> list[int]:
    return [each for each in range(2, season + 1) if season % each == 0]


def _seasonal_part(y: Array, usual: int, season: int) -> float:
    """The part of the variance about a mean of `usual` rows that the mean season explains, adjusted."""
    known = ~np.isnan(y)
    window = np.ones(usual) / usual if usual % 2 else np.r_[0.5, np.ones(usual - 1), 0.5] / usual
    level = np.convolve(np.where(known, y, 0), window, "valid") / np.maximum(
        np.convolve(known, window, "valid"), 1e-9
    )
    start = (len(window) - 1) // 2
    values, known = y[start : start + len(level)] - level, known[start : start + len(level)]
    values, places = values[known], (np.arange(len(known)) % season)[known]
    counts = np.bincount(places, minlength=season)
    means = np.bincount(places, values, season) / np.maximum(counts, 1)
    total = float(np.sum((values - values.mean()) ** 2)) if len(values) else 0.0
    left = float(np.sum((values - means[places]) ** 2))
    freedom = len(values) - season
    return 1 - left / total * (len(values) - 1) / freedom if total > 0 and freedom > 0 else 0.0


def _find_repetition(panel: Panel, back: int) -> int:
    """The season of the changes over `back` rows; 1 if there is none."""
    values = [series.y for series in panel.series[:MAX_SERIES] if len(series) >= MIN_ROWS]
    shown = [y[back:] - y[:-back] for y in values]
    correlations = [_correlate(changes) for changes in shown]
    lags = min(map(len, correlations), default=0)
    if lags < MIN_ROWS // 2:
        return 1
    mean = np.mean([each[:lags] for each in correlations], axis=0)
    chance = 1 / math.sqrt(min(map(len, shown)))
    once = np.arange(2, (lags - 1) // 2 + 1)
    # What the changes of noise do not reach at any lag.
    highest = chance * CHANGES[back] * math.sqrt(2 * math.log(2 * len(once)))
    is_peak = (mean[once] >= mean[once - 1]) & (mean[once] >= mean[once + 1])
    is_peak &= np.minimum.accumulate(mean)[once - 1] < 0  # a smooth series resembles itself a few rows later
    clear = is_peak & (mean[once] > highest) & (mean[2 * once] > 1.5 * chance)
    scores = np.where(clear, mean[once], 0)
    return int(once[np.argmax(scores >= CLEAR * scores.max())]) if clear.any() else 1


def _correlate(changes: Array) -> Array:
    """The autocorrelation of a series at lags up to two thirds of its length; missing values count as 0."""
    known = changes[~np.isnan(changes)]
    centred = np.nan_to_num(changes - known.mean() if len(known) else changes)
    power = np.abs(np.fft.rfft(centred, 2 * len(centred))) ** 2
    products = np.fft.irfft(power)[: 2 * len(centred) // 3]
    return np.asarray(products / max(products[0], 1e-300))
