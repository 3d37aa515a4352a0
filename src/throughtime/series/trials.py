"""Rolling origins: the parts of series that linear maps are fitted to and tried on, and their moments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
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
