r"""What a forecaster starts from: a weighted mean of linear forecasts, chosen by rolling origins.

These are ridge regressions with several look-backs, with the last value or the mean of a window subtracted,
and two rules: repeat the last value, repeat the last season. Each is a linear map of a window, and so is
their mean. The weights come from rolling origins: each map is fitted to the first half of the training rows
and tried on the third quarter, fitted to three quarters and tried on the fourth, and fitted to all training
rows and tried on the validation rows. Test rows are never read.

The weights of least squared error on these parts are an estimate, and series change. So the forecast is the
mean of this combination and of the baseline, in which the combination counts more if its gain is certain. The
gain on each part is that of the penalties and weights that are best on the other parts.

With :math:`X` the windows and :math:`Y` the rows after them, :math:`X^T X`, :math:`X^T Y` and
:math:`\sum Y^2` suffice to fit maps and to measure their errors: a pass over the windows for each look-back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from throughtime.errors import InputError
from throughtime.series.linear_maps import (
    CUTS,
    Array,
    Offset,
    Trial,
    add_errors,
    add_maps,
    certain_share,
    choose_stride,
    cut_trials,
    error_products,
    fit_moments,
    last_season,
    least_combination,
    normalise,
    offset_weights,
    saved_part,
    square_errors,
    sum_others,
    whole_map,
)
from throughtime.series.own_maps import OwnMaps, fit_own_maps, may_have_own
from throughtime.series.ridge import MAX_LOOKBACK, PENALTIES, SHARE, Moments, hold_back

OFFSETS: tuple[Offset, ...] = ("last", "mean")
"""Both make a forecast follow the level of its window. Without that, a map may win on validation rows whose
level is that of the training rows, and lose after a change of the level."""
LOOKBACKS = (96, 336, 512, 720)
"""Look-backs to try beside one, two and four seasons; 336 hours are two weeks, 720 a month."""
MULTIPLES = (1, 2, 4)
SECONDS = 20.0
"""Time for the regressions if none is given. That of a look-back grows with its third power."""
PRODUCTS_A_SECOND = 7e9
"""Multiplications of a core, to estimate that time: measured times would make choices depend on the load."""
MIN_WEIGHT = 0.05
"""Maps of smaller weights are left out."""
MIN_SHARE = 0.5
"""Minimum share of the combination: the mean of two forecasts is rarely worse than the better one."""
MAX_HORIZON = 10_000
"""With a longer horizon, no regression is fitted."""


@dataclass(frozen=True, eq=False)
class RidgeChoice:
    """A linear map [lookback, horizon] of normalised windows, and how it was chosen."""

    weights: Array
    normalise: Offset
    shares: dict[str, float]
    """The forecasts that it is a mean of, and their weights."""
    errors: dict[int, float]
    """The validation error of each look-back, with its best normalisation and penalty; the baseline first."""
    baseline: str
    """The forecast that the others are compared with."""
    gain: float | None
    """The part of its error on rolling origins that the map saves; None: there is no error."""
    validated: bool = True
    """Whether `errors` are those of validation rows, not of the last training rows."""
    own: OwnMaps | None = None
    """What was found of maps of each series, if they were tried."""
    squares: Array | None = None
    """The mean squared error on rolling origins, for each step ahead."""

    @property
    def changes(self) -> Array | None:
        """What each series adds to the map, [series, lookback, horizon], if that gains anything."""
        return self.own.changes if self.own is not None and self.own.shares.any() else None

    @property
    def lookback(self) -> int:
        """The number of rows that it reads."""
        return len(self.weights)

    def describe(self, corrected: bool = True) -> str:
        """Say what was chosen, and why, for a network that corrects the map, or only takes its look-back."""
        parts = ", ".join(f"{share:.0%} {name}" for name, share in self.shares.items())
        less = {"last": "less the last of them", "mean": "less their mean"}.get(self.normalise, "as they are")
        use = "the network corrects" if corrected else "as many as are needed by"
        sentence = (
            f"Look-back {self.lookback}: a forecast reads the last {self.lookback} values, {less}; {use} "
        )
        sentence += f"a linear forecast ({parts})"
        if len(self.shares) > 1 and self.gain is not None:
            sentence += f", whose error on rolling origins is {_compare(self.gain)} that of {self.baseline}"
        if len(self.errors) > 1:
            tried = ", ".join(f"{rows}: {error:.4g}" for rows, error in sorted(self.errors.items()))
            rows = "validation" if self.validated else "the last fifth of the training"
            sentence += f"; errors of ridge regressions on {rows} rows, by look-back: {tried}"
        if self.own is None or self.own.gain is None:
            return f"{sentence}."
        return (
            f"{sentence}. With a linear map for each series, near the shared one, the error on rolling "
            f"origins is {_compare(self.own.gain)} that of the latter; {_describe_shares(self.own.shares)}."
        )


def _compare(gain: float) -> str:
    return f"{abs(gain):.1%} {'below' if gain >= 0 else 'above'}"


def _describe_shares(shares: Array) -> str:
    used = shares[shares > 0]
    if not len(used):
        return "such maps are not used, because no gain is certain"
    range_of_shares = sorted({f"{used.min():.0%}", f"{used.max():.0%}"}, key=lambda share: int(share[:-1]))
    return f"{len(used)} of {len(shares)} series use {' to '.join(range_of_shares)} of the difference"


def lookbacks_to_try(
    season: int | None, horizon: int, rows: Sequence[int], seconds: float = SECONDS
) -> list[int]:
    """Return the look-backs that series with these numbers of training rows are long enough for.

    The first is that of the baseline. Half of the series must have a window with the longest of them, which
    is at most a third of the training rows before the last horizon, and there must be time to fit them.

    >>> lookbacks_to_try(24, 96, [8640] * 7)
    [336, 24, 48, 96, 512, 720]
    """
    usual = int(np.median(rows)) - horizon
    most = min((max(rows) - horizon) // SHARE, usual)
    unit = season or horizon
    tried = {*LOOKBACKS, *(unit * multiple for multiple in MULTIPLES)}
    first = min(MAX_LOOKBACK, min(rows) // SHARE)
    first = first if 1 < first <= usual else min(MAX_LOOKBACK, most)
    chosen = [first] if first > 1 else []
    for each in sorted(tried - {first}):
        if chosen and 1 < each <= most and seconds_to_fit([*chosen, each], horizon) <= seconds:
            chosen.append(each)
    return chosen


def seconds_to_fit(lookbacks: Sequence[int], horizon: int, offsets: int = len(OFFSETS)) -> float:
    """Estimate the time to solve the equations of all regressions with these look-backs, on one core."""
    maps = offsets * (len(CUTS) * (len(PENALTIES) + 2) + 1)
    return maps * sum(each**2 * (each / 3 + 2 * horizon) for each in lookbacks) / PRODUCTS_A_SECOND


def choose_ridge(
    series: Sequence[Array],
    training: Sequence[range],
    validation: Sequence[range],
    lookbacks: Sequence[int],
    horizon: int,
    offsets: Sequence[Offset] = OFFSETS,
    season: int | None = None,
    channels: str | None = "shared",
    seconds: float = SECONDS,
    week: int | None = None,
) -> RidgeChoice | None:
    """Combine ridge regressions with these look-backs; None if there are too few rows, or too little time.

    A series is on the scale of the others and has no gaps. The first look-back and the first offset are the
    baseline. Each penalty is that of the lowest error on the rows that follow; the regressions that are
    combined at last are fitted to all training rows. `week` is the number of rows in a week, if the season is
    a day. `channels` is "shared": one map serves all series;
    "own": each has one, near the shared map; or None: as far as that certainly gains.
    """
    if not lookbacks or horizon > MAX_HORIZON or seconds_to_fit(lookbacks, horizon, len(offsets)) > seconds:
        return None
    time = min(1.0, seconds / SECONDS)
    validated = any(len(rows) >= horizon for rows in validation)
    before, after = (training, validation) if validated else hold_back(training)
    stride = choose_stride(training, lookbacks, horizon, time)
    trials = cut_trials(series, before, after, max(lookbacks), horizon, stride)
    if not trials:
        return None
    candidates, errors = list[_Candidate](), dict[int, float]()
    for lookback in lookbacks:
        parts = [*(each.fitted for each in trials), training]
        fitted = fit_moments(series, parts, lookback, horizon, stride)
        for offset in offsets:
            error, maps, judged = _fit_maps(fitted, trials, offset, stride)
            candidates.append(_Candidate(f"ridge {lookback}", offset, maps, judged))
            errors[lookback] = min(error, errors.get(lookback, np.inf))
    rules = {"last value": 1, "last season": season or 1, "last week": week or 1}
    rules = {name: rows for name, rows in rules.items() if rows <= max(lookbacks)}
    rules = {name: rows for name, rows in rules.items() if rows > 1 or name == "last value"}
    for name, rows in rules.items():
        rule = last_season(horizon, rows)
        candidates.append(_Candidate(name, None, [rule] * (len(trials) + 1), [rule] * len(trials)))
    choice, maps = _combine(series, trials, candidates, offsets, errors, stride)
    choice = replace(choice, validated=validated)
    if channels == "shared" or len(series) == 1:
        return choice
    if not may_have_own(len(series), choice.lookback, horizon, time):
        if channels is None:
            return choice
        raise InputError(
            "channels",
            f"is own, but {len(series):,} maps of {choice.lookback:,} rows back and {horizon:,} ahead are "
            "too large or take too long; set shared",
        )
    own_maps = fit_own_maps(series, trials, training, maps, choice.normalise, stride, whole=channels == "own")
    return replace(choice, own=own_maps)


class _Candidate(NamedTuple):
    """A linear map F of windows: its name and what it subtracts."""

    name: str
    offset: Offset | None
    maps: list[Array]
    """F for each of the trials, with the penalty that is best there, and for all training rows."""
    judged: list[Array]
    """F for each of the trials, with the penalty that is best on the others."""


def _combine(
    series: Sequence[Array],
    trials: Sequence[Trial],
    candidates: Sequence[_Candidate],
    offsets: Sequence[Offset],
    errors: dict[int, float],
    stride: int,
) -> tuple[RidgeChoice, list[Array]]:
    """Find the combination of least error on the trials, and take the mean with the baseline.

    The result reads at least as many rows as the first candidate. Its maps are also returned for each trial,
    with the map of all rows at the end.
    """
    tables = [
        error_products(trial.moments, [each.maps[number] for each in candidates])
        for number, trial in enumerate(trials)
    ]
    first = _find_first(candidates, tables)
    *others, weights = map(_best_weights, sum_others(tables))
    # The errors of the baseline and of the combination on each trial, with weights chosen on the others.
    compared: list[dict[int, Array]] = [{} for _ in trials]
    for number, (trial, mix) in enumerate(zip(trials, others, strict=True)):
        combined = _add_judged(candidates, mix, number)
        for values, rows in zip(series, trial.tested, strict=True):
            add_errors(compared[number], values, rows, candidates[first].judged[number], combined)
    share = certain_share(compared, MIN_SHARE)
    weights *= share
    weights[first] += 1 - share
    used = [(float(weight), each) for weight, each in zip(weights, candidates, strict=True) if weight > 0]
    lookback = max(len(each.maps[-1]) for each in (candidates[0], *(each for _, each in used)))
    products = np.sum(tables, axis=0)
    regressions = range(len(errors) * len(offsets))
    offset = offsets[min(regressions, key=lambda number: products[number, number]) % len(offsets)]
    maps = [
        add_maps([(weight, each.maps[number]) for weight, each in used], lookback)
        - offset_weights(lookback, offset)[:, None]
        for number in range(len(trials) + 1)
    ]
    shares: dict[str, float] = {}
    for weight, each in used:
        shares[each.name] = shares.get(each.name, 0.0) + weight
    before, both, after = np.sum([sums for trial in compared for sums in trial.values()], axis=0)
    error = (1 - share) ** 2 * before + 2 * share * (1 - share) * both + share**2 * after
    gain = saved_part(error, before, trials)
    first_weights = np.eye(len(candidates))[first]
    judged = [share * mix + (1 - share) * first_weights for mix in others]
    squares = square_errors(
        series, trials, [_add_judged(candidates, mix, k) for k, mix in enumerate(judged)], stride
    )
    return RidgeChoice(maps[-1], offset, shares, errors, candidates[first].name, gain, squares=squares), maps


def _best_weights(products: Array) -> Array:
    """The weights of the combination of least error, without very small ones."""
    weights = least_combination(products)
    weights[weights < MIN_WEIGHT] = 0
    return np.asarray(weights / weights.sum())


def _add_judged(candidates: Sequence[_Candidate], weights: Array, number: int) -> Array:
    """The combination of the maps that a trial is judged by."""
    longest = max(len(each.maps[-1]) for each in candidates)
    return add_maps(
        [(float(weight), each.judged[number]) for weight, each in zip(weights, candidates, strict=True)],
        longest,
    )


def _find_first(candidates: Sequence[_Candidate], tables: Sequence[Array]) -> int:
    """Return the number of the baseline: a rule that is better than the first on every part, or the first."""
    errors = [[table[number, number] for table in tables] for number in range(len(candidates))]
    better = [
        number
        for number, each in enumerate(candidates)
        if each.offset is None
        and all(error < first_error for error, first_error in zip(errors[number], errors[0], strict=True))
    ]
    return min(better, key=lambda number: float(np.sum(errors[number])), default=0)


def _fit_maps(
    fitted: Sequence[Moments], trials: Sequence[Trial], offset: Offset, stride: int
) -> tuple[float, list[Array], list[Array]]:
    """The lowest error of a forecast value in the last trial, and the maps F of a candidate.

    The penalty of the last trial is that of all training rows, too, as for the baseline.
    """
    lookback, horizon = fitted[0].cross.shape
    known = [normalise(each, lookback, offset) for each in fitted]
    errors = []
    for trial, old in zip(trials, known, strict=False):
        new = normalise(trial.moments, lookback, offset)
        errors.append(np.array([new.squared_error(old.weights(each / stride)) for each in PENALTIES]))

    def fit(places: Sequence[Array]) -> list[Array]:
        best = (PENALTIES[int(each.argmin())] for each in places)
        return [whole_map(old.weights(each / stride), offset) for old, each in zip(known, best, strict=False)]

    error = float(errors[-1].min()) / (trials[-1].moments.windows * horizon)
    return error, fit([*errors, errors[-1]]), fit(sum_others(errors)[:-1])
