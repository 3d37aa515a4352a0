"""The rules of thumb that stand beside every forecasting model, as forecasters themselves."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from throughtime.data.panel import Panel
from throughtime.errors import InputError, unknown
from throughtime.series.forecasts import Forecast
from throughtime.series.naive import BASELINES


class Baseline:
    """One rule of `BASELINES`, by name; the season is the frequency's unless given.

    >>> from throughtime.data.panel import Series
    >>> days = Panel((Series.of("a", [1.0, 2.0, 3.0, 4.0]),), frequency=None)
    >>> [forecast] = Baseline("drift").predict(days, h=2)
    >>> forecast.mean.tolist()
    [5.0, 6.0]
    """

    def __init__(self, name: str, season: int | None = None, seed: int = 0) -> None:
        if name not in BASELINES:
            raise unknown("baseline", name, BASELINES)
        if season is not None and season < 1:
            raise InputError("season", f"is {season}, expected at least 1 row")
        self.name, self.season, self.seed = name, season, seed

    def predict(
        self,
        panel: Panel,
        h: int,
        probabilities: Sequence[float] = (),
        paths: int = 0,
        future: Panel | None = None,
    ) -> list[Forecast]:
        """A forecast for each series; `future` is of no use to a rule of thumb.

        Samples are drawn for each step on its own: together they are no path that the series could take.
        """
        generator = np.random.default_rng(self.seed)
        season = self.season or season_of(panel)
        found = []
        for series in panel.series:
            try:
                mean, deviation = BASELINES[self.name](series.y, h, season)
            except InputError as error:
                raise InputError(f"series {series.unique_id!r}", error.problem) from None
            quantiles = {p: mean + NormalDist().inv_cdf(p) * deviation for p in probabilities}
            samples = mean + deviation * generator.standard_normal((paths, h)) if paths else None
            found.append(Forecast(series.unique_id, panel.after(series, h), mean, quantiles, samples))
        return found


def season_of(panel: Panel) -> int:
    """How many rows make a season: a day of hours, a week of days, a year of months; 1 where none is known.

    >>> season_of(Panel((), frequency=None))
    1
    """
    return (panel.frequency.season if panel.frequency else None) or 1
