"""A forecaster judged: the errors of every window, beside those of naive forecasts of the same windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from throughtime.data.batching.panel import PanelWindows
from throughtime.data.readers.panel import panel_of
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
    for one in judged_windows(forecaster, windows, progress):
        for name, said in {forecaster.name: one.forecast, **_naive(windows, one, config.season)}.items():
            own = one.own_errors(said, scales)
            sums[name] = sums.get(name, 0) + _sums(said - one.true, own, one.weights)
    figures = {
        name: dict(zip(FIGURES, (found[:-1] / found[-1]).tolist(), strict=True))
        for name, found in sums.items()
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
    ]
    return Report(values, how, "\n".join(lines))


def _naive(windows: PanelWindows, one: JudgedWindows, season: int | None) -> dict[str, Array]:
    """The last value, and the last season, as forecasts of the same windows."""
    values, steps = windows.arrays.values.astype(np.float64), np.arange(windows.horizon)[:, None]
    origins = one.starts + windows.lookback
    found = {"naive": np.broadcast_to(values[origins - 1], one.true.shape)}
    if season:
        begins = windows.arrays.offsets[one.series]
        found["seasonal-naive"] = values[np.maximum(origins - season + steps % season, begins)]
    return found


def _sums(scaled: Array, own: Array, weights: Array) -> Array:
    scaled, own = scaled * weights, own * weights
    return np.array([(scaled**2).sum(), abs(scaled).sum(), (own**2).sum(), abs(own).sum(), weights.sum()])


def _line(name: str, found: dict[str, float]) -> str:
    scaled = f"mse {found['mse']:.4f}  mae {found['mae']:.4f}"
    own = f"rmse {found['mse_original'] ** 0.5:.4g}, mae {found['mae_original']:.4g}"
    return f"  {name:<16} {scaled}   in their own units: {own}"
