r"""Linear maps of windows, and the weighted mean of several that has the least error.

A map F [lookback, horizon] forecasts the rows after a window x as x F. Sums of products of the errors of two
maps follow from the moments of the windows, so no window is read again to find the best weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np

from throughtime.series.ridge import Moments, windows_within
from throughtime.series.trials import Array, Offset, offset_weights

ERRORS_OFF = 2.0
"""A gain is certain as far as it exceeds this number of its standard errors."""
MIN_BLOCKS = 4
"""With fewer horizons of rows to try maps on, there is no evidence for a second map."""
WINDOWS_A_HORIZON = 4
"""Number of windows per horizon on which the gain is measured."""
ROUNDING = 1e-9
"""A smaller part of the error is a rounding error, and no gain."""
EXCHANGES = 10_000
"""Maximum number of moves of weight from one map to another; a few hundred are usual."""


def whole_map(weights: Array, offset: Offset) -> Array:
    """Return F for a map W of windows with their offsets subtracted: m 1^T + (1 - m 1^T) W."""
    m = offset_weights(len(weights), offset)
    return np.asarray(m[:, None] + weights - np.outer(m, weights.sum(axis=0)))


def add_maps(maps: Sequence[tuple[float, Array]], lookback: int) -> Array:
    """Return the weighted sum of maps F, for windows of `lookback` rows."""
    whole = np.zeros((lookback, maps[0][1].shape[1]))
    for weight, each in maps:
        rows = min(lookback, len(each))
        whole[-rows:] += weight * each[-rows:]
    return whole


def last_season(horizon: int, season: int) -> Array:
    """Return the map F that repeats the last season, or with 1 the last value.

    >>> np.array([9.0, 1.0, 2.0, 3.0])[-3:] @ last_season(5, 3)
    array([1., 2., 3., 1., 2.])
    """
    return np.asarray(np.arange(season)[:, None] == np.arange(horizon) % season, dtype=np.float64)


def error_products(moments: Moments, maps: Sequence[Array]) -> Array:
    """Return the sum of (Y - X F) * (Y - X G) for each two of the maps, which may be of shorter windows."""
    products = np.empty((len(maps), len(maps)))
    fits = [float((each * moments.cross[-len(each) :]).sum()) for each in maps]
    for row, first in enumerate(maps):
        passed = moments.inner[:, -len(first) :] @ first
        for column, second in enumerate(maps[: row + 1]):
            both = float((second * passed[-len(second) :]).sum())
            products[row, column] = products[column, row] = both - fits[row] - fits[column] + moments.squares
    return products


def least_combination(products: Array) -> Array:
    """Return the weights w, at least 0 and with the sum 1, of least w^T P w.

    Weight moves from the map that it serves least to the one that it serves most, as far as that lowers the
    error, until no move does.

    >>> least_combination(np.array([[2.0, 0.0, 3.0], [0.0, 2.0, 3.0], [3.0, 3.0, 9.0]])).round(3)
    array([0.5, 0.5, 0. ])
    """
    scale = float(np.diag(products).min())
    if scale <= 0:
        return np.asarray(np.arange(len(products)) == np.diag(products).argmin(), dtype=np.float64)
    scaled, weights = products / scale, np.zeros(len(products))
    weights[int(np.diag(scaled).argmin())] = 1.0
    for _ in range(EXCHANGES):
        slope = scaled @ weights
        to, off = int(slope.argmin()), int(np.where(weights > 0, slope, -np.inf).argmax())
        gain = slope[off] - slope[to]
        if gain < 1e-9:
            break
        curve = max(scaled[to, to] + scaled[off, off] - 2 * scaled[to, off], 1e-12)
        moved = min(float(weights[off]), float(gain / curve))
        weights[to] += moved
        weights[off] -= moved
    return weights


def certain_share(trials: Sequence[Mapping[int, Array]], least: float = 0.0, choices: int = 1) -> float:
    """Return the share of the second map in a mean of two, by the largest gain that is certain.

    The sums of `add_errors` are given for each of the trials. The second map must have been chosen on the
    other trials: a gain on the rows that it was chosen on proves nothing. The gain of a share is the squared
    error that it saves, compared with the first map, less some standard errors: more of them if this is one
    of several `choices`, so that chance is as unlikely in all of these together as in a single one. Errors of
    a horizon of rows count as one observation. The share is at least `least`, which it is if there is only
    one trial, and 0 with too few observations.
    """
    sums = [each for trial in trials for each in trial.values()]
    if len(sums) < MIN_BLOCKS:
        return 0.0
    if len(trials) < 2:
        return least
    before, both, after = np.array(sums).T
    shares = np.linspace(0, 1, 21)[:, None]
    gains = before - (1 - shares) ** 2 * before - 2 * shares * (1 - shares) * both - shares**2 * after
    errors_off = -NormalDist().inv_cdf(NormalDist().cdf(-ERRORS_OFF) / choices)
    certain = gains.mean(axis=1) - errors_off * gains.std(axis=1, ddof=1) / np.sqrt(len(sums))
    if certain.max() <= ROUNDING * before.mean():  # equal maps
        return least
    return max(least, float(shares[certain.argmax(), 0]))


def add_errors(sums: dict[int, Array], values: Array, rows: range, first: Array, second: Array) -> None:
    """Add the sums of e^2, e f and f^2, with the errors e and f of two maps, for each horizon of rows."""
    lookback, horizon = max(len(first), len(second)), first.shape[1]
    stride = max(1, horizon // WINDOWS_A_HORIZON)
    row = max(rows.start, lookback) - rows.start
    for windows in windows_within(values, rows, lookback, horizon, stride):
        past, true = windows[:, :lookback], windows[:, lookback:]
        e, f = (past[:, lookback - len(each) :] @ each - true for each in (first, second))
        for products in np.stack([(e * e).sum(axis=1), (e * f).sum(axis=1), (f * f).sum(axis=1)], axis=1):
            sums[row // horizon] = sums.get(row // horizon, 0.0) + products
            row += stride


def smallest_share(squares: list[list[float]]) -> int:
    """Return the first row of squared errors by part whose mean is within a standard error of the lowest.

    A few parts have no reliable standard error: they are too little evidence to prefer a row to the first.

    >>> smallest_share([[4.0, 4.1, 4.0, 4.0], [3.0, 3.1, 3.1, 3.0], [2.9, 3.2, 3.0, 3.0]])
    1
    >>> smallest_share([[4.0, 4.1, 4.0], [3.0, 3.1, 3.1]])
    0
    """
    table = np.array(squares)
    table = table[:, table.any(axis=0)]
    if table.shape[1] < MIN_BLOCKS:
        return 0
    lowest = int(table.sum(axis=1).argmin())
    for row in range(lowest):
        worse = table[row] - table[lowest]
        if worse.mean() <= worse.std(ddof=1) / np.sqrt(len(worse)):
            return row
    return lowest
