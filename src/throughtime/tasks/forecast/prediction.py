"""Forecasts of a trained network: scaled windows in; means, quantiles and paths in original units out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.data.batching.series import PanelArrays, PanelBatch, PanelBatches, PanelWindows
from throughtime.errors import InputError
from throughtime.layers.devices import matmul_precision
from throughtime.results import Forecast, Progress
from throughtime.series.protocol import ForecastQuery
from throughtime.series.scaling import Scale, unscale_forecasts
from throughtime.tasks.forecast.inputs import future_columns
from throughtime.tasks.forecast.network import Forecaster
from throughtime.tasks.forecast.networks import Window

if TYPE_CHECKING:
    from throughtime.tasks.forecast.predictor import SeriesForecaster

Array = NDArray[np.float64]
ROWS_AT_ONCE = 4_096
"""Number of series, or of paths of some series, that go through the model together."""
WINDOWS_AT_ONCE = 1_024


@torch.no_grad()
def predict_panel(forecaster: SeriesForecaster, query: ForecastQuery) -> list[Forecast]:
    """Forecast the next rows of each series of a panel."""
    panel, h, probabilities, paths = query.panel, query.h, query.probabilities, query.paths
    model, config = forecaster.model.eval(), forecaster.config
    if h < 1:
        raise InputError("h", f"is {h}, expected 1 or more")
    arrays, scales = forecaster.scaled_arrays(panel)
    columns = []
    for one in panel.series:
        if len(one) < model.lookback:
            problem = f"has {len(one):,} rows, a forecast looks back on {model.lookback}; give more rows"
            raise InputError(f"series {one.unique_id!r}", problem)
        ds = panel.after(one, h if model.recursive else max(h, model.horizon))
        known = future_columns(one, ds, h, config.known, query.future)
        columns.append(forecaster.scaling.columns(known, ds).astype(np.float32))
    from_paths = model.recursive and model.head.probabilistic and probabilities
    num_paths = max(paths, config.paths if from_paths else 0)
    seed = config.seed if query.seed is None else query.seed
    generator = torch.Generator(forecaster.device).manual_seed(seed)
    forecasts: list[Forecast] = []
    at_once = max(1, ROWS_AT_ONCE // max(1, num_paths))
    with matmul_precision("float32"):
        for first in range(0, len(panel.series), at_once):
            chosen = slice(first, first + at_once)
            window = last_window(arrays, model.lookback, columns, chosen, forecaster.device)
            mean, quantiles, samples = predict_window(model, window, h, probabilities, num_paths, generator)
            forecasts += unscale_forecasts(
                [one.unique_id for one in panel.series[chosen]],
                scales[chosen],
                to_array(mean),
                {p: to_array(values) for p, values in zip(probabilities, quantiles, strict=False)},
                None if samples is None or not paths else to_array(samples[:, :, :paths]),
                [panel.after(one, h) for one in panel.series[chosen]],
            )
    return forecasts


def predict_window(
    model: Forecaster,
    window: Window,
    h: int,
    probabilities: Sequence[float],
    num_paths: int,
    generator: torch.Generator,
) -> tuple[Tensor, Sequence[Tensor] | Tensor, Tensor | None]:
    """Return means [h, B], quantiles [probabilities, h, B] if the head has them, and paths [h, B, paths]."""
    head, samples = model.head, None
    mean = model.rollout(window, h, head.mean)
    if num_paths:
        rows = model.rollout(
            window.repeat(num_paths), h, lambda outputs: head.draw(outputs.float(), generator)
        )
        samples = rows.unflatten(1, (-1, num_paths))
    if not (probabilities and head.probabilistic):
        return mean, (), samples
    if samples is not None and model.recursive:
        points = torch.tensor(probabilities, dtype=samples.dtype, device=samples.device)
        return mean, torch.quantile(samples, points, dim=2), samples
    _, outputs, level = model.forward(window)
    return mean, level.restore(head.quantiles(outputs.float(), probabilities))[:, :h], samples


def last_window(
    arrays: PanelArrays,
    lookback: int,
    future: Sequence[NDArray[np.float32]],
    chosen: slice,
    device: torch.device,
) -> Window:
    """Return the last rows of the chosen series, with the known columns of the rows to forecast."""
    rows = arrays.offsets[1:][chosen] + np.arange(-lookback, 0)[:, None]
    known = np.concatenate([arrays.known[rows], np.stack(future[chosen], axis=1)])
    parts = (arrays.values[rows], known, arrays.past[rows], arrays.numbers[chosen])
    return Window(*(torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in parts))


class WindowForecasts(NamedTuple):
    """The forecasts of a batch of windows beside the true values, all scaled."""

    series: NDArray[np.int64]  # [B]: the number of the series
    starts: NDArray[np.int64]  # [B]
    true: Array  # [h, B]
    forecast: Array  # [h, B]
    weights: Array  # [h, B]: 1 for an observed value, else 0

    def own_errors(self, forecast: Array, scales: Sequence[Scale]) -> Array:
        """Return the errors of a forecast [h, B] in the original units of the series."""
        errors = np.empty_like(forecast)
        for number in np.unique(self.series):
            mine, scale = self.series == number, scales[number]
            errors[:, mine] = scale.undo(forecast[:, mine]) - scale.undo(self.true[:, mine])
        return errors


@torch.no_grad()
def forecast_windows(
    forecaster: SeriesForecaster, windows: PanelWindows, progress: Progress | None = None
) -> Iterator[WindowForecasts]:
    """Yield the mean forecast of each window beside the true values, batch by batch."""
    model, last = forecaster.model.eval(), slice(-windows.horizon, None)
    batches = PanelBatches(windows, WINDOWS_AT_ONCE, shuffle=False)
    with matmul_precision("float32"):
        for number, batch in enumerate(batches, start=1):
            batch = batch.to(forecaster.device)
            mean = model.rollout(window_of(batch), windows.horizon, model.head.mean)
            rows = batch.indices.cpu().numpy()
            values = (to_array(each) for each in (batch.values[last], mean, batch.weights[last]))
            yield WindowForecasts(windows.series[rows], windows.starts[rows], *values)
            if progress is not None:
                progress(number, len(batches.plan()))


def window_of(batch: PanelBatch) -> Window:
    """Return the part of a batch that a forecaster reads."""
    return Window(batch.values, batch.known, batch.past, batch.numbers)


def to_array(values: Tensor) -> Array:
    """Convert a tensor to an array of float64."""
    return values.double().cpu().numpy()
