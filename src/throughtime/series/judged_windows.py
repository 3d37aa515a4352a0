"""A forecaster against what came: every window of a split, forecast and compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from throughtime.data.batching.panel import PanelArrays, PanelBatches, PanelWindows
from throughtime.data.panel import Panel
from throughtime.data.scaling import SeriesScale
from throughtime.errors import InputError
from throughtime.layers.devices import matmul_precision
from throughtime.tasks.forecast.training import window_of
from throughtime.tasks.report import Progress

if TYPE_CHECKING:
    from throughtime.tasks.forecast.predictor import TrainedForecaster

Array = NDArray[np.float64]
WINDOWS_AT_ONCE = 1_024


class JudgedWindows(NamedTuple):
    """One batch of windows, scaled: the series of each, what came, what was forecast, and what counts."""

    series: NDArray[np.int64]  # [B]
    starts: NDArray[np.int64]  # [B]
    true: Array  # [h, B]
    forecast: Array  # [h, B]
    weights: Array  # [h, B]: 1 where a value was there, else 0

    def own_errors(self, forecast: Array, scales: Sequence[SeriesScale]) -> Array:
        """How far off a forecast [h, B] is in the series' own units."""
        errors = np.empty_like(forecast)
        for number in np.unique(self.series):
            mine, scale = self.series == number, scales[number]
            errors[:, mine] = scale.undone(forecast[:, mine]) - scale.undone(self.true[:, mine])
        return errors


def scaled_arrays(forecaster: TrainedForecaster, panel: Panel) -> tuple[PanelArrays, list[SeriesScale]]:
    """The series scaled for the model, and the scale of each."""
    forecaster.check(panel)
    config, scaling = forecaster.config, forecaster.scaling
    scales = [scaling.scale(one, config.scaling, config.transform) for one in panel.series]
    return scaling.arrays(panel, scales), scales


def windows_of(
    forecaster: TrainedForecaster, panel: Panel, split: str, horizon: int
) -> tuple[PanelWindows, list[SeriesScale]]:
    """All windows of a split, and the scale of each series."""
    config, model, scaling = forecaster.config, forecaster.model, forecaster.scaling
    lengths = [len(one) for one in panel.series]
    parts, training = (config.timeline.part_of_each(each, lengths) for each in (split, "train"))
    names = [one.unique_id for one in panel.series]
    scaling.adopt(panel, dict(zip(names, training, strict=True)), config.scaling, config.transform)
    arrays, scales = scaled_arrays(forecaster, panel)
    found = PanelWindows(arrays, parts, model.lookback, horizon)
    if not len(found):
        rows = max(len(part) for part in parts)
        raise InputError(
            f"split {split}",
            f"has {rows:,} rows, too few for a horizon of {horizon} after {model.lookback}",
        )
    return found, scales


@torch.no_grad()
def judged_windows(
    forecaster: TrainedForecaster, windows: PanelWindows, progress: Progress | None = None
) -> Iterator[JudgedWindows]:
    """The mean forecast of each window beside what came, batch by batch."""
    model = forecaster.model.eval()
    batches = PanelBatches(windows, WINDOWS_AT_ONCE, shuffle=False)
    with matmul_precision("float32"):
        for number, batch in enumerate(batches, start=1):
            batch = batch.to(forecaster.device)
            mean = model.rollout(window_of(batch), windows.horizon, model.head.mean)
            last = slice(-windows.horizon, None)
            true, forecast, weights = (
                each.double().cpu().numpy() for each in (batch.values[last], mean, batch.weights[last])
            )
            indices = batch.indices.cpu().numpy()
            yield JudgedWindows(windows.series[indices], windows.starts[indices], true, forecast, weights)
            if progress is not None:
                progress(number, len(batches.plan()))
