r"""The look-back and the normalisation of windows, chosen by the validation error of ridge regressions.

Each candidate is a linear map of the last rows to the next ones, fitted in closed form. All candidates come
from one pass over the windows. With :math:`X` the windows of the longest look-back and :math:`Y` the rows
after them, :math:`X^T X`, :math:`X^T Y` and :math:`\sum Y^2` suffice: a shorter look-back is a block of these
matrices, and subtracting the last value or the mean of a window is a linear map of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from throughtime.series.ridge import LONGEST, PENALTIES, Moments, hold_back, windows_within

Array = NDArray[np.float64]
Offset = Literal["last", "mean", "none"]
OFFSETS: tuple[Offset, ...] = ("last", "mean")
"""Both make a forecast follow the level of its window. Without that, a map may win on validation rows whose
level is that of the training rows, and lose after a change of the level."""
LOOKBACKS = (96, 336, 512, 720)
"""Look-backs to try beside one, two and four seasons; 336 hours are two weeks, 720 a month."""
MULTIPLES = (1, 2, 4)
MANY_HORIZONS = 10
SHARE = 3
"""The longest look-back is at most a third of the training rows before the last horizon."""
MAX_PRODUCTS = 2e11
"""Multiplications of a pass over the windows, some seconds; of more windows, only every n-th is used."""
MAX_HORIZON = 10_000
ERRORS_PER_HORIZON = 16
"""Number of origins per horizon at which the errors of two look-backs are compared."""


@dataclass(frozen=True, eq=False)
class RidgeChoice:
    """A ridge regression [lookback, horizon] of normalised windows, and the validation errors it won by."""

    weights: Array
    penalty: float
    normalise: Offset
    errors: dict[int, float]  # the squared error of each look-back, with its best normalisation and penalty

    @property
    def lookback(self) -> int:
        """The number of rows that it reads."""
        return len(self.weights)

    def __str__(self) -> str:
        """Say what was chosen, and why."""
        error, best = self.errors[self.lookback], min(self.errors, key=lambda each: self.errors[each])
        if len(self.errors) == 1:
            why = f"Ridge regression with look-back {self.lookback}: validation error {error:.4g}"
        else:
            tried = ", ".join(map(str, sorted(self.errors)))
            why = (
                f"Look-back {self.lookback} of {tried}: the ridge regression with the lowest validation error"
            )
            why += f" ({error:.4g})"
            if best != self.lookback:
                why = f"Look-back {self.lookback} of {tried}: the shortest whose ridge regression has a "
                why += f"validation error ({error:.4g}) within a standard error of the lowest "
                why += f"({self.errors[best]:.4g}, look-back {best})"
        subtracted = {"last": "its last value", "mean": "its mean", "none": "nothing"}[self.normalise]
        return f"{why}; {subtracted} is subtracted from a window, penalty {self.penalty:g}."


def lookbacks_to_try(
    season: int | None, horizon: int, rows: Sequence[int], validation_rows: int
) -> list[int]:
    """Return the look-backs that series with these numbers of training rows are long enough for.

    Half of the series must have a window with the longest of them. Where the validation rows are only a few
    horizons long, they cannot tell long look-backs apart, and the longest are left out.

    >>> lookbacks_to_try(24, 96, [8640] * 7, 2880), lookbacks_to_try(24, 720, [8640] * 7, 2880)
    ([24, 48, 96, 336, 512, 720], [24, 48, 96, 336])
    """
    most = min((max(rows) - horizon) // SHARE, int(np.median(rows)) - horizon)
    if validation_rows < MANY_HORIZONS * horizon:
        most = min(most, LONGEST)
    unit = season or horizon
    tried = {*LOOKBACKS, *(unit * multiple for multiple in MULTIPLES)}
    return sorted(each for each in tried if 1 < each <= most) or ([most] if most > 1 else [])


def choose_ridge(
    series: Sequence[Array],
    training: Sequence[range],
    validation: Sequence[range],
    lookbacks: Sequence[int],
    horizon: int,
    offsets: Sequence[Offset] = OFFSETS,
) -> RidgeChoice | None:
    """Fit a ridge regression with each look-back, and return the best; None if there are too few rows.

    A series is on the scale of the others and has no gaps. The chosen look-back is the shortest whose error
    is within a standard error of the lowest: validation errors of long look-backs differ by chance, and
    shorter windows leave more rows to train on.
    """
    if not lookbacks or horizon > MAX_HORIZON:
        return None
    longest = max(lookbacks)
    if not any(len(part) >= horizon for part in validation):
        training, validation = hold_back(training)
    fitted, tested = (sum_windows(series, part, longest, horizon) for part in (training, validation))
    if not (fitted.windows and tested.windows):
        return None
    best: dict[int, tuple[float, Offset, float, Array]] = {}
    for lookback in lookbacks:
        for offset in offsets:
            known, new = (normalise(each, lookback, offset) for each in (fitted, tested))
            for penalty in PENALTIES:
                weights = known.weights(penalty)
                error = new.squared_error(weights) / (new.windows * horizon)
                if lookback not in best or error < best[lookback][0]:
                    best[lookback] = error, offset, penalty, weights
    lookback = _shortest_of_the_best(best, series, validation, horizon)
    error, offset, penalty, _ = best[lookback]
    # Shorter windows than the longest begin earlier.
    moments = normalise(sum_windows(series, training, lookback, horizon), lookback, offset)
    errors = {each: found[0] for each, found in best.items()}
    return RidgeChoice(moments.weights(penalty), penalty, offset, errors)


def window_offset(windows: Array, offset: Offset) -> Array:
    """Return what is subtracted from each of the windows [n, lookback], [n, 1]."""
    if offset == "last":
        return windows[:, -1:]
    return windows.mean(axis=1, keepdims=True) if offset == "mean" else np.zeros((len(windows), 1))


def _shortest_of_the_best(
    best: dict[int, tuple[float, Offset, float, Array]],
    series: Sequence[Array],
    validation: Sequence[range],
    horizon: int,
) -> int:
    lowest = min(best, key=lambda each: best[each][0])
    reference = _errors(best[lowest], series, validation, max(best), horizon)
    for lookback in sorted(best):
        if lookback == lowest:
            break
        # Windows overlap: only the means of whole horizons vary almost independently.
        worse = _errors(best[lookback], series, validation, max(best), horizon) - reference
        if len(worse) > 1 and worse.mean() <= worse.std(ddof=1) / np.sqrt(len(worse)):
            return lookback
    return lowest


def _errors(
    found: tuple[float, Offset, float, Array],
    series: Sequence[Array],
    validation: Sequence[range],
    longest: int,
    horizon: int,
) -> Array:
    """The mean squared error of each part of the validation rows that is as long as the horizon.

    Series of one table move together, so that their mean counts once.
    """
    _, offset, _, weights = found
    parts: dict[int, list[float]] = {}
    stride = max(1, horizon // ERRORS_PER_HORIZON)
    for values, part in zip(series, validation, strict=True):
        for first in range(part.start, part.stop - horizon + 1, horizon):
            origins = range(first, min(first + 2 * horizon - 1, part.stop))
            blocks = [
                block[::stride, longest - len(weights) :]
                for block in windows_within(values, origins, longest, horizon)
            ]
            if not blocks:
                continue
            rows = np.concatenate(blocks)
            past, true = np.split(rows, [len(weights)], axis=1)
            level = window_offset(past, offset)
            error = float((((past - level) @ weights + level - true) ** 2).mean())
            parts.setdefault((first - part.start) // horizon, []).append(error)
    return np.array([np.mean(errors) for errors in parts.values()])


def sum_windows(series: Sequence[Array], parts: Sequence[range], lookback: int, horizon: int) -> Moments:
    """Sum over all windows whose horizon lies in the part of its series, or over every n-th of many."""
    products = sum(map(len, parts)) * lookback * (lookback + horizon)
    stride = max(1, round(products / MAX_PRODUCTS))
    return Moments.of(series, parts, lookback, horizon, subtract_last=False, stride=stride)


def normalise(moments: Moments, lookback: int, offset: Offset) -> Moments:
    """Return the moments of the last `lookback` rows of each window, after subtracting its offset.

    The offset of a window x is x m. With it subtracted, X becomes X - X m 1^T, and Y becomes Y - X m 1^T.
    """
    inner, cross = moments.inner[-lookback:, -lookback:], moments.cross[-lookback:]
    m = np.zeros(lookback)
    if offset == "last":
        m[-1] = 1
    elif offset == "mean":
        m[:] = 1 / lookback
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
