"""A forecaster asked once: the last rows of its series in, means, quantiles and paths out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.data.batching.series import PanelArrays
from throughtime.data.panel import Panel, Series, Times, format_times
from throughtime.errors import InputError
from throughtime.series.protocol import Forecast
from throughtime.series.scaling import SeriesScale
from throughtime.tasks.forecast.network import Forecaster
from throughtime.tasks.forecast.networks import Window

Columns = NDArray[np.float64]


class Answer(NamedTuple):
    """What a model says of B series, scaled."""

    mean: Tensor  # [h, B]
    probabilities: tuple[float, ...]
    quantiles: Tensor | None  # [probabilities, h, B]
    samples: Tensor | None  # [h, B, paths]

    def forecast(self, place: int, series: Series, ds: Times, scale: SeriesScale) -> Forecast:
        """What is said of one of them, in its own units."""

        def own(values: Tensor) -> Columns:
            return scale.undone(values.double().cpu().numpy())

        quantiles = {}
        if self.quantiles is not None:
            found = own(self.quantiles[:, :, place])
            quantiles = dict(zip(self.probabilities, found, strict=True))
        samples = None if self.samples is None else own(self.samples[:, place].T)
        return Forecast(series.unique_id, ds, own(self.mean[:, place]), quantiles, samples, scale.power)


def answered(
    model: Forecaster,
    window: Window,
    h: int,
    probabilities: Sequence[float],
    paths: int,
    drawn: int,
    generator: torch.Generator,
) -> Answer:
    """The next `h` rows; of the `drawn` ways in which they may go, `paths` are handed on."""
    head = model.head
    mean = model.rollout(window, h, head.mean)
    samples = quantiles = None
    if drawn:
        repeated = model.rollout(window.repeated(drawn), h, lambda said: head.draw(said.float(), generator))
        samples = repeated.unflatten(1, (-1, drawn))  # [h, B, paths]
    if probabilities and head.probabilistic and samples is not None and model.recursive:
        points = torch.tensor(probabilities, dtype=samples.dtype, device=samples.device)
        quantiles = torch.quantile(samples, points, dim=2)
    elif probabilities and head.probabilistic:
        _, said, level = model.said(window)
        quantiles = level.given_back(head.quantiles(said.float(), probabilities))[:, :h]
    kept = samples[:, :, :paths] if paths and samples is not None else None
    return Answer(mean, tuple(probabilities), quantiles, kept)


def last_window(
    arrays: PanelArrays,
    chosen: Sequence[int],
    lookback: int,
    future: Sequence[NDArray[np.float32]],
    device: torch.device,
) -> Window:
    """The last rows of some series, side by side, and what is known of those to come."""
    ends = arrays.offsets[1:][list(chosen)]
    places = ends + np.arange(-lookback, 0)[:, None]
    known = np.concatenate([arrays.known[places], np.stack([future[each] for each in chosen], axis=1)])
    made = (arrays.values[places], known, arrays.past[places], arrays.numbers[list(chosen)])
    return Window(*(torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in made))


def coming(series: Series, ds: Times, h: int, names: Sequence[str], future: Panel | None) -> Columns:
    """The columns that are known of the times `ds` to come; the first `h` must all be there."""
    known = np.full((len(ds), len(names)), np.nan)
    if not names:
        return known
    if future is None:
        problem = f"is missing: the model needs {', '.join(names)} of the rows to forecast"
        raise InputError("future", problem)
    given = _of_series(future, series)
    _, here, there = np.intersect1d(ds, given.ds, return_indices=True)
    known[here] = given.known[there]
    absent = np.flatnonzero(np.isnan(known[:h]).any(axis=1))
    if len(absent):
        raise InputError(
            "future",
            f"lacks {', '.join(names)} of series {series.unique_id!r} at {format_times(ds)[absent[0]]}",
        )
    return known


def _of_series(future: Panel, series: Series) -> Series:
    """The rows of a series to come; a table that names no series holds for all."""
    found = future.by_name().get(series.unique_id)
    if found is None and len(future.series) == 1:
        found = future.series[0]
    if found is None:
        raise InputError("future", f"has no rows of series {series.unique_id!r}")
    return found
