r"""Ridge regression: a linear map from the last values of a series to the next ones, fitted in closed form.

One matrix W serves all series. The last value of a window x is subtracted from x and from the values y that
follow it; then

.. math:: W = (X^T X + \lambda I)^{-1} X^T Y

where the penalty, lambda, is the one with the lowest squared error on validation windows. Only the products
:math:`X^T X` and :math:`X^T Y` are kept in memory, summed over blocks of windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from throughtime.data.panel import Panel, Series
from throughtime.errors import InputError
from throughtime.results import Forecast
from throughtime.series.baselines import ForecastModel, ForecastQuery
from throughtime.series.panels import Timeline
from throughtime.series.scaling import PLAIN, Scale, fill_gaps, fit_scale

Array = NDArray[np.float64]
PENALTIES = tuple(10.0**power for power in range(-1, 6))
"""From 0.1, which has little effect even on a short series, to 100,000."""
BLOCK = 2**21  # numbers in a block of windows: 16 MiB


@dataclass(frozen=True, eq=False)
class RidgeMap:
    """The matrix W [lookback, horizon] and the chosen penalty."""

    weights: Array
    penalty: float

    def forecasts(self, windows: Array) -> Array:
        """Forecast the values [n, horizon] that follow each of the windows [n, lookback]."""
        last = windows[:, -1:]
        return last + (windows - last) @ self.weights


def fit_ridge(
    series: Sequence[Array],
    training: Sequence[range],
    validation: Sequence[range],
    lookback: int,
    horizon: int,
    penalties: Sequence[float] = PENALTIES,
) -> RidgeMap:
    """Fit to the windows within the training rows; the penalty is chosen on those of the validation rows.

    Series are on a common scale and have no gaps. A validation window forecasts validation rows from any
    rows before them. If there are no validation windows, the penalty is chosen on the last fifth of the
    training rows, and all training rows are used for the final fit.

    >>> wave = np.sin(np.arange(60.0))
    >>> ridge = fit_ridge([wave], [range(40)], [range(40, 50)], lookback=8, horizon=2, penalties=[1e-6])
    >>> error = ridge.forecasts(wave[None, 42:50])[0] - wave[50:52]     # a sine is a linear recurrence
    >>> bool(abs(error).max() < 1e-4)
    True
    """
    whole = fitted = Moments.of(series, training, lookback, horizon)
    tested = Moments.of(series, validation, lookback, horizon)
    if not tested.windows:
        first, last = hold_back(training)
        fitted = Moments.of(series, first, lookback, horizon)
        tested = Moments.of(series, last, lookback, horizon)
    if not (fitted.windows and tested.windows):
        longest = max((len(rows) for rows in training), default=0)
        raise InputError(
            "training rows",
            f"are {longest:,} at most, too few to fit and validate windows of {lookback} and {horizon} rows",
        )
    penalty = min(penalties, key=lambda each: tested.squared_error(fitted.weights(each)))
    return RidgeMap(whole.weights(penalty), penalty)


def hold_back(training: Sequence[range]) -> tuple[list[range], list[range]]:
    """Divide training rows into the first four fifths, to fit to, and the last, to validate on."""
    middles = [rows.stop - len(rows) // 5 for rows in training]
    first = [range(rows.start, middle) for rows, middle in zip(training, middles, strict=True)]
    return first, [range(middle, rows.stop) for rows, middle in zip(training, middles, strict=True)]


def windows_within(
    values: Array, rows: range, lookback: int, horizon: int, stride: int = 1
) -> Iterator[Array]:
    """Yield blocks of every n-th window (`stride`), [n, lookback + horizon], whose horizon lies in `part`."""
    first, last = max(rows.start, lookback), rows.stop - horizon
    if last < first:
        return
    windows = sliding_window_view(values, lookback + horizon)[first - lookback : last - lookback + 1 : stride]
    size = max(1, BLOCK // (lookback + horizon))
    for begin in range(0, len(windows), size):
        yield windows[begin : begin + size]


class Moments(NamedTuple):
    """All that a least-squares fit and its error depend on."""

    inner: Array  # X^T X
    cross: Array  # X^T Y
    squares: float  # the sum of Y^2
    windows: int

    @classmethod
    def of(
        cls,
        series: Sequence[Array],
        parts: Sequence[range],
        lookback: int,
        horizon: int,
        *,
        subtract_last: bool = True,
        stride: int = 1,
    ) -> Self:
        """Sum over every n-th window (`stride`) whose horizon lies in the part of its series.

        The last value before the horizon is subtracted from each window, unless `subtract_last` is false.
        """
        inner, cross = np.zeros((lookback, lookback)), np.zeros((lookback, horizon))
        squares, count = 0.0, 0
        for values, rows in zip(series, parts, strict=True):
            for block in windows_within(values, rows, lookback, horizon, stride):
                if subtract_last:
                    block = block - block[:, lookback - 1 : lookback]
                past, targets = block[:, :lookback], block[:, lookback:]
                inner += past.T @ past
                cross += past.T @ targets
                squares += float((targets * targets).sum())
                count += len(block)
        return cls(inner, cross, squares, count)

    def add(self, other: Moments) -> Moments:
        """The moments of the windows of both."""
        inner, cross, squares, windows = other
        return Moments(self.inner + inner, self.cross + cross, self.squares + squares, self.windows + windows)

    def weights(self, penalty: float) -> Array:
        """The ridge regression with this penalty."""
        whole = self.inner.copy()
        whole.flat[:: len(whole) + 1] += penalty
        return np.asarray(np.linalg.solve(whole, self.cross), dtype=np.float64)

    def squared_error(self, weights: Array) -> float:
        """The sum of (Y - X W)^2 over these windows."""
        product = (weights * (self.inner @ weights)).sum() - 2 * (weights * self.cross).sum()
        return float(product + self.squares)


NAME = "ridge"
MAX_LOOKBACK = 336  # maximum look-back in rows: two weeks of hours
SHARE = 3  # the look-back is at most a third of the shortest series
MIN_LOOKBACK = 2  # minimum look-back, because the last value is subtracted from all


class Fitting(NamedTuple):
    """For each series, the rows to fit to, the rows to choose the penalty on, and the Box-Cox power."""

    training: Sequence[range]
    validation: Sequence[range]
    powers: Sequence[float]

    @classmethod
    def of(cls, panel: Panel, timeline: Timeline, powers: Sequence[float]) -> Self:
        """Use the training and validation rows of a model."""
        training, validation = (timeline.part_of_each(split, panel) for split in ("train", "valid"))
        return cls(training, validation, powers)

    @classmethod
    def before(cls, panel: Panel, cut: int) -> Self:
        """Fit to all rows except the last `cut`."""
        rows = [range(max(0, len(series) - cut)) for series in panel.series]
        return cls(rows, [range(0)] * len(rows), [PLAIN] * len(rows))


class RidgeBaseline(ForecastModel):
    """One linear map for all series, each standardised by its training rows; gaps repeat the row before.

    Intervals are those of a normal distribution, as for the other baselines, with the deviation of the errors
    on the validation rows, for each series and step.
    """

    name = NAME

    def __init__(self, ridge: RidgeMap, scales: dict[str, Scale], deviations: dict[str, Array]) -> None:
        self.ridge, self.scales, self.lookback = ridge, scales, len(ridge.weights)
        self.deviations = deviations  # by series: [h], standardised

    @classmethod
    def fit(cls, panel: Panel, h: int, fitting: Fitting) -> RidgeBaseline:
        """Fit for forecasts of `h` rows; raise an `InputError` if there are too few rows."""
        lookback = lookback_for([len(rows) for rows in fitting.training])
        scales = {
            name: fit_scale(name, series.y[rows.start : rows.stop], "standard", power)
            for name, series, rows, power in zip(
                panel.names, panel.series, fitting.training, fitting.powers, strict=True
            )
        }
        values = [
            fill_gaps(scales[name].apply(series.y))
            for name, series in zip(panel.names, panel.series, strict=True)
        ]
        ridge = fit_ridge(values, fitting.training, fitting.validation, lookback, h)
        squares, counts = np.zeros((len(values), h)), np.zeros(len(values))
        validated = any(len(rows) >= h for rows in fitting.validation)
        measured = fitting.validation if validated else fitting.training
        for number, rows in enumerate(measured):
            for block in windows_within(values[number], rows, lookback, h):
                errors = ridge.forecasts(block[:, :lookback]) - block[:, lookback:]
                squares[number] += (errors**2).sum(axis=0)
                counts[number] += len(block)
        shared = squares.sum(axis=0) / max(1, counts.sum())
        spreads = np.where(counts[:, None] > 0, squares / np.maximum(counts, 1)[:, None], shared)
        return cls(ridge, scales, dict(zip(panel.names, np.sqrt(spreads), strict=True)))

    @classmethod
    def try_to_fit(cls, panel: Panel, h: int, fitting: Fitting) -> tuple[list[RidgeBaseline], dict[str, str]]:
        """Fit it if there are enough rows; else return nothing, and why under its name."""
        try:
            return [cls.fit(panel, h, fitting)], {}
        except InputError as error:
            return [], {NAME: f"{error.where} {error.problem}"}

    def forecast_from(self, series: Series, origins: NDArray[np.int64]) -> Array:
        """Return the forecasts from each origin, [n, h], on the standardised scale of the series.

        Missing rows before the start of a series repeat its first row.
        """
        values = fill_gaps(self.scales[series.unique_id].apply(series.y))
        padded = np.concatenate([np.full(self.lookback, values[0]), values])
        return self.ridge.forecasts(sliding_window_view(padded, self.lookback)[origins])

    def answer(self, query: ForecastQuery) -> list[Forecast]:
        """Return a forecast for each series, of the `h` rows that it was fitted for, without paths."""
        forecasts = []
        for series in query.panel.series:
            name, ds = series.unique_id, query.panel.after(series, query.h)
            scale, deviation = self.scales[name], self.deviations[name]
            mean = self.forecast_from(series, np.array([len(series)]))[0]
            points = {p: mean + NormalDist().inv_cdf(p) * deviation for p in query.probabilities}
            quantiles = {p: scale.undo(values) for p, values in points.items()}
            forecasts.append(Forecast(name, scale.undo(mean), quantiles, ds=ds))
        return forecasts

    def power(self, series: Series) -> float:
        """Return the power of the scale that a series was fitted on."""
        return self.scales[series.unique_id].power


def lookback_for(rows: Sequence[int]) -> int:
    """Return the look-back in rows, given the number of training rows of each series.

    >>> lookback_for([8640]), lookback_for([96, 200])
    (336, 32)
    """
    shortest = min(rows, default=0)
    if shortest < SHARE * MIN_LOOKBACK:
        raise InputError(
            "training rows",
            f"are {shortest} in the shortest series, and ridge regression needs {SHARE * MIN_LOOKBACK}",
        )
    return min(MAX_LOOKBACK, shortest // SHARE)
