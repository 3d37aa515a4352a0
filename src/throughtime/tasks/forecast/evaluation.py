"""Evaluate a forecaster: with baselines on all windows of a split, and k steps ahead of every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from throughtime.data.batching.series import PanelWindows
from throughtime.data.panel import Panel, Series
from throughtime.data.readers.panel import read_series_panel
from throughtime.errors import InputError
from throughtime.results import Evaluation
from throughtime.series.baselines import repeated_rows
from throughtime.series.figures import beaten_by, loss_sentences
from throughtime.series.ridge import NAME as RIDGE
from throughtime.series.ridge import RidgeBaseline
from throughtime.series.scaling import Scale
from throughtime.tasks.base import Progress
from throughtime.tasks.forecast.prediction import WindowForecasts, forecast_windows
from throughtime.text.texts import align_columns, format_count

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.forecast.predictor import SeriesForecaster

Array = NDArray[np.float64]
FIGURES = ("mse", "mae", "mse_original", "mae_original")


def evaluate_windows(
    forecaster: SeriesForecaster, dataset: Dataset, split: str, progress: Progress | None = None
) -> Evaluation:
    """Average errors over all windows, rows and series, of scaled values and in original units."""
    model, config = forecaster.model, forecaster.config
    panel = read_series_panel(dataset, config.roles)
    windows, scales = _build_windows(forecaster, panel, split, model.horizon)
    sums: dict[str, Array] = {}
    rules = {"naive": 1, **({"seasonal-naive": config.season} if config.season else {})}
    left_out: dict[str, str] = {}
    ridge: RidgeBaseline | None = None
    try:
        ridge = RidgeBaseline.fit(panel, model.horizon, forecaster.select_training_rows(panel))
    except InputError as error:
        left_out[RIDGE] = f"{error.where} {error.problem}"
    for one in forecast_windows(forecaster, windows, progress):
        baselines = {name: _repeat_season(windows, one, season) for name, season in rules.items()}
        lacking = [name for name, forecast in baselines.items() if np.isnan(forecast[one.weights > 0]).any()]
        left_out |= dict.fromkeys(lacking, "some windows have nothing observed to repeat")
        if ridge is not None:
            baselines[ridge.name] = _ridge_forecasts(ridge, panel, windows, one, scales)
        for name, forecast in {forecaster.name: one.forecast, **baselines}.items():
            own = one.own_errors(forecast, scales)
            sums[name] = sums.get(name, 0) + _sums(forecast - one.true, own, one.weights)
    figures = {
        name: dict(zip(FIGURES, (found[:-1] / found[-1]).tolist(), strict=True))
        for name, found in sums.items()
        if name not in left_out
    }
    model_figures = figures[forecaster.name]
    baseline_figures = {name: found for name, found in figures.items() if name != forecaster.name}
    beaten = beaten_by(model_figures, baseline_figures, ("mse", "mae"))
    values = {
        **model_figures,
        "baselines": baseline_figures,
        "left_out": left_out,
        "beaten_by": beaten,
        "windows": len(windows),
        "series": len(panel.series),
        "horizon": model.horizon,
    }
    signature = [
        f"model:{forecaster.name}",
        f"lookback:{model.lookback}",
        f"horizon:{model.horizon}",
        *([] if config.transform == "none" else [f"transform:{config.transform}"]),
        f"scaling:{config.scaling}",
        f"device:{forecaster.device.type}",
        "precision:float32",
    ]
    lines = [
        f"mse {values['mse']:.4f}, mae {values['mae']:.4f}, scaled,",
        f"over {len(windows):,} windows of {model.horizon} rows after {model.lookback}",
        *(_line(name, found) for name, found in figures.items()),
        *(f"  {name:<16} none: {why}" for name, why in sorted(left_out.items())),
        *loss_sentences(forecaster.name, model_figures, baseline_figures, beaten),
    ]
    return Evaluation(values, "|".join(signature), "\n".join(lines))


def _build_windows(
    forecaster: SeriesForecaster, panel: Panel, split: str, horizon: int
) -> tuple[PanelWindows, list[Scale]]:
    """Return all windows of a split, and the scale of each series."""
    config, lookback = forecaster.config, forecaster.lookback
    parts, training = (config.timeline.part_of_each(each, panel) for each in (split, "train"))
    forecaster.scaling.adopt(panel, training)
    arrays, scales = forecaster.scaled_arrays(panel)
    found = PanelWindows(arrays, parts, lookback, horizon)
    if not len(found):
        longest = max(len(part) for part in parts)
        raise InputError(
            f"split {split}", f"has {longest:,} rows, too few for a horizon of {horizon} after {lookback}"
        )
    return found, scales


def _repeat_season(windows: PanelWindows, one: WindowForecasts, season: int) -> Array:
    """The last season, or the last value for a season of 1, [h, B]; NaN if nothing was observed.

    The arrays have filled gaps, for the model; only observed rows are repeated here.
    """
    arrays, found = windows.arrays, np.full(one.true.shape, np.nan)
    for number in np.unique(one.series):
        begin, end = arrays.offsets[number : number + 2]
        mine = one.series == number
        origins = one.starts[mine] + windows.lookback - begin
        rows = repeated_rows(arrays.observed[begin:end], origins, windows.horizon, season)
        found[:, mine] = np.where(rows < 0, np.nan, arrays.values[begin:end][rows])
    return found


def _ridge_forecasts(
    ridge: RidgeBaseline,
    panel: Panel,
    windows: PanelWindows,
    one: WindowForecasts,
    scales: Sequence[Scale],
) -> Array:
    """The forecasts of ridge regression for each window, [h, B], on the scale of the model."""
    found = np.empty(one.true.shape)
    for number in np.unique(one.series):
        series, mine = panel.series[number], one.series == number
        origins = one.starts[mine] + windows.lookback - windows.arrays.offsets[number]
        standard, scale = ridge.scales[series.unique_id], scales[number]
        forecast = ridge.forecast_from(series, origins).T
        # Both scales have the same power, so one is a linear function of the other.
        found[:, mine] = (forecast * standard.spread + standard.centre - scale.centre) / scale.spread
    return found


def _sums(scaled: Array, own: Array, weights: Array) -> Array:
    # Baselines may be NaN in rows that do not count.
    scaled, own = (np.where(weights > 0, errors, 0.0) for errors in (scaled, own))
    return np.array([(scaled**2).sum(), abs(scaled).sum(), (own**2).sum(), abs(own).sum(), weights.sum()])


def _line(name: str, found: dict[str, float]) -> str:
    scaled = f"mse {found['mse']:.4f}  mae {found['mae']:.4f}"
    own = f"rmse {found['mse_original'] ** 0.5:.4g}, mae {found['mae_original']:.4g}"
    return f"  {name:<16} {scaled}   in original units: {own}"


@dataclass(frozen=True, eq=False)
class SeriesKSteps:
    """The predictions for each row of one series, by k, in its own units; NaN where there is none."""

    series: Series
    predictions: dict[int, Array]  # k to [T]
    tested: range  # the rows whose errors are measured
    rmse: dict[int, float]  # NaN if no tested row has a prediction for every k


@dataclass(frozen=True, eq=False)
class KSteps:
    """k-step-ahead predictions of all series, and their root mean squared error for each k."""

    steps: tuple[int, ...]
    rmse: dict[int, float]
    rows: int  # number of rows whose errors are counted, the same for each k
    series: tuple[SeriesKSteps, ...]

    def __str__(self) -> str:
        """The errors as text, one line for each k."""
        rows = [["k", "RMSE"], *([str(step), f"{error:,.4g}"] for step, error in self.rmse.items())]
        return "\n".join([f"errors over {format_count(self.rows, 'row')}", *align_columns(rows)])

    def to_dict(self) -> dict[str, Any]:
        """Return the errors as values for JSON."""
        return {
            "k_steps": list(self.steps),
            "rmse": {str(step): error for step, error in self.rmse.items()},
            "rows": self.rows,
            "by_series": {
                one.series.unique_id: {str(step): error for step, error in one.rmse.items()}
                for one in self.series
            },
        }


def predict_k_steps(
    forecaster: SeriesForecaster,
    panel: Panel,
    steps: Sequence[int],
    tested: Sequence[range],
    progress: Progress | None = None,
) -> KSteps:
    """Forecast every row `k` steps ahead, for each k of `steps`.

    Errors are measured on the `tested` rows of each series that have a value and a prediction for every k, so
    that all k are compared on the same rows. Beyond one step a recursive model reads its own forecasts; a
    direct model can forecast no further than its horizon.
    """
    chosen, lookback, model = tuple(sorted(set(steps))), forecaster.lookback, forecaster.model
    if not chosen or chosen[0] < 1:
        raise InputError("k_steps", f"are {tuple(steps)}, expected numbers of 1 or more, such as 1, 4, 16")
    if not model.recursive and chosen[-1] > model.horizon:
        raise InputError(
            "k_steps",
            f"has {chosen[-1]}, but the model was trained for the next {model.horizon} rows at once; ask "
            f"for fewer, or train with horizon={chosen[-1]} or strategy=recursive",
        )
    found = [{step: np.full(len(one), np.nan) for step in chosen} for one in panel.series]
    arrays, scales = forecaster.scaled_arrays(panel)
    for step in chosen:
        windows = PanelWindows(arrays, [range(len(one)) for one in panel.series], lookback, step)
        if not len(windows):
            longest = max(len(one) for one in panel.series)
            raise InputError(
                "k_steps", f"has {step}, too many for {longest:,} rows and a look-back of {lookback}"
            )
        for one in forecast_windows(forecaster, windows, progress):
            rows = one.starts + lookback + step - 1
            for number in np.unique(one.series):
                mine = one.series == number
                own = scales[number].undo(one.forecast[-1, mine])
                found[number][step][rows[mine] - arrays.offsets[number]] = own
    return _measure(chosen, panel, found, tested)


def _measure(
    steps: tuple[int, ...], panel: Panel, found: list[dict[int, Array]], tested: Sequence[range]
) -> KSteps:
    """Measure the errors on the tested rows that have a prediction for every k."""
    squared, rows = np.zeros(len(steps)), 0
    series = []
    for one, predictions, part in zip(panel.series, found, tested, strict=True):
        kept = slice(part.start, part.stop)
        errors = np.stack([predictions[step][kept] - one.y[kept] for step in steps])
        errors = errors[:, ~np.isnan(errors).any(axis=0)]
        own, count = (errors**2).sum(axis=1), errors.shape[1]
        series.append(SeriesKSteps(one, predictions, part, _roots(steps, own, count)))
        squared += own
        rows += count
    if not rows:
        raise InputError(
            "k_steps", f"has {steps[-1]}, but no tested row is that many rows after a look-back; choose fewer"
        )
    return KSteps(steps, _roots(steps, squared, rows), rows, tuple(series))


def _roots(steps: tuple[int, ...], squared: Array, rows: int) -> dict[int, float]:
    means = np.sqrt(squared / rows) if rows else np.full(len(steps), np.nan)
    return dict(zip(steps, means.tolist(), strict=True))
