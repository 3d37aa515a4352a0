r"""What a forecaster starts from: a weighted mean of linear forecasts, chosen by rolling origins.

These are ridge regressions with several look-backs, with the last value or the mean of a window subtracted,
and two rules: repeat the last value, repeat the last season. Each is a linear map of a window, and so is
their mean. The weights come from rolling origins: each map is fitted to the first half of the training rows
and tried on the third quarter, fitted to three quarters and tried on the fourth, and fitted to all training
rows and tried on the validation rows. Test rows are never read.

The weights of least squared error on these parts are an estimate, and series change. So the forecast is the
mean of this combination and of the baseline, in which the combination counts more if its gain is certain.

With :math:`X` the windows and :math:`Y` the rows after them, :math:`X^T X`, :math:`X^T Y` and
:math:`\sum Y^2` suffice to fit maps and to measure their errors: a pass over the windows for each look-back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from throughtime.errors import InputError
from throughtime.series.combination import (
    add_maps,
    certain_share,
    error_products,
    last_season,
    least_combination,
    whole_map,
)
from throughtime.series.own_maps import OwnMaps, fit_own_maps, may_have_own
from throughtime.series.ridge import LONGEST, PENALTIES, Moments, hold_back
from throughtime.series.trials import (
    TINY,
    Array,
    Offset,
    Trial,
    cut_trials,
    fit_moments,
    normalise,
    offset_weights,
)

OFFSETS: tuple[Offset, ...] = ("last", "mean")
"""Both make a forecast follow the level of its window. Without that, a map may win on validation rows whose
level is that of the training rows, and lose after a change of the level."""
LOOKBACKS = (96, 336, 512, 720)
"""Look-backs to try beside one, two and four seasons; 336 hours are two weeks, 720 a month."""
MULTIPLES = (1, 2, 4)
LONGEST_TRIED = 3_000
"""Longer look-backs are not tried: the time to fit one grows with its third power."""
SHARE = 3
"""The longest look-back is at most a third of the training rows before the last horizon."""
LEAST_WEIGHT = 0.05
"""Maps of smaller weights are left out."""
LEAST_SHARE = 0.5
"""Minimum share of the combination: the mean of two forecasts is rarely worse than the better one."""
MAX_PRODUCTS = 2e11
"""Multiplications of a pass over the windows, some seconds; of more windows, only every n-th is used."""
MAX_HORIZON = 10_000
MAX_LOOKBACK = 6_000
"""With a longer look-back or horizon, no regression is fitted."""


@dataclass(frozen=True, eq=False)
class RidgeChoice:
    """A linear map [lookback, horizon] of normalised windows, and how it was chosen."""

    weights: Array
    normalise: Offset
    shares: dict[str, float]
    """The forecasts that it is a mean of, and their weights."""
    errors: dict[int, float]
    """The validation error of each look-back, with its best normalisation and penalty; the baseline first."""
    ratio: float
    """The error of the map on rolling origins, divided by that of the first look-back."""
    own: OwnMaps | None = None
    """What was found of maps of each series, if they were tried."""

    @property
    def changes(self) -> Array | None:
        """What each series adds to the map, [series, lookback, horizon], if that gains anything."""
        return self.own.changes if self.own is not None and self.own.share else None

    @property
    def lookback(self) -> int:
        """The number of rows that it reads."""
        return len(self.weights)

    def __str__(self) -> str:
        """Say what was chosen, and why."""
        first, *others = self.errors
        parts = ", ".join(f"{share:.0%} {name}" for name, share in self.shares.items())
        subtracted = {"last": "the last value", "mean": "the mean", "none": "nothing"}[self.normalise]
        sentence = f"Look-back {self.lookback}: the network corrects a linear forecast ({parts})"
        if len(self.shares) > 1:
            sentence += f", whose error on rolling origins is {self.ratio:.3g} times that of ridge {first}"
        if others:
            tried = ", ".join(f"{rows}: {error:.4g}" for rows, error in sorted(self.errors.items()))
            sentence += f"; validation errors of ridge regressions by look-back: {tried}"
        sentence += f"; {subtracted} of each window is subtracted."
        if self.own is not None:
            kept = (
                f"{self.own.share:.0%} of the difference is used" if self.own.share else "they are not used"
            )
            sentence += (
                " With a linear map for each series, near the shared one, the error on rolling origins is "
                f"{self.own.ratio:.3g} times as large: {kept}."
            )
        return sentence


def lookbacks_to_try(season: int | None, horizon: int, rows: Sequence[int]) -> list[int]:
    """Return the look-backs that series with these numbers of training rows are long enough for.

    The first is that of the baseline. Half of the series must have a window with the longest of them.

    >>> lookbacks_to_try(24, 96, [8640] * 7)
    [336, 24, 48, 96, 512, 720]
    """
    usual = int(np.median(rows)) - horizon
    most = min((max(rows) - horizon) // SHARE, usual, LONGEST_TRIED)
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
    season: int | None = None,
    channels: str | None = "shared",
) -> RidgeChoice | None:
    """Combine ridge regressions with these look-backs; None if there are too few rows, or too many.

    A series is on the scale of the others and has no gaps. The first look-back and the first offset are the
    baseline. Each penalty is that of the lowest error on the rows that follow; the regressions that are
    combined at last are those of the training rows. `channels` is "shared": one map serves all series; "own":
    each has one, near the shared map; or None: as far as that certainly gains.
    """
    if not lookbacks or max(lookbacks) > MAX_LOOKBACK or horizon > MAX_HORIZON:
        return None
    if not any(len(part) >= horizon for part in validation):
        training, validation = hold_back(training)
    stride = choose_stride(training, lookbacks, horizon)
    trials = cut_trials(series, training, validation, max(lookbacks), horizon, stride)
    if not trials:
        return None
    found, errors = list[_Candidate](), dict[int, float]()
    for lookback in lookbacks:
        fitted = fit_moments(series, [each.fitted for each in trials], lookback, horizon, stride)
        for offset in offsets:
            best = [
                _best_map(own, trial.moments, offset, stride)
                for own, trial in zip(fitted, trials, strict=True)
            ]
            found.append(_Candidate(f"ridge {lookback}", offset, [each for _, each in best]))
            errors[lookback] = min(best[-1][0], errors.get(lookback, np.inf))
    rules = {"last value": 1, **({"last season": season} if season and 1 < season <= max(lookbacks) else {})}
    found += [
        _Candidate(name, None, [last_season(horizon, rows)] * len(trials)) for name, rows in rules.items()
    ]
    choice, maps = _combine(series, trials, found, offsets, errors)
    if channels == "shared" or len(series) == 1:
        return choice
    if not may_have_own(len(series), choice.lookback, horizon):
        if channels is None:
            return choice
        raise InputError(
            "channels",
            f"is own, but {len(series):,} maps of {choice.lookback:,} rows back and {horizon:,} ahead are "
            "too large or take too long; set shared",
        )
    return replace(
        choice,
        own=fit_own_maps(series, trials, maps, choice.normalise, stride, whole=channels == "own"),
    )


class _Candidate(NamedTuple):
    """A linear map F of windows: its name, what it subtracts, and F for each of the trials."""

    name: str
    offset: Offset | None
    maps: list[Array]


def _combine(
    series: Sequence[Array],
    trials: Sequence[Trial],
    found: Sequence[_Candidate],
    offsets: Sequence[Offset],
    errors: dict[int, float],
) -> tuple[RidgeChoice, list[Array]]:
    """Find the combination of least error on the trials, and take the mean with the baseline.

    The result reads at least as many rows as the first candidate. Its maps are also returned for each trial.
    """
    tables = [
        error_products(trial.moments, [each.maps[number] for each in found])
        for number, trial in enumerate(trials)
    ]
    products = np.sum(tables, axis=0)
    weights = least_combination(products)
    weights[weights < LEAST_WEIGHT] = 0
    weights /= weights.sum()
    longest = max(len(each.maps[-1]) for each in found)
    combined = [
        add_maps([(weight, each.maps[number]) for each, weight in zip(found, weights, strict=True)], longest)
        for number in range(len(trials))
    ]
    first = _find_first(found, tables)
    one, two = ([[each] * len(series) for each in maps] for maps in (found[first].maps, combined))
    share = certain_share(series, trials, one, two, LEAST_SHARE)
    weights *= share
    weights[first] += 1 - share
    used = [(float(weight), each) for weight, each in zip(weights, found, strict=True) if weight > 0]
    lookback = max(len(each.maps[-1]) for each in (found[0], *(each for _, each in used)))
    regressions = range(len(errors) * len(offsets))
    offset = offsets[min(regressions, key=lambda number: products[number, number]) % len(offsets)]
    maps = [
        add_maps([(weight, each.maps[number]) for weight, each in used], lookback)
        - offset_weights(lookback, offset)[:, None]
        for number in range(len(trials))
    ]
    shares: dict[str, float] = {}
    for weight, each in used:
        shares[each.name] = shares.get(each.name, 0.0) + weight
    ratio = float(weights @ products @ weights) / max(float(products[0, 0]), TINY)
    return RidgeChoice(maps[-1], offset, shares, errors, ratio), maps


def _find_first(found: Sequence[_Candidate], tables: Sequence[Array]) -> int:
    """Return the number of the baseline: a rule that is better than the first on every part, or the first."""
    errors = [[table[number, number] for table in tables] for number in range(len(found))]
    better = [
        number
        for number, each in enumerate(found)
        if each.offset is None
        and all(own < first for own, first in zip(errors[number], errors[0], strict=True))
    ]
    return min(better, key=lambda number: float(np.sum(errors[number])), default=0)


def _best_map(fitted: Moments, tested: Moments, offset: Offset, stride: int) -> tuple[float, Array]:
    """The lowest error of a forecast value on the tested windows, and the map F that has it."""
    lookback, horizon = fitted.cross.shape
    known, new = (normalise(each, lookback, offset) for each in (fitted, tested))
    tried = (known.weights(penalty / stride) for penalty in PENALTIES)
    error, best = min(((new.squared_error(each), each) for each in tried), key=lambda pair: pair[0])
    return error / (tested.windows * horizon), whole_map(best, offset)


def choose_stride(parts: Sequence[range], lookbacks: Sequence[int], horizon: int) -> int:
    """Return n, to use every n-th window of many, and all of fewer."""
    products = sum(map(len, parts)) * sum(each * (each + horizon) for each in lookbacks)
    return max(1, round(products / MAX_PRODUCTS))
