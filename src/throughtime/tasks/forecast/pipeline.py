"""Forecasts without torch: all that a trained forecaster and its export share, from series to intervals.

A network reads windows of scaled values. A direct one says something of every row of the horizon at once. A
recursive one says something of the next row, reads the value that is chosen for it, and so on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Panel, PanelArrays, Series, Times, Window
from throughtime.errors import InputError, check_whole
from throughtime.interrupt import check_interrupt
from throughtime.results import Forecast, format_times
from throughtime.runtime.draws import uniform, whole_seed
from throughtime.runtime.forecast import (
    History,
    OutputDistribution,
    WindowReading,
    check_horizon,
    read_histories,
    roll_out,
)
from throughtime.series.baselines import ForecastModel, ForecastQuery
from throughtime.series.panels import PanelScaling
from throughtime.series.scaling import Scale, unscale_forecasts

Array = NDArray[Any]
ROWS_AT_ONCE = 4_096
"""Number of series, or of paths of some series, that go through the model together."""
PlainSeries = Mapping[str, Sequence[float]] | Sequence[History]
"""Values by series name, oldest first; or a list of `History`, which can hold further columns."""


class ForecastPipeline(ForecastModel):
    """A forecaster, trained or exported: a network, what its outputs mean, and the scales of series."""

    scaling: PanelScaling
    recursive: bool
    horizon: int
    known: tuple[str, ...]
    """The columns that it reads, whose future values are known, and those whose are not: `past`."""
    past: tuple[str, ...]
    paths: int
    """Number of paths that the intervals of a recursive model come from."""
    seed: int
    pads: int = 0
    """The season by which a series that is too short is continued backwards; 0: it is refused."""

    @property
    @abstractmethod
    def distribution(self) -> OutputDistribution:
        """How outputs are read."""

    @abstractmethod
    def compute(self, window: Window[Array]) -> WindowReading:
        """Run the network on a window; the outputs are those that `distribution` reads."""

    @abstractmethod
    def read_row(self, reading: WindowReading, value: Array) -> WindowReading:
        """Run the network on the value that was chosen for the next row."""

    def answer(self, query: ForecastQuery) -> list[Forecast]:
        """Forecast the next rows of each series; a point head has no quantiles, even if they are asked for.

        A recursive model draws whole paths, and its quantiles are those of the paths. A direct model knows
        the distribution of each row but not how rows depend on each other: its paths are drawn row by row, so
        that sums and extremes over them vary too little. A draw depends on the seed, on the numbers of the
        series and of the path, and on the row.
        """
        panel, h, distribution = query.panel, query.h, self.distribution
        check_whole("h", h)
        check_horizon(self, h)
        if query.paths and not distribution.probabilistic:
            raise InputError(
                "paths", "need a distribution to draw from, and head is point; train with head=gaussian"
            )
        if self.pads:
            panel = self.clean(panel)  # the first season is repeated without its outliers
            panel = extend_back(panel, [self.lookback - len(series) for series in panel.series], self.pads)
            query = replace(query, panel=panel)
        probabilities = query.probabilities if distribution.probabilistic else ()
        num_paths = max(query.paths, self.paths if self.recursive and probabilities else 0)
        arrays, scales = self.scaled_arrays(panel)
        times = [
            panel.after(series, h if self.recursive else max(h, self.horizon)) for series in panel.series
        ]
        future = self._scale_future(query, times)
        seed = whole_seed(self.seed if query.seed is None else query.seed)
        forecasts: list[Forecast] = []
        size = max(1, ROWS_AT_ONCE // max(1, num_paths))
        for first in range(0, len(panel.series), size):
            check_interrupt()
            numbers = np.arange(len(panel.series))[first : first + size]
            window = arrays.window(numbers, arrays.offsets[numbers + 1] - self.lookback, self.lookback)
            known = np.stack([future[number] for number in numbers], axis=1)
            window = window._replace(known=np.concatenate([window.known, known]))
            row_of, path_of = np.divmod(np.arange(len(numbers) * num_paths), max(1, num_paths))

            def draw(
                outputs: Array, steps: Any, rows: Array = row_of + first, paths: Array = path_of
            ) -> Array:
                return distribution.draw(outputs, uniform(seed, steps, rows, paths))

            lows = np.array([scales[number].scaled_low for number in numbers])
            mean, quantiles, samples = self._forecast_window(window, h, probabilities, num_paths, draw, lows)
            forecasts += unscale_forecasts(
                [panel.series[number].unique_id for number in numbers],
                [scales[number] for number in numbers],
                mean,
                dict(zip(probabilities, quantiles, strict=False)),
                samples[:, :, : query.paths] if query.paths else None,
                [times[number][:h] for number in numbers],
            )
        return forecasts

    def _forecast_window(
        self,
        window: Window[Array],
        h: int,
        probabilities: Sequence[float],
        num_paths: int,
        draw: Callable[[Array, Any], Array],
        lows: Array,
    ) -> tuple[Array, Sequence[Array] | Array, Array]:
        """Return means [h, B], quantiles [probabilities, h, B], and paths [h, B, paths], all scaled."""
        batch = window.values.shape[1]
        if self.recursive:
            mean, samples = self.forecast_means(window, h), np.zeros((h, batch, 0))
            if num_paths:
                # The paths of a series are next to each other.
                copies = Window(*(np.repeat(each, num_paths, axis=min(1, each.ndim - 1)) for each in window))
                drawn = np.stack(roll_out(self, copies, h, draw))
                samples = np.maximum(drawn.reshape(h, batch, num_paths), lows[:, None])
            return mean, np.quantile(samples, probabilities, axis=2) if probabilities else (), samples
        distribution, reading = self.distribution, self.compute(window)
        outputs, level, samples = reading.outputs[:h], reading.level, np.zeros((h, batch, 0))
        if num_paths:
            drawn = draw(np.repeat(outputs, num_paths, axis=1), np.arange(h)[:, None])
            # A level belongs to a series, which is therefore the last axis while it is restored.
            by_path = drawn.reshape(h, batch, num_paths).swapaxes(1, 2)
            samples = level.restore(by_path).swapaxes(1, 2)
        quantiles = level.restore(distribution.quantiles(outputs, probabilities)) if probabilities else ()
        return level.restore(distribution.mean(outputs)), quantiles, samples

    def forecast_means(self, window: Window[Array], h: int) -> Array:
        """Return the point forecasts [h, B] of scaled values."""
        check_horizon(self, h)
        distribution = self.distribution
        if self.recursive:
            return np.stack(roll_out(self, window, h, lambda outputs, step: distribution.mean(outputs)))
        reading = self.compute(window)
        return np.asarray(reading.level.restore(distribution.mean(reading.outputs)))[:h]

    def power(self, series: Series) -> float:
        """Return the Box-Cox power of the scale of a series."""
        return self.scaling.scale(series).power

    def clean(self, panel: Panel) -> Panel:
        """Return the series without outliers."""
        return self.scaling.clean(panel)

    def lowest(self, series: Series) -> float:
        """Return 0 for a series without a negative value in training."""
        return self.scaling.scale(series).low

    def scaled_arrays(self, panel: Panel) -> tuple[PanelArrays, list[Scale]]:
        """Return the scaled series and the scale of each; the columns must be those of training."""
        self.scaling.check(panel)
        names, expected = (panel.known_names, panel.past_names), (self.known, self.past)
        if names != expected:
            raise InputError("data", f"has the columns {names[0]} and {names[1]}, not {expected}")
        return self.scaling.scale_panel(panel)

    def _scale_future(self, query: ForecastQuery, times: Sequence[Times]) -> list[Array]:
        """Return the scaled columns that are known of the rows to forecast, for each series."""
        tables = []
        for series, ds in zip(query.panel.series, times, strict=True):
            check_interrupt()
            if len(series) < self.lookback:
                problem = f"has {len(series):,} rows, but a forecast needs {self.lookback}; give more rows"
                raise InputError(f"series {series.unique_id!r}", problem)
            known = future_columns(series, ds, query.h, self.known, query.future)
            tables.append(self.scaling.columns(known, ds).astype(np.float32))
        return tables


def extend_back(panel: Panel, rows: Sequence[int], season: int) -> Panel:
    """Put rows before the first of each series, if there are more than 0: its first season, repeated.

    A missing value is replaced by the first one there is.

    >>> extend_back(Panel((Series.of("a", [1.0, 2.0, 3.0]),), None), [3], season=2).series[0].y
    array([2., 1., 2., 1., 2., 3.])
    """
    extended = []
    for series, more in zip(panel.series, rows, strict=True):
        if more > 0 and not np.isnan(series.y).all():
            before = series.rows(np.arange(-more, 0) % min(season, len(series)))
            first = series.y[~np.isnan(series.y)][0]
            series = series.rows(np.append(np.zeros(more, np.int64), np.arange(len(series))))
            series.y[:more] = np.where(np.isnan(before.y), first, before.y)
        extended.append(series)
    return replace(panel, series=tuple(extended))


def build_panels(
    data: Mapping[str, Any] | Sequence[Any], known: tuple[str, ...], past: tuple[str, ...]
) -> tuple[Panel, Panel | None]:
    """Return the series, and a panel of their known columns that includes the rows to forecast.

    Times are positions, starting at 0. `known` and `past` are the columns that the model reads.

    >>> panel, future = build_panels([History("shop", [3.0, 1.0], known=[[0], [1], [1]])], ("sale",), ())
    >>> panel.series[0].known.ravel(), future.series[0].ds
    (array([0., 1.]), array([0, 1, 2]))
    """
    panel, future = [], []
    for history in read_histories(data):
        name, rows = history.unique_id, len(history.y)
        ahead = history.columns("known", len(known), rows, known)
        before = history.columns("past", len(past), rows, past)[:rows]
        panel.append(replace(Series.of(name, history.y), known=ahead[:rows], past=before))
        future.append(replace(Series.of(name, np.full(len(ahead), np.nan)), known=ahead))
    series = Panel(tuple(panel), None, known, past, undated=True)
    return series, Panel(tuple(future), None, known, undated=True) if known else None


def future_columns(series: Series, ds: Times, h: int, names: Sequence[str], future: Panel | None) -> Array:
    """Return the known columns at the times `ds` after a series; the first `h` rows must be complete.

    If `future` has a single series, it is used for all.
    """
    known = np.full((len(ds), len(names)), np.nan)
    if not names:
        return known
    if future is None:
        raise InputError("future", f"is missing: the model needs {', '.join(names)} of the rows to forecast")
    table = future.series_by_name().get(series.unique_id)
    if table is None and len(future.series) == 1:
        table = future.series[0]
    if table is None:
        raise InputError("future", f"has no rows for series {series.unique_id!r}")
    _, here, there = np.intersect1d(ds, table.ds, return_indices=True)
    known[here] = table.known[there]
    absent = np.flatnonzero(np.isnan(known[:h]).any(axis=1))
    if len(absent):
        where = f"series {series.unique_id!r} at {format_times(ds)[absent[0]]}"
        raise InputError("future", f"lacks {', '.join(names)} for {where}")
    return known
