r"""The look-back and the normalisation of windows, chosen by the errors of ridge regressions.

Each candidate is a linear map of the last rows to the next ones, fitted in closed form. All candidates come
from one pass over the windows. With :math:`X` the windows of the longest look-back and :math:`Y` the rows
after them, :math:`X^T X`, :math:`X^T Y` and :math:`\sum Y^2` suffice: a shorter look-back is a block of these
matrices, and subtracting the last value or the mean of a window is a linear map of it.

The rows at the end of the data alone are a poor basis for a choice: they may contain no change of the level,
or a single cycle of several years. So each candidate is tried on three parts, one after the other: the third
and the fourth quarter of the training rows and the validation rows, each with a map that is fitted to the
training rows before it. One that is at least as good as the baseline on every part is used together with it:
the mean of two maps is often better than both, and never as bad as the worse one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from throughtime.series.ridge import LONGEST, PENALTIES, Moments, hold_back

Array = NDArray[np.float64]
Offset = Literal["last", "mean", "none"]
OFFSETS: tuple[Offset, ...] = ("last", "mean")
"""Both make a forecast follow the level of its window. Without that, a map may win on validation rows whose
level is that of the training rows, and lose after a change of the level."""
LOOKBACKS = (96, 336, 512, 720)
"""Look-backs to try beside one, two and four seasons; 336 hours are two weeks, 720 a month."""
MULTIPLES = (1, 2, 4)
SHARE = 3
"""The longest look-back is at most a third of the training rows before the last horizon."""
QUARTERS = ((0, 2), (2, 3), (3, 4))
"""Parts of the training rows, in quarters: maps are tried on the last two, fitted to the rows before each."""
MAX_PRODUCTS = 2e11
"""Multiplications of a pass over the windows, some seconds; of more windows, only every n-th is used."""
MAX_HORIZON = 10_000
TINY = 1e-12
"""Minimum of an error that others are divided by; series without noise have none."""


@dataclass(frozen=True, eq=False)
class RidgeChoice:
    """A ridge regression [lookback, horizon] of normalised windows, and the validation errors it won by."""

    weights: Array
    penalty: float
    normalise: Offset
    errors: dict[int, float]  # the squared error of each look-back, with its best normalisation and penalty
    chosen: int
    """The look-back that was chosen. If it is not the first, the map is the mean of both."""

    @property
    def lookback(self) -> int:
        """The number of rows that it reads."""
        return len(self.weights)

    def __str__(self) -> str:
        """Say what was chosen, and why."""
        first, *others = self.errors
        why = f"Ridge regression with look-back {self.chosen}"
        if others:
            tried = ", ".join(map(str, sorted(self.errors)))
            why = f"Look-back {self.lookback}: of {tried} rows, "
            if self.chosen == first:
                why += f"none has a better ridge regression than {first} on every part of the data"
            else:
                why += f"{self.chosen} have a better ridge regression than {first} on every part of the data"
                why += ", and the mean of both is used"
        subtracted = {"last": "its last value", "mean": "its mean", "none": "nothing"}[self.normalise]
        error = f"validation error {self.errors[self.chosen]:.4g}"
        return f"{why} ({error}); {subtracted} is subtracted from a window, penalty {self.penalty:g}."


def lookbacks_to_try(season: int | None, horizon: int, rows: Sequence[int]) -> list[int]:
    """Return the look-backs that series with these numbers of training rows are long enough for.

    The first is that of the baseline. Half of the series must have a window with the longest of them.

    >>> lookbacks_to_try(24, 96, [8640] * 7)
    [336, 24, 48, 96, 512, 720]
    """
    usual = int(np.median(rows)) - horizon
    most = min((max(rows) - horizon) // SHARE, usual)
    unit = season or horizon
    tried = {*LOOKBACKS, *(unit * multiple for multiple in MULTIPLES)}
    first = min(LONGEST, min(rows) // SHARE)
    first = first if 1 < first <= usual else most
    return [first, *sorted(each for each in tried - {first} if 1 < each <= most)] if first > 1 else []


def choose_ridge(
    series: Sequence[Array],
    training: Sequence[range],
    validation: Sequence[range],
    lookbacks: Sequence[int],
    horizon: int,
    offsets: Sequence[Offset] = OFFSETS,
) -> RidgeChoice | None:
    """Fit a ridge regression with each look-back, and return the best; None if there are too few rows.

    A series is on the scale of the others and has no gaps. The first look-back and the first offset are
    chosen, unless others are at least as good on every part: then those with the lowest error, in the mean
    over the parts, compared with the first, and the map is the mean of both. Each penalty is that of the
    lowest validation error.
    """
    if not lookbacks or horizon > MAX_HORIZON:
        return None
    longest = max(lookbacks)
    if not any(len(part) >= horizon for part in validation):
        training, validation = hold_back(training)
    trials = _try_parts(series, training, validation, longest, horizon)
    if not trials:
        return None
    tried = [(lookback, offset) for lookback in lookbacks for offset in offsets]
    found = [_best_penalty(trials[0], *each) for each in tried]
    chosen = _find_better(tried, trials, [error for error, _ in found])
    maps: list[tuple[Array, Offset]] = []
    for number in sorted({0, chosen}):
        (lookback, offset), (_, penalty) = tried[number], found[number]
        # Shorter windows than the longest begin earlier.
        moments = normalise(sum_windows(series, training, lookback, horizon), lookback, offset)
        maps.append((moments.weights(penalty), offset))
    errors = {each: min(found[tried.index((each, own))][0] for own in offsets) for each in lookbacks}
    errors[lookback] = found[chosen][0]
    weights = average_maps(maps, offset) if chosen else maps[0][0]
    return RidgeChoice(weights, penalty, offset, errors, lookback)


def _find_better(
    tried: Sequence[tuple[int, Offset]], trials: Sequence[_Trial], validated: Sequence[float]
) -> int:
    """Return the number of the best that is as good as the first on every part; 0 if none is.

    Those that fail on the validation rows, whose errors are `validated`, are not tried on other parts.
    """
    others = [_best_penalty(trial, *tried[0])[0] for trial in trials[1:]]
    chosen, least = 0, 1.0
    for number, error in enumerate(validated[1:], 1):
        ratios = [error / max(validated[0], TINY)]
        for trial, first in zip(trials[1:], others, strict=True):
            if ratios[-1] > 1:
                break
            ratios.append(_best_penalty(trial, *tried[number])[0] / max(first, TINY))
        if max(ratios) <= 1 and sum(ratios) / len(ratios) < least:
            chosen, least = number, sum(ratios) / len(ratios)
    return chosen


def average_maps(maps: Sequence[tuple[Array, Offset]], offset: Offset) -> Array:
    r"""Return the mean of maps [lookback, horizon] of windows with their offsets subtracted, as such a map.

    The forecast of a map W of windows x with the offset x m is :math:`x F`, with
    :math:`F = m 1^T + (1 - m 1^T) W`. The mean of these F, for windows as long as the longest, is that of
    :math:`W = F - m 1^T` with the `offset` of the result, since each column of F sums to 1.
    """
    longest, horizon = max(len(weights) for weights, _ in maps), maps[0][0].shape[1]
    whole = np.zeros((longest, horizon))
    for weights, own in maps:
        m = offset_weights(len(weights), own)
        whole[-len(weights) :] += m[:, None] + weights - np.outer(m, weights.sum(axis=0))
    return whole / len(maps) - offset_weights(longest, offset)[:, None]


def offset_weights(lookback: int, offset: Offset) -> Array:
    """Return the vector m [lookback] by which a window is multiplied to get its offset."""
    m = np.zeros(lookback)
    if offset == "last":
        m[-1] = 1
    elif offset == "mean":
        m[:] = 1 / lookback
    return m


class _Trial(NamedTuple):
    """The rows before a part, to fit to, and the part."""

    fitted: Moments
    tested: Moments


def _try_parts(
    series: Sequence[Array],
    training: Sequence[range],
    validation: Sequence[range],
    lookback: int,
    horizon: int,
) -> list[_Trial]:
    """The parts on which maps are tried, the last one first; none if that has no windows."""
    stride = choose_stride(training, lookback, horizon)
    first, third, fourth, whole, last = (
        sum_windows(series, part, lookback, horizon, stride)
        for part in (*([_cut(each, *ends) for each in training] for ends in QUARTERS), training, validation)
    )
    trials = [_Trial(whole, last), _Trial(first.add(third), fourth), _Trial(first, third)]
    usable = [bool(trial.fitted.windows and trial.tested.windows) for trial in trials]
    return [trial for trial, use in zip(trials, usable, strict=True) if use] if usable[0] else []


def _cut(part: range, first: int, last: int) -> range:
    begin, end = (part.start + len(part) * quarter // 4 for quarter in (first, last))
    return range(begin, end)


def _best_penalty(trial: _Trial, lookback: int, offset: Offset) -> tuple[float, float]:
    """The lowest error of a forecast value on the tested windows, and its penalty."""
    known, new = (normalise(each, lookback, offset) for each in trial)
    values = new.windows * new.cross.shape[1]
    return min((new.squared_error(known.weights(penalty)) / values, penalty) for penalty in PENALTIES)


def sum_windows(
    series: Sequence[Array], parts: Sequence[range], lookback: int, horizon: int, stride: int | None = None
) -> Moments:
    """Sum over every n-th window (`stride`) whose horizon lies in the part of its series.

    By default these are all windows, or some of very many.
    """
    stride = stride or choose_stride(parts, lookback, horizon)
    return Moments.of(series, parts, lookback, horizon, subtract_last=False, stride=stride)


def choose_stride(parts: Sequence[range], lookback: int, horizon: int) -> int:
    """Return n, to use every n-th window of many, and all of fewer."""
    return max(1, round(sum(map(len, parts)) * lookback * (lookback + horizon) / MAX_PRODUCTS))


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
