"""Forecasts of short series without a network: a mixture for each series, and the scale that suits it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Panel, Series
from throughtime.series.mixtures import MIN_ROWS, Mixture, mix_forecasts
from throughtime.series.panels import PanelScaling
from throughtime.series.scaling import Scale, Transform, fill_gaps

Array = NDArray[np.float64]
MAX_ROWS = 2_000
"""Older rows are not read."""
LESS = 0.95
"""Logarithms are taken where they lower the error on rolling origins by more than this factor."""
SHOWN = 4
"""Forecasts that a description names."""
DEGREES, WIDER = 6.0, 1.1
"""Errors have Student's t distribution; they are larger than those of the origins that chose the weights."""


@dataclass(frozen=True, eq=False)
class ShortForecasts:
    """The maps of series, [series, rows, horizon], and the squared errors to expect [series, horizon]."""

    maps: Array
    squares: Array
    description: str

    def draw_errors(self, count: int = 999) -> Array:
        """Return evenly spread errors [series, horizon, count]: quantiles of Student's t distribution."""
        points = np.sinh(np.linspace(-8, 8, 20_001))
        density = (1 + points**2 / DEGREES) ** (-(DEGREES + 1) / 2)
        areas = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(points))])
        quantiles = np.interp((np.arange(count) + 0.5) / count, areas / areas[-1], points)
        return np.asarray(WIDER * np.sqrt(self.squares)[..., None] * quantiles)


def fit_short(
    panel: Panel,
    season: int,
    horizon: int,
    measure: Callable[[Panel, Transform], PanelScaling],
    transform: Transform | None = None,
) -> tuple[PanelScaling, ShortForecasts]:
    """Find the scale and the mixture of each series; without a `transform`, logarithms are tried, too.

    `measure` returns the scales of some series. Outliers are not read.
    """
    scaling = measure(panel, transform or "none")
    panel = scaling.clean(panel)
    mixtures = _mix(panel, season, horizon, scaling)
    positive = [series for series in panel.series if np.nanmin(series.y) > 0 and len(series) >= MIN_ROWS]
    logged = 0
    if transform is None and positive:
        some = replace(panel, series=tuple(positive))
        other = measure(some, "log")
        found = dict(zip(some.names, _mix(some, season, horizon, other), strict=True))
        for number, series in enumerate(panel.series):
            mixture, scales = found.get(series.unique_id), (scaling, other)
            if mixture is None:
                continue
            plain, log = (
                _error(series, each, scale.series[series.unique_id])
                for each, scale in zip((mixtures[number], mixture), scales, strict=True)
            )
            if log < LESS * plain:
                logged += 1
                mixtures[number] = mixture
                scaling.series[series.unique_id] = other.series[series.unique_id]
    rows = max(len(each.map) for each in mixtures)
    maps = np.zeros((len(mixtures), rows, horizon))
    for number, mixture in enumerate(mixtures):
        maps[number, rows - len(mixture.map) :] = mixture.map
    squares = np.stack([mixture.squares for mixture in mixtures])
    return scaling, ShortForecasts(maps, squares, _describe(mixtures, logged))


def _mix(panel: Panel, season: int, horizon: int, scaling: PanelScaling) -> list[Mixture]:
    values = [
        fill_gaps(scaling.series[series.unique_id].apply(series.y))[-MAX_ROWS:] for series in panel.series
    ]
    return mix_forecasts(values, season, horizon)


def _error(series: Series, mixture: Mixture, scale: Scale) -> float:
    """The mean absolute error on rolling origins, in original units."""
    rows, offs = series.y[-len(mixture.map) :], list[Array]()
    for origin, errors in zip(mixture.origins, mixture.errors, strict=True):
        true = rows[origin : origin + len(errors)]
        offs.append(true - scale.undo(scale.apply(true) - errors))
    return float(np.nanmean(abs(np.concatenate(offs))))


def _describe(mixtures: Sequence[Mixture], logged: int) -> str:
    """Say what the mean of the forecasts consists of, over all series."""
    few = sum(not mixture.origins for mixture in mixtures)
    each = "" if len(mixtures) == 1 else " of each series"
    note = f"No network: with fewer than {MIN_ROWS} rows, the last value is repeated"
    if few == len(mixtures):
        return f"{note}; its errors one row ahead give the intervals."
    shares: dict[str, float] = {}
    for mixture in mixtures:
        for name, share in mixture.shares.items():
            shares[name] = shares.get(name, 0.0) + share / len(mixtures)
    ranked = sorted(shares.items(), key=lambda pair: -pair[1])
    named = ", ".join(f"{share:.0%} {name}" for name, share in ranked[:SHOWN])
    rest = 1 - sum(share for _, share in ranked[:SHOWN])
    others = f", {rest:.0%} others" if rest > 0.005 else ""
    origins = max(len(mixture.origins) for mixture in mixtures)
    scale = " of logarithms" if logged and not each else ""
    text = (
        f"A mean of simple forecasts{scale}{each}, chosen by {origins} rolling origins and fitted to all "
        f"rows: {named}{others}. No network: there are too few rows for one. Errors on held-out rows are "
        "those of a fit to the rows before them."
    )
    return (
        text
        + (f" Logarithms in {logged:,} of {len(mixtures):,} series." if logged and each else "")
        + (f" {few:,} series with fewer than {MIN_ROWS} rows repeat their last value." if few else "")
    )
