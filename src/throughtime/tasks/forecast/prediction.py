"""Forecasts of a trained network: panels in; means, quantiles and paths in original units out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.data.batching.series import PanelArrays, PanelBatch, PanelBatches, PanelWindows
from throughtime.data.panel import Panel, Series, Times
from throughtime.errors import InputError, check_whole
from throughtime.interrupt import check_interrupt
from throughtime.layers.devices import matmul_precision
from throughtime.results import Forecast, Progress, format_times
from throughtime.runtime.forecast import History, read_histories
from throughtime.series.protocol import ForecastQuery
from throughtime.series.scaling import Scale, unscale_forecasts
from throughtime.tasks.forecast.network import Forecaster
from throughtime.tasks.forecast.window_networks import Window

if TYPE_CHECKING:
    from throughtime.tasks.forecast.config import ForecastConfig
    from throughtime.tasks.forecast.predictor import SeriesForecaster

Array = NDArray[np.float64]
ROWS_AT_ONCE = 4_096
"""Number of series, or of paths of some series, that go through the model together."""
WINDOWS_AT_ONCE = 1_024
PlainSeries = Mapping[str, Sequence[float]] | Sequence[History]
"""Values by series name, oldest first; or a list of `History`, which can hold further columns."""


def build_panels(
    given: Mapping[str, Any] | Sequence[Any], known: tuple[str, ...], past: tuple[str, ...]
) -> tuple[Panel, Panel | None]:
    """Return the series, and a panel of their known columns that includes the rows to forecast.

    Times are positions, starting at 0. `known` and `past` are the columns that the model reads.

    >>> panel, future = build_panels([History("shop", [3.0, 1.0], known=[[0], [1], [1]])], ("sale",), ())
    >>> panel.series[0].known.ravel(), future.series[0].ds
    (array([0., 1.]), array([0, 1, 2]))
    """
    series, future = [], []
    for one in read_histories(given):
        rows = len(one.y)
        ahead = one.columns("known", len(known), rows, known)
        before = one.columns("past", len(past), rows, past)[:rows]
        series.append(replace(Series.of(one.unique_id, one.y), known=ahead[:rows], past=before))
        future.append(replace(Series.of(one.unique_id, np.full(len(ahead), np.nan)), known=ahead))
    panel = Panel(tuple(series), None, known, past, undated=True)
    return panel, Panel(tuple(future), None, known, undated=True) if known else None


def future_columns(series: Series, ds: Times, h: int, names: Sequence[str], future: Panel | None) -> Array:
    """Return the known columns at the times `ds` after a series; the first `h` rows must be complete.

    If `future` has a single series, it is used for all.
    """
    known = np.full((len(ds), len(names)), np.nan)
    if not names:
        return known
    if future is None:
        raise InputError("future", f"is missing: the model needs {', '.join(names)} of the rows to forecast")
    given = future.series_by_name().get(series.unique_id)
    if given is None and len(future.series) == 1:
        given = future.series[0]
    if given is None:
        raise InputError("future", f"has no rows for series {series.unique_id!r}")
    _, here, there = np.intersect1d(ds, given.ds, return_indices=True)
    known[here] = given.known[there]
    absent = np.flatnonzero(np.isnan(known[:h]).any(axis=1))
    if len(absent):
        where = f"series {series.unique_id!r} at {format_times(ds)[absent[0]]}"
        raise InputError("future", f"lacks {', '.join(names)} for {where}")
    return known


@torch.no_grad()
def predict_panel(forecaster: SeriesForecaster, query: ForecastQuery) -> list[Forecast]:
    """Forecast the next rows of each series of a panel."""
    panel, h, probabilities, paths = query.panel, query.h, query.probabilities, query.paths
    model, config = forecaster.model.eval(), forecaster.config
    check_whole("h", h)
    arrays, scales = forecaster.scaled_arrays(panel)
    columns = []
    for one in panel.series:
        check_interrupt()
        if len(one) < model.lookback:
            problem = f"has {len(one):,} rows, but a forecast needs {model.lookback}; give more rows"
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
            check_interrupt()
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
            mean = model.rollout(build_window(batch), windows.horizon, model.head.mean)
            rows = batch.indices.cpu().numpy()
            values = (to_array(each) for each in (batch.values[last], mean, batch.weights[last]))
            yield WindowForecasts(windows.series[rows], windows.starts[rows], *values)
            if progress is not None:
                progress(number, len(batches.plan()))


def build_window(batch: PanelBatch) -> Window:
    """Return the part of a batch that a forecaster reads."""
    return Window(batch.values, batch.known, batch.past, batch.numbers)


def to_array(values: Tensor) -> Array:
    """Convert a tensor to an array of float64."""
    return values.double().cpu().numpy()


def describe_unusual_series(config: ForecastConfig, panel: Panel) -> list[str]:
    """Return sentences about series that are too short to be split, and about constant ones."""
    training = config.timeline.part_of_each("train", panel)
    short = [one.unique_id for one in panel.series if not config.timeline.cuts(len(one))]
    constant = [
        one.unique_id
        for one, rows in zip(panel.series, training, strict=True)
        if _constant(one.y[: rows.stop])
    ]
    notes = []
    if short:
        notes.append(f"Too short for valid_size and test_size, used for training only: {_join_names(short)}.")
    if constant:
        notes.append(f"Constant in the training rows, so not scaled: {_join_names(constant)}.")
    return notes


def _join_names(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def _constant(values: Array) -> bool:
    present = values[~np.isnan(values)]
    return bool(len(present) and (present == present[0]).all())
