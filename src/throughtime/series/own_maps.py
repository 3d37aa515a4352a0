r"""A linear map for each series, near the one that all series share.

Each is a ridge regression whose penalty is on the distance from the shared map F:

.. math:: W = F + (X^T X + \lambda I)^{-1} X^T (Y - X F)

With a large penalty a series has the shared map, with a small one a regression of its own. The penalty of a
series is the one with the lowest error on rolling origins. That is an estimate, so only the part of the
difference from F counts whose gain there, over all series, is certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from throughtime.series.combination import certain_share, whole_map
from throughtime.series.trials import TINY, Array, Offset, Trial, fit_moments, normalise, sum_windows

PENALTIES = tuple(10.0**power for power in range(1, 7))
MOST_WEIGHTS = 2**22
"""Maps of more weights in all, 16 MiB, are not tried."""
MOST_PRODUCTS = 1e10
"""Nor are those whose equations take more than some seconds: series times look-back to the power of 3."""


class OwnMaps(NamedTuple):
    """What each series adds to the shared map, [series, lookback, horizon], and what that gains."""

    changes: Array
    share: float
    """The part of the difference that counts, which is in `changes` already; 0: none is certain to gain."""
    ratio: float
    """The error of the whole difference on rolling origins, divided by that of the shared map."""


def may_have_own(series: int, lookback: int, horizon: int) -> bool:
    """Return whether there are several series, and maps of their own are neither too large nor too slow."""
    return (
        series > 1
        and series * lookback * horizon <= MOST_WEIGHTS
        and float(series) * lookback**3 <= MOST_PRODUCTS
    )


def fit_own_maps(
    series: Sequence[Array],
    trials: Sequence[Trial],
    shared: Sequence[Array],
    offset: Offset,
    stride: int = 1,
    *,
    whole: bool = False,
) -> OwnMaps:
    """Fit a map for each series; `shared` has the map of normalised windows of each trial.

    The last trial is fitted to all training rows, and so are the maps that are returned. With `whole`, all
    of the difference counts, even if its gain is not certain.
    """
    found = [_fit_one(one, place, trials, shared, offset, stride) for place, one in enumerate(series)]
    changes = [[one.changes[number] for one in found] for number in range(len(trials))]
    share = 1.0
    if not whole:
        first = [[whole_map(each, offset)] * len(series) for each in shared]
        second = [
            [whole_map(each + change, offset) for change in own]
            for each, own in zip(shared, changes, strict=True)
        ]
        share = certain_share(series, trials, first, second)
    error, before = (sum(getattr(one, name) for one in found) for name in ("error", "shared_error"))
    return OwnMaps(share * np.stack(changes[-1]), share, error / max(before, TINY))


class _Fit(NamedTuple):
    """What one series adds to the shared map of each trial, its error there, and that of the shared map."""

    changes: list[Array]
    error: float
    shared_error: float


def _fit_one(
    values: Array,
    place: int,
    trials: Sequence[Trial],
    shared: Sequence[Array],
    offset: Offset,
    stride: int,
) -> _Fit:
    """Fit the map of the series at this place; without a gain on the trials, nothing is added."""
    lookback, horizon = shared[0].shape
    fitted = fit_moments([values], [[each.fitted[place]] for each in trials], lookback, horizon, stride)
    equations, tested = [], []
    for trial, moments, weights in zip(trials, fitted, shared, strict=True):
        known = normalise(moments, lookback, offset)
        squares, vectors = np.linalg.eigh(known.inner)
        left = vectors.T @ (known.cross - known.inner @ weights)
        equations.append((np.maximum(squares, 0), vectors, left))
        new = sum_windows([values], [trial.tested[place]], lookback, horizon, stride)
        tested.append(normalise(new, lookback, offset))

    def error_of(changes: Sequence[Array]) -> float:
        tried = zip(tested, shared, changes, strict=True)
        return sum(moments.squared_error(weights + change) for moments, weights, change in tried)

    none = [np.zeros((lookback, horizon))] * len(trials)
    before = error_of(none)
    best = _Fit(none, before, before)
    for penalty in PENALTIES:
        changes = [
            np.asarray(vectors @ (left / (squares + penalty / stride)[:, None]))
            for squares, vectors, left in equations
        ]
        error = error_of(changes)
        if error < best.error:
            best = _Fit(changes, error, before)
    return best
