"""Ridge regression as a baseline for every forecaster, fitted to the training rows of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from throughtime.data.panel import Panel, Series
from throughtime.data.panel_scaling import filled
from throughtime.data.power import PLAIN, powered
from throughtime.data.scaling import PowerScale, SeriesScale, scale_of
from throughtime.errors import InputError
from throughtime.series.forecasts import Forecast
from throughtime.series.ridge_regression import RidgeMap, fit_ridge, windows_within

Array = NDArray[np.float64]
NAME = "ridge"
LONGEST = 336  # maximum look-back in rows: two weeks of hours
SHARE = 3  # the look-back is at most a third of the shortest series
SHORTEST = 2  # minimum look-back, as the last value is subtracted from all


class Fitting(NamedTuple):
    """The rows of each series for fitting and for choosing the penalty, and the power of its scale."""

    training: Sequence[range]
    validation: Sequence[range]
    powers: Sequence[float]

    @classmethod
    def before(cls, panel: Panel, cut: int) -> Self:
        """Fit to all rows except the last `cut`."""
        rows = [range(max(0, len(one) - cut)) for one in panel.series]
        return cls(rows, [range(0)] * len(rows), [PLAIN] * len(rows))


@dataclass(eq=False)
class RidgeBaseline:
    """One linear map for all series, each standardised by its training rows; gaps repeat the row before.

    Intervals are those of a normal distribution, as for the other baselines; their deviation is that of the
    errors of each series and step on the validation rows.
    """

    found: RidgeMap
    scales: dict[str, SeriesScale]
    deviations: dict[str, Array]  # of each series [h], standardised
    name: str = NAME

    @classmethod
    def fit(cls, panel: Panel, h: int, fitting: Fitting) -> RidgeBaseline:
        """Fit for forecasts of `h` rows; raise an `InputError` if there are too few rows."""
        lookback = lookback_for([len(part) for part in fitting.training])
        scales = {
            one.unique_id: _standard(one, part, power)
            for one, part, power in zip(panel.series, fitting.training, fitting.powers, strict=True)
        }
        values = [_scaled(one, scales[one.unique_id]) for one in panel.series]
        found = fit_ridge(values, fitting.training, fitting.validation, lookback, h)
        squares, counts = np.zeros((len(values), h)), np.zeros(len(values))
        judged = (
            fitting.validation if any(len(part) >= h for part in fitting.validation) else fitting.training
        )
        for place, (own, part) in enumerate(zip(values, judged, strict=True)):
            for block in windows_within(own, part, lookback, h):
                errors = found.forecasts(block[:, :lookback]) - block[:, lookback:]
                squares[place] += (errors**2).sum(axis=0)
                counts[place] += len(block)
        shared = squares.sum(axis=0) / max(1, counts.sum())
        spreads = np.where(counts[:, None] > 0, squares / np.maximum(counts, 1)[:, None], shared)
        deviations = {one.unique_id: np.sqrt(own) for one, own in zip(panel.series, spreads, strict=True)}
        return cls(found, scales, deviations)

    @property
    def lookback(self) -> int:
        """Number of rows that a forecast is made from."""
        return len(self.found.weights)

    def standardised(self, series: Series, origins: NDArray[np.int64]) -> Array:
        """The forecasts from each origin, [n, h], on the standardised scale of the series.

        Missing rows before the start of a series repeat its first row.
        """
        values = _scaled(series, self.scales[series.unique_id])
        padded = np.concatenate([np.full(self.lookback, values[0]), values])
        return self.found.forecasts(sliding_window_view(padded, self.lookback)[origins])

    def predict(
        self,
        panel: Panel,
        h: int,
        probabilities: Sequence[float] = (),
        paths: int = 0,
        future: Panel | None = None,
    ) -> list[Forecast]:
        """A forecast for each series, of the `h` rows that it was fitted for; it draws no paths."""
        forecasts = []
        for one in panel.series:
            scale = self.scales[one.unique_id]
            mean = self.standardised(one, np.array([len(one)]))[0]
            wide = self.deviations[one.unique_id]
            quantiles = {p: scale.undone(mean + NormalDist().inv_cdf(p) * wide) for p in probabilities}
            ds = panel.after(one, h)
            forecasts.append(Forecast(one.unique_id, ds, scale.undone(mean), quantiles, power=scale.power))
        return forecasts


def lookback_for(rows: Sequence[int]) -> int:
    """The look-back in rows, given the number of training rows of each series.

    >>> lookback_for([8640]), lookback_for([96, 200])
    (336, 32)
    """
    shortest = min(rows, default=0)
    if shortest < SHARE * SHORTEST:
        raise InputError(
            "training rows",
            f"are {shortest} in the shortest series, and ridge regression needs {SHARE * SHORTEST}",
        )
    return min(LONGEST, shortest // SHARE)


def _standard(series: Series, training: range, power: float) -> SeriesScale:
    own = series.y[training.start : training.stop]
    if power == PLAIN:
        return scale_of(series.unique_id, own, "standard")
    return PowerScale(*scale_of(series.unique_id, powered(own, power), "standard"), power)


def _scaled(series: Series, scale: SeriesScale) -> Array:
    return filled(scale.applied(series.y)[:, None])[:, 0]
