"""Evaluate a forecaster: on all windows of a split, k steps ahead of every row, and from past origins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from throughtime.data.batching.series import PanelWindows
from throughtime.data.datasets import DataLike, Dataset
from throughtime.data.panel import Panel, Series
from throughtime.data.readers.panel import read_series_panel
from throughtime.data.seen import hash_panel
from throughtime.errors import InputError
from throughtime.results import Evaluation, Forecast
from throughtime.series.backtest import AUTO, CONFORMAL, Backtest, backtest
from throughtime.series.baselines import ForecastModel, ForecastQuery, repeated_rows
from throughtime.series.figures import KSteps, beaten_by, loss_sentences
from throughtime.series.ridge import Fitting, RidgeBaseline
from throughtime.series.scaling import Scale
from throughtime.tasks.base import Predictor, Progress
from throughtime.tasks.forecast.config import ForecastConfig
from throughtime.tasks.forecast.pipeline import ForecastPipeline, extend_back

Array = NDArray[np.float64]
WINDOWS_AT_ONCE = 1_024
MIN_ROWS = 5
"""Rows from which a model that is fitted again forecasts."""
FIGURES = ("mse", "mae", "mse_original", "mae_original")


class WindowForecasts(NamedTuple):
    """The forecasts of some windows beside the true values, all scaled."""

    series: NDArray[np.int64]  # [B]: the number of the series
    starts: NDArray[np.int64]  # [B]
    true: Array  # [h, B]
    forecast: Array  # [h, B]
    weights: Array  # [h, B]: 1 for an observed value, else 0

    def by_series(self) -> Iterator[tuple[int, NDArray[np.bool_]]]:
        """Yield the number of each series, and which windows belong to it."""
        return ((number, self.series == number) for number in np.unique(self.series).tolist())


def forecast_windows(
    forecaster: ForecastPipeline, windows: PanelWindows, progress: Progress | None = None
) -> Iterator[WindowForecasts]:
    """Yield the mean forecast of each window beside the true values, some at a time."""
    arrays, lookback, h = windows.arrays, windows.lookback, windows.horizon
    ahead = h if forecaster.recursive else forecaster.horizon
    batches = -(-len(windows) // WINDOWS_AT_ONCE)
    for number in range(batches):
        chosen = slice(number * WINDOWS_AT_ONCE, (number + 1) * WINDOWS_AT_ONCE)
        series, starts = windows.series[chosen], windows.starts[chosen]
        window = arrays.window(series, starts, lookback, ahead)
        mean = forecaster.forecast_means(window, h).astype(np.float64)
        rows = starts + np.arange(lookback, lookback + h)[:, None]
        true, weights = arrays.values[rows].astype(np.float64), arrays.observed[rows].astype(np.float64)
        yield WindowForecasts(series, starts, true, mean, weights)
        if progress is not None:
            progress(number + 1, batches)


def evaluate_windows(
    forecaster: TestedForecaster, dataset: Dataset, split: str, progress: Progress | None = None
) -> Evaluation:
    """Average errors over all windows, rows and series, of scaled values and in original units."""
    config, horizon = forecaster.config, forecaster.horizon
    panel = forecaster.clean(read_series_panel(dataset, config.roles))
    forecaster = forecaster.before(panel, split)
    whole, windows, scales = build_windows(forecaster, panel, split)
    sums: dict[str, Array] = {}
    rules = {"naive": 1, **({"seasonal-naive": config.season} if config.season else {})}
    fitted, left_out = RidgeBaseline.try_to_fit(panel, horizon, forecaster.select_training_rows(panel))
    for batch in forecast_windows(forecaster, windows, progress):
        forecasts = {name: _repeat_season(windows, batch, season) for name, season in rules.items()}
        lacking = [name for name, values in forecasts.items() if np.isnan(values[batch.weights > 0]).any()]
        left_out |= dict.fromkeys(lacking, "some windows have nothing observed to repeat")
        for ridge in fitted:
            forecasts[ridge.name] = _ridge_forecasts(ridge, whole, windows, batch, scales)
        for name, forecast in {forecaster.name: batch.forecast, **forecasts}.items():
            sums[name] = sums.get(name, 0) + _sum_errors(batch, forecast, scales)
    figures = {
        name: dict(zip(FIGURES, (errors[:-1] / errors[-1]).tolist(), strict=True))
        for name, errors in sums.items()
        if name not in left_out
    }
    model_figures = figures[forecaster.name]
    baselines = {name: values for name, values in figures.items() if name != forecaster.name}
    beaten = beaten_by(model_figures, baselines, ("mse", "mae"))
    values = {
        **model_figures,
        "baselines": baselines,
        "left_out": left_out,
        "beaten_by": beaten,
        "windows": len(windows),
        "series": len(panel.series),
        "horizon": horizon,
    }
    signature = [
        f"model:{forecaster.name}",
        f"lookback:{forecaster.lookback}",
        f"horizon:{horizon}",
        *([] if config.transform in (None, "none") else [f"transform:{config.transform}"]),
        f"scaling:{config.scaling}",
        f"device:{forecaster.device.type}",
        "precision:float32",
    ]
    lines = [
        f"mse {values['mse']:.4f}, mae {values['mae']:.4f}, scaled,",
        f"over {len(windows):,} windows of {horizon} rows after {forecaster.lookback}",
        *(_line(name, errors) for name, errors in figures.items()),
        *(f"  {name:<16} none: {why}" for name, why in sorted(left_out.items())),
        *loss_sentences(forecaster.name, model_figures, baselines, beaten),
    ]
    return Evaluation(values, "|".join(signature), "\n".join(lines))


def build_windows(
    forecaster: TestedForecaster, panel: Panel, split: str
) -> tuple[Panel, PanelWindows, list[Scale]]:
    """Return the series, all windows of a split, and the scale of each series.

    Where a forecaster continues series backwards, there are rows before them.
    """
    config, lookback, horizon = forecaster.config, forecaster.lookback, forecaster.horizon
    parts, training = (config.timeline.part_of_each(name, panel) for name in (split, "train"))
    forecaster.scaling.adopt(panel, training)
    if forecaster.pads:
        more = [max(0, lookback - rows.start) for rows in parts]
        panel = extend_back(panel, more, forecaster.pads)
        parts = [range(rows.start + new, rows.stop + new) for rows, new in zip(parts, more, strict=True)]
    arrays, scales = forecaster.scaled_arrays(panel)
    windows = PanelWindows(arrays, parts, lookback, horizon)
    if not len(windows):
        longest = max(len(rows) for rows in parts)
        problem = f"has {longest:,} rows, too few for a horizon of {horizon} after {lookback}"
        places = zip(arrays.offsets, parts, strict=False)
        if longest and not any(
            arrays.observed[first:][rows.start : rows.stop].any() for first, rows in places
        ):
            problem = "has no observed value; fill the gap, or set the sizes of the splits"
        raise InputError(f"split {split}", problem)
    return panel, windows, scales


def _repeat_season(windows: PanelWindows, batch: WindowForecasts, season: int) -> Array:
    """Return the last season, or the last value for a season of 1, [h, B]; NaN if nothing was observed.

    The arrays have filled gaps, for the model; only observed rows are repeated here.
    """
    arrays, forecast = windows.arrays, np.full(batch.true.shape, np.nan)
    for number, mine in batch.by_series():
        begin, end = arrays.offsets[number : number + 2]
        origins = batch.starts[mine] + windows.lookback - begin
        rows = repeated_rows(arrays.observed[begin:end], origins, windows.horizon, season)
        forecast[:, mine] = np.where(rows < 0, np.nan, arrays.values[begin:end][rows])
    return forecast


def _ridge_forecasts(
    ridge: RidgeBaseline, panel: Panel, windows: PanelWindows, batch: WindowForecasts, scales: Sequence[Scale]
) -> Array:
    """Return the forecasts of ridge regression for each window, [h, B], on the scale of the model."""
    forecast = np.empty(batch.true.shape)
    for number, mine in batch.by_series():
        series, scale = panel.series[number], scales[number]
        origins = batch.starts[mine] + windows.lookback - windows.arrays.offsets[number]
        standard, values = ridge.scales[series.unique_id], ridge.forecast_from(series, origins).T
        # Both scales have the same power, so one is a linear function of the other.
        forecast[:, mine] = (values * standard.spread + standard.centre - scale.centre) / scale.spread
    return forecast


def _sum_errors(batch: WindowForecasts, forecast: Array, scales: Sequence[Scale]) -> Array:
    """Return the sums of squared and absolute errors, scaled and in original units, and of the weights."""
    original = np.empty_like(forecast)
    for number, mine in batch.by_series():
        scale = scales[number]
        original[:, mine] = scale.undo(forecast[:, mine]) - scale.undo(batch.true[:, mine])
    # Baselines may be NaN in rows that do not count.
    counts = batch.weights > 0
    scaled, original = (np.where(counts, errors, 0.0) for errors in (forecast - batch.true, original))
    sums = [total for errors in (scaled, original) for total in ((errors**2).sum(), abs(errors).sum())]
    return np.array([*sums, batch.weights.sum()])


def _line(name: str, errors: dict[str, float]) -> str:
    scaled = f"mse {errors['mse']:.4f}  mae {errors['mae']:.4f}"
    original = f"rmse {errors['mse_original'] ** 0.5:.4g}, mae {errors['mae_original']:.4g}"
    return f"  {name:<16} {scaled}   in original units: {original}"


class RefittedForecaster(ForecastModel):
    """A model that is fitted again to the rows before each origin."""

    def __init__(self, forecaster: TestedForecaster) -> None:
        self.forecaster, self.name, self.reach = forecaster, forecaster.name, forecaster.reach
        self.lookback = MIN_ROWS

    def answer(self, query: ForecastQuery) -> list[Forecast]:
        """Fit to the rows of the query, and forecast."""
        return self.forecaster.refit(query.panel).answer(query)

    def power(self, series: Series) -> float:
        """Return the Box-Cox power of the scale of a series."""
        return self.forecaster.power(series)

    def lowest(self, series: Series) -> float:
        """Return 0 for a series without a negative value in training."""
        return self.forecaster.lowest(series)


class TestedForecaster(Predictor, ForecastPipeline):
    """A trained forecaster that is tested from past origins, which also gives it conformal intervals."""

    config: ForecastConfig

    @property
    @abstractmethod
    def is_refitted(self) -> bool:
        """Whether it is fitted again to the rows before each test."""

    @abstractmethod
    def refit(self, panel: Panel) -> Self:
        """Return a model with the same settings that knows these rows alone."""

    def before(self, panel: Panel, split: str) -> Self:
        """Return the model to test on a split: if it is fitted to all rows, one of the rows before."""
        if not self.is_refitted or split in ("train", "all"):
            return self
        parts = self.config.timeline.part_of_each(split, panel)
        starts = zip(panel.series, parts, strict=True)
        series = tuple(series.rows(slice(rows.start or None)) for series, rows in starts)
        return self.refit(replace(panel, series=series))

    @property
    def as_tested(self) -> ForecastModel:
        """The model to test from past origins."""
        return RefittedForecaster(self) if self.is_refitted else self

    @abstractmethod
    def open_panel(self, data: DataLike | Panel | None, date_format: str | None = None) -> Panel:
        """Return the series of some data, by default those in the model folder."""

    def backtest(
        self,
        data: DataLike | Panel | None = None,
        *,
        n_windows: int | None = None,
        step_size: int | None = None,
        h: int | None = None,
        level: Sequence[float] = (80, 95),
        season: int | None = None,
        intervals: str | None = None,
        earlier_windows: int | None = None,
        unseen: int | None = None,
        date_format: str | None = None,
        progress: Progress | None = None,
    ) -> Backtest:
        """Forecast from `n_windows` past origins, `step_size` rows apart, and compare with baselines.

        By default there are 8 of them, fewer if the series are too short. See `series.backtest` for
        `intervals` and `earlier_windows`. `unseen` is the number of rows at the end of every series that did
        not train the model; by default, those that are not among its training rows.
        """
        panel = self.open_panel(data, date_format)
        unseen = self.unseen(panel) if unseen is None and not self.is_refitted else unseen
        longest = max(map(len, panel.series))
        timeline = self.config.timeline
        same_split = timeline.cuts(longest) and timeline.unseen(panel) == unseen
        return backtest(
            self.as_tested,
            self.clean(panel),
            self.horizon if h is None else h,
            n_windows=n_windows,
            step_size=step_size,
            levels=sorted(set(level)),
            intervals=intervals or (CONFORMAL if self.config.intervals == "conformal" else AUTO),
            earlier_windows=earlier_windows,
            season=season or self.config.season,
            unseen=unseen,
            fitting=self.select_training_rows(panel) if same_split else None,
            progress=progress,
        )

    def k_steps(
        self,
        data: DataLike | Panel | None = None,
        steps: Sequence[int] = (1, 4, 16, 64),
        split: str = "heldout",
        progress: Progress | None = None,
    ) -> KSteps:
        """Forecast every row k steps ahead for each k of `steps`, and measure the errors on a split.

        For other data than the training data, pass split="all". Errors are measured on the rows of each
        series that have a value and a prediction for every k, so that all k are compared on the same rows.
        Beyond one step a recursive model reads its own forecasts; a direct model can forecast no further than
        its horizon.
        """
        chosen, lookback = tuple(sorted(set(steps))), self.lookback
        if not chosen or chosen[0] < 1:
            raise InputError(
                "k_steps", f"are {tuple(steps)}, expected numbers of 1 or more, such as 1, 4, 16"
            )
        if not self.recursive and chosen[-1] > self.horizon:
            raise InputError(
                "k_steps",
                f"has {chosen[-1]}, but the model was trained for the next {self.horizon} rows at once; "
                f"ask for fewer, or train with horizon={chosen[-1]} or strategy=recursive",
            )
        panel = self.open_panel(data)
        whole = [range(len(series)) for series in panel.series]
        tested = whole if split == "all" else self.config.timeline.part_of_each(split, panel)
        predictions = [{step: np.full(len(series), np.nan) for step in chosen} for series in panel.series]
        arrays, scales = self.scaled_arrays(panel)
        for step in chosen:
            windows = PanelWindows(arrays, whole, lookback, step)
            if not len(windows):
                longest = max(map(len, panel.series))
                raise InputError(
                    "k_steps", f"has {step}, too many for {longest:,} rows and a look-back of {lookback}"
                )
            for batch in forecast_windows(self, windows, progress):
                rows = batch.starts + lookback + step - 1
                for number, mine in batch.by_series():
                    values = scales[number].undo(batch.forecast[-1, mine])
                    predictions[number][step][rows[mine] - arrays.offsets[number]] = values
        return KSteps.measure(chosen, panel, predictions, tested)

    def unseen(self, panel: Panel) -> int | None:
        """Return how many rows at the end of every series did not train the model; None if unknown."""
        seen = self.seen
        return None if seen is None else min(map(seen.count_after, hash_panel(panel)))

    def select_training_rows(self, panel: Panel) -> Fitting:
        """Return the training and validation rows of the model, for baselines."""
        return Fitting.of(panel, self.config.timeline, [self.power(series) for series in panel.series])
