"""A forecaster judged: the errors of every window, beside those of naive forecasts of the same windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from throughtime.data.batching.panel import PanelWindows
from throughtime.data.readers.panel import panel_of
from throughtime.models.naive import repeated_rows
from throughtime.tasks.judged_windows import JudgedWindows, judged_windows, windows_of
from throughtime.tasks.report import Progress, Report

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.trained_forecaster import TrainedForecaster

Array = NDArray[np.float64]
FIGURES = ("mse", "mae", "mse_original", "mae_original")


def report_of(
    forecaster: TrainedForecaster, dataset: Dataset, split: str, progress: Progress | None = None
) -> Report:
    """Means over all windows, rows and series, of scaled values and in the series' own units."""
    model, config = forecaster.model, forecaster.config
    panel = panel_of(dataset, config.roles)
    windows, scales = windows_of(forecaster, panel, split, model.horizon)
    sums: dict[str, Array] = {}
    rules = {"naive": 1, **({"seasonal-naive": config.season} if config.season else {})}
    without: set[str] = set()
    for one in judged_windows(forecaster, windows, progress):
        naive = {name: _repeated(windows, one, season) for name, season in rules.items()}
        without |= {name for name, said in naive.items() if np.isnan(said[one.weights > 0]).any()}
        for name, said in {forecaster.name: one.forecast, **naive}.items():
            own = one.own_errors(said, scales)
            sums[name] = sums.get(name, 0) + _sums(said - one.true, own, one.weights)
    figures = {
        name: dict(zip(FIGURES, (found[:-1] / found[-1]).tolist(), strict=True))
        for name, found in sums.items()
        if name not in without
    }
    values = {
        **figures[forecaster.name],
        "baselines": {name: found for name, found in figures.items() if name != forecaster.name},
        "windows": len(windows),
        "series": len(panel.series),
        "horizon": model.horizon,
    }
    how = [
        f"model:{forecaster.name}",
        f"lookback:{model.lookback}",
        f"horizon:{model.horizon}",
        *([] if config.transform == "none" else [f"transform:{config.transform}"]),
        f"scaling:{config.scaling}",
        f"device:{forecaster.device.type}",
        "precision:float32",
    ]
    lines = [
        f"{dataset.name}, {split}: mse [bold]{values['mse']:.4f}[/bold], mae {values['mae']:.4f}, scaled,",
        f"over {len(windows):,} windows of {model.horizon} rows after {model.lookback}",
        *(_line(name, found) for name, found in figures.items()),
        *(f"  {name:<16} none: some windows have nothing observed to repeat" for name in sorted(without)),
    ]
    return Report(values, how, "\n".join(lines))


def _repeated(windows: PanelWindows, one: JudgedWindows, season: int) -> Array:
    """The last season, or of a season of 1 the last value, [h, B]; NaN where nothing was observed.

    Gaps in the arrays are filled with the row before, for the model: they are no part of a season.
    """
    arrays, found = windows.arrays, np.full(one.true.shape, np.nan)
    for number in np.unique(one.series):
        begin, end = arrays.offsets[number : number + 2]
        mine = one.series == number
        origins = one.starts[mine] + windows.lookback - begin
        rows = repeated_rows(arrays.observed[begin:end], origins, windows.horizon, season)
        found[:, mine] = np.where(rows < 0, np.nan, arrays.values[begin:end][rows])
    return found


def _sums(scaled: Array, own: Array, weights: Array) -> Array:
    # What does not count may be NaN in what is repeated.
    scaled, own = (np.where(weights > 0, errors, 0.0) for errors in (scaled, own))
    return np.array([(scaled**2).sum(), abs(scaled).sum(), (own**2).sum(), abs(own).sum(), weights.sum()])


def _line(name: str, found: dict[str, float]) -> str:
    scaled = f"mse {found['mse']:.4f}  mae {found['mae']:.4f}"
    own = f"rmse {found['mse_original'] ** 0.5:.4g}, mae {found['mae_original']:.4g}"
    return f"  {name:<16} {scaled}   in their own units: {own}"
