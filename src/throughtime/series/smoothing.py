"""Exponential smoothing of short series: the units of a grid of weights read all series at once.

The weights of a series are those of the unit with the lowest error one row ahead; one pass over the rows
gives the errors and the states at all origins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from throughtime.cells.base import State
from throughtime.cells.smoothing import ExponentialSmoothing

Array = NDArray[np.float64]
ALPHAS = (0.02, 0.06, 0.12, 0.2, 0.3, 0.42, 0.56, 0.72, 0.9, 0.99)
TREND_SHARES, SEASON_SHARES = (0.02, 0.1, 0.3, 0.6), (0.0, 0.05, 0.15, 0.35)
"""beta as a share of alpha, and gamma as one of 1 - alpha."""
DAMPINGS = (0.8, 0.9, 0.95, 0.98)
FORMS = {
    "level": (1, [(0.0, 0.0)]),
    "damped trend": (3, list(product(TREND_SHARES, DAMPINGS))),
    "trend": (2, list(product((0.0, *TREND_SHARES), (1.0,)))),
}
"""The number of weights of each form, and its shares of alpha with their dampings."""
MAX_VALUES = 2**22
"""Values of the states that are computed at once."""
FIRST_ROWS, FIRST_SEASONS = 10, 3
"""The first state is that of a regression on the first rows."""


class Grid(NamedTuple):
    """The units of a cell and, by the name of a form, which they are and how many numbers it estimates."""

    cell: ExponentialSmoothing
    forms: dict[str, tuple[slice, int]]


def build_grid(season: int) -> Grid:
    """Return the units of all forms, with a season or, for 1, without."""
    gammas = SEASON_SHARES if season > 1 else (0.0,)
    rows, forms = list[tuple[float, ...]](), dict[str, tuple[slice, int]]()
    for name, (count, shares) in FORMS.items():
        begin = len(rows)
        rows += [
            (alpha, alpha * share, damping, gamma * (1 - alpha))
            for alpha, (share, damping), gamma in product(ALPHAS, shares, gammas)
        ]
        estimated = count + 1 + (season + 1 if season > 1 else 0)
        forms[f"{name} with season" if season > 1 else name] = slice(begin, len(rows)), estimated
    return Grid(ExponentialSmoothing(torch.tensor(rows, dtype=torch.float64), season), forms)


class Origin(NamedTuple):
    """What a cell knows after a number of rows: its state, the squares of its errors so far [B, units], and
    their products with those of the last series."""

    rows: int
    state: State
    squares: Array
    products: Array


@torch.no_grad()
def smooth(
    cell: ExponentialSmoothing, values: Array, cuts: Sequence[int], first_rows: int
) -> Iterator[Origin]:
    """Read series [B, rows], and stop at each of the cuts; the first state comes from the first rows."""
    level, trend, season = (
        torch.from_numpy(each) for each in begin_from(values[:, :first_rows], cell.season)
    )
    state = cell.begin(level, trend, season)
    squares = products = torch.zeros(len(values), cell.hidden_size, dtype=torch.float64)
    inputs = torch.from_numpy(np.ascontiguousarray(values.T))[..., None]
    for begin, end in pairwise((0, *cuts)):
        expected = state[0]
        outputs, state = cell(inputs[begin:end], state, backend="reference")
        errors = inputs[begin:end] - torch.cat([expected[None], outputs[:-1]])
        squares, products = squares + errors.square().sum(0), products + (errors * errors[:, -1:]).sum(0)
        yield Origin(end, state, squares.numpy(), products.numpy())


def begin_from(values: Array, season: int) -> tuple[Array, Array, Array]:
    """Return level [B], trend [B] and season [B, m] before the first of some rows, by a ridge regression."""
    rows = np.arange(values.shape[1])
    table = [np.ones(len(rows)), rows + 1.0, *((rows % season == place) * 1.0 for place in range(season))]
    columns = np.stack(table if season > 1 else table[:2], axis=1)
    penalties = np.array([1e-9, len(rows) / 2, *[0.3] * (columns.shape[1] - 2)])
    inverse = np.linalg.inv(columns.T @ columns + np.diag(penalties))
    found = values @ columns @ inverse
    seasons = found[:, 2:] if season > 1 else np.zeros((len(values), 1))
    mean = seasons.mean(axis=1)
    return found[:, 0] + mean, found[:, 1], seasons - mean[:, None]


def slope_weights(rows: int, season: int) -> Array:
    """Return the vector [rows] by which values are multiplied to get the slope of their regression line."""
    line = np.arange(rows) - (rows - 1) / 2
    if season > 1:
        columns = np.stack([np.arange(rows) % season == place for place in range(season)], axis=1) * 1.0
        line = line - columns @ np.linalg.lstsq(columns, line, rcond=None)[0]
    return np.asarray(line / (line @ line))
