r"""A linear map from the last values of a series to the next ones, fitted in closed form: ridge regression.

One matrix W serves all series. A window x and what follows it, y, both lose the window's last value; then

.. math:: W = (X^T X + \lambda I)^{-1} X^T Y

with the penalty, lambda, that has the least squared error on validation windows. Only the products
:math:`X^T X` and :math:`X^T Y` are kept in memory, summed over blocks of windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from throughtime.errors import InputError

Array = NDArray[np.float64]
PENALTIES = tuple(10.0**power for power in range(-1, 6))
"""From 0.1, which has little effect even on a short series, to 100,000."""
BLOCK = 2**21  # numbers of a block of windows: 16 MiB


@dataclass(frozen=True, eq=False)
class RidgeMap:
    """The matrix W [lookback, horizon], and the penalty that was chosen."""

    weights: Array
    penalty: float

    def forecasts(self, windows: Array) -> Array:
        """What follows each of the windows [n, lookback]: [n, horizon]."""
        last = windows[:, -1:]
        return last + (windows - last) @ self.weights


def fit_ridge(
    series: Sequence[Array],
    training: Sequence[range],
    validation: Sequence[range],
    lookback: int,
    horizon: int,
    penalties: Sequence[float] = PENALTIES,
) -> RidgeMap:
    """Fit to the windows within the training rows; the penalty is chosen on those of the validation rows.

    Series are on a common scale and have no gaps. A validation window forecasts validation rows from any
    rows before them. If there are no validation windows, the penalty is chosen on the last fifth of the
    training rows, and all training rows are used for the final fit.

    >>> wave = np.sin(np.arange(60.0))
    >>> found = fit_ridge([wave], [range(40)], [range(40, 50)], lookback=8, horizon=2, penalties=[1e-6])
    >>> error = found.forecasts(wave[None, 42:50])[0] - wave[50:52]     # a sine is a linear recurrence
    >>> bool(abs(error).max() < 1e-4)
    True
    """
    whole = fitted = _moments(series, training, lookback, horizon)
    judge = _moments(series, validation, lookback, horizon)
    if not judge.windows:
        first, last = zip(*(_cut(part) for part in training), strict=True)
        fitted = _moments(series, first, lookback, horizon)
        judge = _moments(series, last, lookback, horizon)
    if not (fitted.windows and judge.windows):
        rows = max((len(part) for part in training), default=0)
        raise InputError(
            "training rows",
            f"are {rows:,} at most, too few to fit and validate windows of {lookback} and {horizon} rows",
        )
    penalty = min(penalties, key=lambda each: judge.squared_error(fitted.weights(each)))
    return RidgeMap(whole.weights(penalty), penalty)


def windows_within(values: Array, part: range, lookback: int, horizon: int) -> Iterator[Array]:
    """Blocks of windows [n, lookback + horizon] whose last `horizon` rows lie in a part of a series."""
    first, last = max(part.start, lookback), part.stop - horizon
    if last < first:
        return
    windows = sliding_window_view(values, lookback + horizon)[first - lookback : last - lookback + 1]
    size = max(1, BLOCK // (lookback + horizon))
    for begin in range(0, len(windows), size):
        yield windows[begin : begin + size]


class _Moments(NamedTuple):
    """All that a least-squares fit, and its error, depend on."""

    inner: Array  # X^T X
    cross: Array  # X^T Y
    squares: float  # the sum of Y^2
    windows: int

    def weights(self, penalty: float) -> Array:
        whole = self.inner + penalty * np.eye(len(self.inner))
        return np.asarray(np.linalg.solve(whole, self.cross), dtype=np.float64)

    def squared_error(self, weights: Array) -> float:
        """The sum of (Y - X W)^2 of these windows."""
        product = (weights * (self.inner @ weights)).sum() - 2 * (weights * self.cross).sum()
        return float(product + self.squares)


def _moments(series: Sequence[Array], parts: Sequence[range], lookback: int, horizon: int) -> _Moments:
    inner, cross = np.zeros((lookback, lookback)), np.zeros((lookback, horizon))
    squares, count = 0.0, 0
    for values, part in zip(series, parts, strict=True):
        for block in windows_within(values, part, lookback, horizon):
            moved = block - block[:, lookback - 1 : lookback]
            past, coming = moved[:, :lookback], moved[:, lookback:]
            inner += past.T @ past
            cross += past.T @ coming
            squares += float((coming * coming).sum())
            count += len(block)
    return _Moments(inner, cross, squares, count)


def _cut(part: range) -> tuple[range, range]:
    """The first four fifths of some rows, and the last."""
    middle = part.stop - len(part) // 5
    return range(part.start, middle), range(middle, part.stop)
