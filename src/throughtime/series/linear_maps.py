"""Linear maps of windows: tried on rolling origins, and combined to the weighted mean of the least error.

A map F [lookback, horizon] forecasts the rows after a window x as x F. Sums of products of the errors of two
maps follow from the moments of the windows, so no window is read again to find the best weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from throughtime.series.ridge import Moments, windows_within

Array = NDArray[np.float64]
Offset = Literal["last", "mean", "none"]
CUTS = (0.5, 0.75, 1.0)
"""Where the training rows are cut: maps are fitted to the rows before a cut, and tried on those after it."""
MAX_PRODUCTS = 2e11
"""Multiplications of a pass over the windows, some seconds; of more windows, only every n-th is used."""
TINY = 1e-9
"""A mean squared error of scaled values below this is none: series without noise are forecast exactly."""


class Trial(NamedTuple):
    """The rows of each series that maps are fitted to, those they are tried on, and the moments of these."""

    fitted: Sequence[range]
    tested: Sequence[range]
    moments: Moments


def cut_trials(
    series: Sequence[Array],
    training: Sequence[range],
    validation: Sequence[range],
    lookback: int,
    horizon: int,
    stride: int = 1,
) -> list[Trial]:
    """Return the parts that maps are tried on, in their order, each with the training rows before it.

    Those without windows are left out; none is returned if the last one has none.
    """
    trials = []
    for begin, end in (*pairwise(CUTS), (1.0, None)):
        fitted = [range(rows.start, _cut(rows, begin)) for rows in training]
        tested = (
            validation if end is None else [range(_cut(rows, begin), _cut(rows, end)) for rows in training]
        )
        moments = sum_windows(series, tested, lookback, horizon, stride)
        usable = moments.windows and any(len(rows) >= lookback + horizon for rows in fitted)
        trials.append(Trial(fitted, tested, moments) if usable else None)
    return [trial for trial in trials if trial is not None] if trials[-1] is not None else []


def _cut(rows: range, share: float) -> int:
    return rows.start + int(len(rows) * share)


def fit_moments(
    series: Sequence[Array], parts: Sequence[Sequence[range]], lookback: int, horizon: int, stride: int
) -> list[Moments]:
    """The moments of the rows that maps are fitted to in each of the trials, more from trial to trial.

    `parts` has the rows of each series, for each trial.
    """
    moments: list[Moments] = []
    ends = [rows.start for rows in parts[0]]
    for fitted in parts:
        # A window belongs to the rows that its last row is in.
        new = [
            range(max(rows.start, end - horizon + 1) if moments else rows.start, rows.stop)
            for rows, end in zip(fitted, ends, strict=True)
        ]
        more = sum_windows(series, new, lookback, horizon, stride)
        moments.append(moments[-1].add(more) if moments else more)
        ends = [rows.stop for rows in fitted]
    return moments


def sum_others(errors: Sequence[Array]) -> list[Array]:
    """Return the sum of all but one of the trials, for each of them, and that of all.

    What is chosen by the sum of the others can be measured on a trial. A single trial has no others: what is
    chosen there has been chosen on its own rows.

    >>> sum_others([np.array([1.0, 2.0]), np.array([5.0, 1.0])])
    [array([5., 1.]), array([1., 2.]), array([6., 3.])]
    """
    whole = np.sum(errors, axis=0)
    if len(errors) == 1:
        return [whole, whole]
    others = [np.sum([*errors[:number], *errors[number + 1 :]], axis=0) for number in range(len(errors))]
    return [*others, whole]


def saved_part(error: float, before: float, trials: Sequence[Trial]) -> float | None:
    """Return the part of the squared error of all trials that is saved; None if there was none."""
    values = sum(each.moments.windows * each.moments.cross.shape[1] for each in trials)
    return None if before <= TINY * values else 1 - error / before


def square_errors(
    series: Sequence[Array], trials: Sequence[Trial], maps: Sequence[Array], stride: int
) -> Array:
    """Return the mean squared error for each step ahead, of the map of each trial on its rows.

    The maps were not fitted to these rows, so that the errors are as large as those of a forecast. Those of a
    horizon of rows count as one observation, and a mean of few observations is raised as in Student's t.
    """
    horizon = maps[0].shape[1]
    squares = [
        (windows[:, len(weights) :] - windows[:, : len(weights)] @ weights) ** 2
        for trial, weights in zip(trials, maps, strict=True)
        for values, rows in zip(series, trial.tested, strict=True)
        for windows in windows_within(values, rows, len(weights), horizon, stride)
    ]
    count = max(2.0, sum(len(rows) for trial in trials for rows in trial.tested) / horizon)
    mean = sum(each.sum(axis=0) for each in squares) / sum(map(len, squares))
    return np.asarray(mean * (count + 1) / (count - 1))


def sum_windows(
    series: Sequence[Array], parts: Sequence[range], lookback: int, horizon: int, stride: int = 1
) -> Moments:
    """Sum over every n-th window (`stride`) whose horizon lies in the part of its series."""
    return Moments.of(series, parts, lookback, horizon, subtract_last=False, stride=stride)


def offset_weights(lookback: int, offset: Offset) -> Array:
    """Return the vector m [lookback] by which a window is multiplied to get its offset."""
    m = np.zeros(lookback)
    if offset == "last":
        m[-1] = 1
    elif offset == "mean":
        m[:] = 1 / lookback
    return m


def normalise(moments: Moments, lookback: int, offset: Offset) -> Moments:
    """Return the moments of the last `lookback` rows of each window, after subtracting its offset.

    The offset of a window x is x m. With it subtracted, X becomes X - X m 1^T, and Y becomes Y - X m 1^T.
    """
    inner, cross = moments.inner[-lookback:, -lookback:], moments.cross[-lookback:]
    m = offset_weights(lookback, offset)
    moved = inner @ m
    level = float(m @ moved)
    targets = cross - moved[:, None]
    squares = moments.squares - 2 * float((m @ cross).sum()) + moments.cross.shape[1] * level
    return Moments(
        inner - moved[None, :] - moved[:, None] + level,
        targets - (m @ targets)[None, :],
        squares,
        moments.windows,
    )


def choose_stride(parts: Sequence[range], lookbacks: Sequence[int], horizon: int, time: float = 1.0) -> int:
    """Return n, to use every n-th window of many, and all of fewer; `time` is the part of the usual time."""
    products = sum(map(len, parts)) * sum(each * (each + horizon) for each in lookbacks)
    return max(1, round(products / (time * MAX_PRODUCTS)))


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
