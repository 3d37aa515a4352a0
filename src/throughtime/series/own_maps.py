r"""A linear map for each series, near the one that all series share.

Each is a ridge regression whose penalty is on the distance from the shared map F:

.. math:: W = F + (X^T X + \lambda I)^{-1} X^T (Y - X F)

With a large penalty a series has the shared map, with a small one a regression of its own. The penalty of a
series is the one with the lowest error on rolling origins. That is an estimate, so only the part of the
difference from F counts whose gain is certain: over all series, or for this one. On each of the origins, the
gain is that of the penalties that are best on the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from throughtime.series.linear_maps import (
    Array,
    Offset,
    Trial,
    add_errors,
    certain_share,
    fit_moments,
    normalise,
    saved_part,
    sum_others,
    sum_windows,
    whole_map,
)
from throughtime.series.ridge import PENALTIES

MAX_WEIGHTS = 2**22
"""Maps of more weights in all, 16 MiB, are not tried."""
MAX_PRODUCTS = 1e10
"""Nor are those whose equations take more than some seconds: series times look-back to the power of 3."""


class OwnMaps(NamedTuple):
    """What each series adds to the shared map, [series, lookback, horizon], and what that gains."""

    changes: Array
    shares: Array
    """The part of the difference that counts for each series, which `changes` contain already."""
    gain: float | None
    """The part of the error on rolling origins that the whole difference saves; None: there is no error."""


def may_have_own(series: int, lookback: int, horizon: int, time: float = 1.0) -> bool:
    """Return whether there are several series, and maps of their own are neither too large nor too slow.

    `time` is the part of the usual time that they may take.
    """
    return (
        series > 1
        and series * lookback * horizon <= MAX_WEIGHTS
        and float(series) * lookback**3 <= time * MAX_PRODUCTS
    )


def fit_own_maps(
    series: Sequence[Array],
    trials: Sequence[Trial],
    training: Sequence[range],
    shared: Sequence[Array],
    offset: Offset,
    stride: int = 1,
    *,
    whole: bool = False,
) -> OwnMaps:
    """Fit a map for each series to its training rows, with the penalty of the lowest error on the trials.

    `shared` has the map of normalised windows for each trial, and then that of the training rows. In a trial,
    a series has the penalty that is best on the others. All series use the share of the difference that
    certainly gains over all of them, and each the larger one that certainly gains for itself. With `whole`,
    all of the difference counts, even if its gain is not certain.
    """
    parts = [*(each.fitted for each in trials), training]
    pooled: list[dict[int, Array]] = [{} for _ in trials]
    changes, shares, errors = [], [], np.zeros(2)
    for index, values in enumerate(series):
        fitted = [each[index] for each in parts]
        changed, errors_of_one = _fit_one(values, fitted, trials, index, shared, offset, stride)
        changes.append(changed[-1])
        errors += errors_of_one
        alone: list[dict[int, Array]] = [{} for _ in trials]
        for number, trial in enumerate(trials):
            first, second = shared[number], shared[number] + changed[number]
            maps = whole_map(first, offset), whole_map(second, offset)
            add_errors(alone[number], values, trial.tested[index], *maps)
            for block, sums in alone[number].items():
                pooled[number][block] = pooled[number].get(block, 0.0) + sums
        shares.append(certain_share(alone, choices=len(series)))
    least = 1.0 if whole else certain_share(pooled)
    used = np.maximum(shares, least)
    return OwnMaps(used[:, None, None] * np.stack(changes), used, saved_part(errors[0], errors[1], trials))


def _fit_one(
    values: Array,
    parts: Sequence[range],
    trials: Sequence[Trial],
    index: int,
    shared: Sequence[Array],
    offset: Offset,
    stride: int,
) -> tuple[list[Array], tuple[float, float]]:
    """Return what the series at this place adds to each shared map, and its errors with and without that.

    Without a gain on the other trials, nothing is added.
    """
    lookback, horizon = shared[0].shape
    equations = []
    fitted = fit_moments([values], [[each] for each in parts], lookback, horizon, stride)
    windows = -1
    for moments, weights in zip(fitted, shared, strict=True):
        if moments.windows > windows:  # the last trial may be fitted to all training rows
            windows, known = moments.windows, normalise(moments, lookback, offset)
            squares, vectors = np.linalg.eigh(known.inner)
        equations.append((np.maximum(squares, 0), vectors, vectors.T @ (known.cross - known.inner @ weights)))

    def change(number: int, penalty: float) -> Array:
        squares, vectors, left = equations[number]
        return np.asarray(vectors @ (left / (squares + penalty / stride)[:, None]))

    penalties = (np.inf, *PENALTIES)  # the first one is the shared map
    errors = []
    for number, trial in enumerate(trials):
        new = sum_windows([values], [trial.tested[index]], lookback, horizon, stride)
        tested = normalise(new, lookback, offset)
        errors.append(
            np.array([tested.squared_error(shared[number] + change(number, each)) for each in penalties])
        )
    best = [int(each.argmin()) for each in sum_others(errors)]
    error = sum(float(by_penalty[chosen]) for by_penalty, chosen in zip(errors, best, strict=False))
    changes = [change(number, penalties[chosen]) for number, chosen in enumerate(best)]
    return changes, (error, sum(float(by_penalty[0]) for by_penalty in errors))
