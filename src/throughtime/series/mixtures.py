"""The mean of simple forecasts that suits a short series, and how far it will be off.

All forecasts are tried on rolling origins: their weights are estimated from the rows before an origin alone.
One part of the mean are the forms of smoothing, weighted by their likelihood and the number of their weights
(AICc); in the other part, a forecast counts by its errors on the origins. So does each part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from throughtime.cells.smoothing import ExponentialSmoothing
from throughtime.series.autoregressions import continue_series, fit_autoregression
from throughtime.series.linear_maps import last_season
from throughtime.series.smoothing import (
    FIRST_ROWS,
    FIRST_SEASONS,
    MAX_VALUES,
    Grid,
    Origin,
    build_grid,
    slope_weights,
    smooth,
)

Array = NDArray[np.float64]
MIN_ROWS = 12
"""Rows from which something can be chosen; fewer are forecast by their last value."""
MAX_ORIGINS = 8
POWER = 4
"""A forecast with twice the error of the best one has 1/16 of its weight."""
IN_SAMPLE = 0.25
"""The share of the errors one row ahead in the spread; the rest are errors on rolling origins."""
TINY = 1e-6
"""An error of scaled values below this is none."""
LENGTHS = 16
"""Series of more rows than this times a power of 2 are read from a multiple of it on, so that few lengths
are left."""
LAST, SEASON, LINE, THETA = "last value", "last season", "line", "theta"


class Mixture(NamedTuple):
    """The forecasts of one series: a map [rows, horizon], and how it was found."""

    map: Array
    squares: Array
    """The squared error to expect at each step ahead."""
    shares: dict[str, float]
    errors: list[Array]
    """Those of each origin, one row ahead and more."""
    origins: Sequence[int]


@torch.no_grad()
def mix_forecasts(series: Sequence[Array], season: int, horizon: int) -> list[Mixture]:
    """Find the mixture of each series, which has no gaps; series of one length are read together."""
    lengths = np.array([_shorten(len(values)) for values in series])
    found: list[Mixture | None] = [None] * len(series)
    for rows in np.unique(lengths).tolist():
        values_a_series = 1024 * max(rows, 4 * season + horizon)
        size = max(1, MAX_VALUES // values_a_series)
        members = np.flatnonzero(lengths == rows)
        for chosen in np.array_split(members, -(-len(members) // size)):
            table = np.stack([series[number][-rows:] for number in chosen])
            mixtures = _mix_few(table, horizon) if rows < MIN_ROWS else _mix(table, season, horizon)
            for number, mixture in zip(chosen.tolist(), mixtures, strict=True):
                found[number] = mixture
    return [mixture for mixture in found if mixture is not None]


def _shorten(rows: int) -> int:
    unit = 1
    while rows >= 4 * LENGTHS * unit:
        unit *= 2
    return rows // unit * unit


def _mix_few(table: Array, horizon: int) -> list[Mixture]:
    """Repeat the last value; the errors grow with the root of the steps."""
    rule = np.zeros((table.shape[1], horizon))
    rule[-1] = 1.0
    changes = np.diff(table, axis=1)
    squares = (changes**2).sum(axis=1) / max(1, changes.shape[1] - 1) + TINY**2
    steps = np.arange(1.0, horizon + 1)
    return [Mixture(rule, square * steps, {LAST: 1.0}, [], ()) for square in squares]


def _mix(table: Array, season: int, horizon: int) -> list[Mixture]:
    rows = table.shape[1]
    first = max(rows // 2, min(2 * season + 2, rows - 2), MIN_ROWS // 2 + 1)
    origins = np.unique(np.linspace(first, rows - 1, MAX_ORIGINS).astype(int)).tolist()
    grids = [build_grid(each) for each in dict.fromkeys((1, season)) if each == 1 or first >= season + 4]
    reads = min(first, max(FIRST_ROWS, FIRST_SEASONS * season))
    ramp = np.arange(float(rows))[None]
    passes = [smooth(grid.cell, np.concatenate([table, ramp]), [*origins, rows], reads) for grid in grids]
    tried = []
    for read in zip(*passes, strict=True):
        origin = read[0].rows
        ahead = horizon if origin == rows else min(horizon, rows - origin)
        tried.append(_try_all(table[:, :origin], season, ahead, grids, read))
    *before, last = tried
    names = [name for name in last.forecasts if all(name in each.forecasts for each in before)]
    weights, offs = _weigh(table, names, before, last, origins)
    mixed = np.einsum("cs,csrh->srh", weights, _find_maps(table, season, horizon, grids, last, reads, names))
    count = sum(each.shape[1] for each in offs)
    rolled = sum((each**2 / last.growth[:, : each.shape[1]]).sum(axis=1) for each in offs) / count
    spread = IN_SAMPLE * last.spread + (1 - IN_SAMPLE) * rolled + TINY**2
    return [
        Mixture(
            mixed[number],
            spread[number] * last.growth[number],
            dict(zip(names, weights[:, number].tolist(), strict=True)),
            [each[number] for each in offs],
            origins,
        )
        for number in range(len(table))
    ]


class _Tried(NamedTuple):
    """All forecasts from one origin, and how they were fitted."""

    forecasts: dict[str, Array]
    units: dict[str, tuple[int, NDArray[np.int64]]]
    """The grid of a form of smoothing, and the unit of each series."""
    autoregressions: dict[str, Array]
    likely: dict[str, Array]
    """The weights of the forms by their likelihood."""
    spread: Array
    """The squared error one row ahead, and what it is multiplied by at each step."""
    growth: Array


def _weigh(
    table: Array, names: Sequence[str], before: Sequence[_Tried], last: _Tried, origins: Sequence[int]
) -> tuple[Array, list[Array]]:
    """Return the weights [forecasts, series], and the errors of the mixture from each origin."""
    errors, likely_errors = list[Array](), list[Array]()
    for origin, tried in zip(origins, before, strict=True):
        ahead = tried.growth.shape[1]
        true = table[:, origin : origin + ahead]
        errors.append(np.stack([true - tried.forecasts[name] for name in names]))
        likely = (weight[:, None] * tried.forecasts[name] for name, weight in tried.likely.items())
        likely_errors.append(true - sum(likely))
    sizes = _size(errors)
    by_error = (sizes / sizes.min(axis=0)) ** -POWER
    by_error /= by_error.sum(axis=0)
    mixed = [np.einsum("cs,csh->sh", by_error, each) for each in errors]
    share = 1 / (1 + (_size(likely_errors) / _size(mixed)) ** POWER)
    weights = (1 - share) * by_error
    for name, weight in last.likely.items():
        weights[names.index(name)] += share * weight
    together = [
        share[:, None] * first + (1 - share[:, None]) * second
        for first, second in zip(likely_errors, mixed, strict=True)
    ]
    return weights, together


def _size(errors: Sequence[Array]) -> Array:
    """The mean absolute error over all origins and steps."""
    return np.asarray(abs(np.concatenate(errors, axis=-1)).mean(axis=-1) + TINY)


def _try_all(
    table: Array, season: int, horizon: int, grids: Sequence[Grid], read: Sequence[Origin]
) -> _Tried:
    count, rows = table.shape
    forecasts, units, scores, variances, growths = dict[str, Array](), {}, {}, {}, {}
    for number, (grid, origin) in enumerate(zip(grids, read, strict=True)):
        ahead = grid.cell.forecast(origin.state, horizon).numpy()
        for name, (place, estimated) in grid.forms.items():
            best = place.start + origin.squares[:count, place].argmin(axis=1)
            error = origin.squares[np.arange(count), best] + TINY**2
            units[name], forecasts[name] = (number, best), ahead[np.arange(count), best]
            scores[name] = np.log(error / rows) * rows + 2 * estimated * rows / max(rows - estimated - 1, 0.5)
            variances[name] = error / max(rows - estimated, 0.4 * rows)
            growths[name] = _grow(grid.cell, best, horizon)
    table_of_scores = np.stack(list(scores.values()))
    likely = np.exp((table_of_scores.min(axis=0) - table_of_scores) / 2)
    likely /= likely.sum(axis=0)
    squares = np.einsum(
        "fs,fs,fsh->sh", likely, np.stack(list(variances.values())), np.stack(list(growths.values()))
    )
    # Theta smooths what is left of the series without half of its slope: a linear function of both.
    grid, origin = grids[-1], read[-1]
    half = table @ slope_weights(rows, grid.cell.season)[:, None] / 2
    place, _ = next(iter(grid.forms.values()))
    errors = origin.squares[:count] - 2 * half * origin.products[:count] + half**2 * origin.squares[-1]
    best = place.start + errors[:, place].argmin(axis=1)
    units[THETA] = len(grids) - 1, best
    line = rows + np.arange(horizon)
    forecasts[THETA] = ahead[np.arange(count), best] + half * (line - ahead[-1, best])
    autoregressions = {}
    for name, lags in _differences(season, rows).items():
        coefficients = fit_autoregression(table, lags, season)
        if coefficients is not None:
            autoregressions[name] = coefficients
            forecasts[name] = continue_series(table, coefficients, horizon, not lags)
    forecasts |= {name: table @ rule for name, rule in _rules(season, rows, horizon).items()}
    likely_by_name = dict(zip(scores, likely, strict=True))
    return _Tried(forecasts, units, autoregressions, likely_by_name, squares[:, 0], squares / squares[:, :1])


def _grow(cell: ExponentialSmoothing, units: NDArray[np.int64], horizon: int) -> Array:
    """Return the variance of the errors [B, horizon] of these units, in units of that one row ahead."""
    alpha, beta, phi, gamma = (
        each.detach().numpy()[units, None] for each in (cell.alpha, cell.beta, cell.phi, cell.gamma)
    )
    steps = np.arange(1, horizon)
    passed = alpha + beta * (phi**steps).cumsum(axis=1)
    if cell.season > 1:
        passed = passed + gamma * (steps % cell.season == 0)
    return np.concatenate([np.ones((len(units), 1)), 1 + (passed**2).cumsum(axis=1)], axis=1)


def _differences(season: int, rows: int) -> dict[str, tuple[int, ...]]:
    """The differences that autoregressions are fitted to, by the name of the forecast."""
    named: dict[str, tuple[int, ...]] = {"autoregression": (), "autoregression of changes": (1,)}
    if season > 1 and rows > 2 * season + 4:
        named["autoregression of seasonal changes"] = (season,)
        named["autoregression of changes of seasonal changes"] = (season, 1)
    return named


def _rules(season: int, rows: int, horizon: int) -> dict[str, Array]:
    """The maps that repeat the last value or season, and that continue the line through the ends."""
    rules = {}
    for name, length in ((LAST, 1), (SEASON, season)):
        if rows >= length and (name == LAST or season > 1):
            rules[name] = np.zeros((rows, horizon))
            rules[name][-length:] = last_season(horizon, length)
    line = rules[LAST].copy()
    steps = np.arange(1, horizon + 1) / (rows - 1)
    line[-1] += steps
    line[0] -= steps
    return {**rules, LINE: line}


def _find_maps(
    table: Array,
    season: int,
    horizon: int,
    grids: Sequence[Grid],
    last: _Tried,
    reads: int,
    names: Sequence[str],
) -> Array:
    """Return the maps [forecasts, series, rows, horizon]: the forecasts of impulses, one at each row."""
    count, rows = table.shape
    impulses = np.eye(rows)
    maps = dict[str, Array]()
    for number, grid in enumerate(grids):
        mine = {name: units for name, (place, units) in last.units.items() if place == number}
        used, where = np.unique(np.concatenate(list(mine.values())), return_inverse=True)
        weights = [
            each.detach()[used] for each in (grid.cell.alpha, grid.cell.beta, grid.cell.phi, grid.cell.gamma)
        ]
        cell = ExponentialSmoothing(torch.stack(weights, dim=1), grid.cell.season)
        [end] = smooth(cell, impulses, [rows], reads)
        by_unit = cell.forecast(end.state, horizon).detach().numpy()  # [rows, units, horizon]
        for name, places in zip(mine, where.reshape(len(mine), count), strict=True):
            maps[name] = by_unit[:, places].transpose(1, 0, 2)
    slope = slope_weights(rows, grids[-1].cell.season)[:, None] / 2
    line = rows + np.arange(horizon) - np.einsum("srh,r->sh", maps[THETA], np.arange(float(rows)))
    maps[THETA] = maps[THETA] + slope * line[:, None]
    for name, coefficients in last.autoregressions.items():
        centred = not _differences(season, rows)[name]
        maps[name] = np.stack(
            [continue_series(impulses, each[None], horizon, centred) for each in coefficients]
        )
    rules = _rules(season, rows, horizon)
    return np.stack(
        [
            maps[name] if name in maps else np.broadcast_to(rules[name], (count, rows, horizon))
            for name in names
        ]
    )
