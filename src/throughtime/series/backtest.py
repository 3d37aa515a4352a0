"""Backtesting: forecast from one past origin after another, and compare with baselines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Panel
from throughtime.errors import InputError, unknown
from throughtime.metrics import forecast as measures
from throughtime.results import Progress, format_times
from throughtime.runtime.forecast import ends
from throughtime.series.baselines import BASELINES, Baseline, find_season
from throughtime.series.conformal import KINDS, Intervals, QuantileIntervals, ScaledIntervals
from throughtime.series.figures import (
    GRID,
    ModelFigures,
    beaten_by,
    grid_within,
    infinite_intervals,
    loss_sentences,
    measure_model,
    probabilities,
)
from throughtime.series.protocol import ForecastModel
from throughtime.series.ridge import NAME as RIDGE
from throughtime.series.ridge import Fitting, RidgeBaseline
from throughtime.series.rolling import (
    USUAL_LEVEL,
    PastWindows,
    Rolling,
    count_scores,
    join_windows,
    last_windows,
    roll,
    scores_before,
    scores_needed,
    windows_before,
    windows_needed,
)
from throughtime.text.texts import align_columns, format_count

Array = NDArray[np.float64]

OWN, AUTO, CONFORMAL, NONE = "own", "auto", "conformal", "none"
SCALED, QUANTILES = ScaledIntervals.kind, QuantileIntervals.kind
MAX_WINDOWS = 8
"""Number of windows by default, if the series are long enough."""
CHOICES = (AUTO, OWN, CONFORMAL, *KINDS)


@dataclass(frozen=True)
class Backtest:
    """The measures of a model, followed by those of the baselines on the same windows."""

    rolling: Rolling
    levels: tuple[float, ...]
    season: int
    interval_kind: str  # own, the conformal kind, or none
    earlier_windows: int  # number of windows that the intervals of each window come from
    without: str | None  # why there are no intervals, if there are none
    grid: tuple[float, ...]  # the part of GRID that CRPS is computed over
    infinite: dict[float, int]  # by level, the number of intervals of the model with too few scores, if any
    origins: list[str]  # the last known time of the first series, for each window
    trained_on: int  # number of tested windows that overlap with training rows
    earlier_trained_on: int  # the same of the windows before them, which only set the intervals
    figures: list[ModelFigures]
    left_out: dict[str, str]  # baselines that could not be fitted, and why

    def __str__(self) -> str:
        """The heading, the measures of each model, and the notes, as text."""
        names = ("mae", "rmse", "smape", "mase", "crps")
        rows = [["", "MAE", "RMSE", "sMAPE %", "MASE", "CRPS", *(f"in {one:g} %" for one in self.levels)]]
        for one in self.figures:
            covered = [one.total.get(f"coverage-{level:g}") for level in self.levels]
            shares = ["-" if share is None else f"{share:.1f} %" for share in covered]
            rows.append([one.name, *(f"{one.total[name]:,.4g}" for name in names), *shares])
        return "\n".join([self.heading, *align_columns(rows), *self.notes])

    @property
    def heading(self) -> str:
        """Describe the windows."""
        rolling = self.rolling
        return (
            f"{format_count(rolling.n_windows, 'window')} of {format_count(rolling.h, 'step')}, "
            f"{rolling.step_size} apart, after {self.origins[0]} to {self.origins[-1]}; "
            f"a season is {self.season}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values for JSON."""
        return {
            "h": self.rolling.h,
            "n_windows": self.rolling.n_windows,
            "step_size": self.rolling.step_size,
            "season": self.season,
            "levels": list(self.levels),
            "crps_quantiles": [self.grid[0], self.grid[-1]] if self.grid else None,
            "intervals": self.interval_kind,
            "infinite_intervals": {f"{level:g}": count for level, count in self.infinite.items()},
            "earlier_windows": self.earlier_windows,
            "windows_trained_on": self.trained_on,
            "earlier_windows_trained_on": self.earlier_trained_on,
            "origins": self.origins,
            "figures": {one.name: one.to_dict() for one in self.figures},
            "left_out": self.left_out,
            "beaten_by": self.beaten_by,
            "notes": self.notes,
        }

    @property
    def beaten_by(self) -> dict[str, list[str]]:
        """The baselines with a lower error than the model, and in which measures."""
        own, *others = ((one.name, one.total) for one in self.figures)
        return beaten_by(own[1], dict(others), ("mae", "rmse"))

    @property
    def notes(self) -> list[str]:
        """Sentences about baselines that are better or left out, and about levels with too few scores."""
        own, size = self.figures[0], self.figures[0].windows.y.size
        totals = {one.name: one.total for one in self.figures[1:]}
        sentences = loss_sentences(own.name, own.total, totals, self.beaten_by)
        sentences += [f"{name} is left out: {why}." for name, why in self.left_out.items()]
        for level, count in self.infinite.items():
            why = f"needs {scores_needed([level])} earlier windows in which its step was observed"
            if level in self.levels:
                left = "infinite and left out of coverage and width"
                sentences.append(f"{count:,} of {size:,} intervals of {level:g} % are {left}: each {why}.")
            else:
                sentences.append(f"{level:g} % is left out: an interval {why}, and none has them.")
        return sentences


class Calibration(NamedTuple):
    """Conformal intervals measured on `n_windows` windows, of which `trained_on` overlap with training rows.

    For `infinite` pairs of a series and a step, too few values were observed for the widest interval.
    """

    intervals: Intervals
    n_windows: int
    trained_on: int
    infinite: int


def backtest(
    model: ForecastModel,
    panel: Panel,
    h: int,
    n_windows: int | None = None,
    step_size: int | None = None,
    levels: Sequence[float] = (80, 95),
    intervals: str = AUTO,
    earlier_windows: int | None = None,
    season: int | None = None,
    unseen: int | None = None,
    fitting: Fitting | None = None,
    progress: Progress | None = None,
) -> Backtest:
    """Forecast `h` rows from each of `n_windows` origins, `step_size` (else `h`) rows apart, and measure.

    By default there are 8 of them, fewer if the series are too short for them.
    `intervals` is `own` (those of the model) or a conformal kind: `absolute`, `scaled` or `quantiles` (see
    `series.conformal`). `conformal` means `quantiles` for a model with quantiles, else `absolute`; `auto`
    means `own` for a model with quantiles, else `absolute`. Conformal intervals of a window come from the
    `earlier_windows` that ended before it, so no tested value is used for its own interval.

    `unseen` is the number of rows at the end of every series that the model was not trained on; earlier
    windows are placed there if possible. `fitting` holds the rows that ridge regression is fitted to, such as
    the training and validation rows of the model; by default all rows before the first origin.
    """
    if intervals not in CHOICES:
        raise unknown("kind of intervals", intervals, CHOICES)
    season = season or find_season(panel)
    history = max(model.lookback, season + 1)  # MASE and seasonal-naive need a season and a row
    step_size = h if step_size is None else step_size
    if n_windows is None:
        room = min(map(len, panel.series)) - history - h
        n_windows = max(1, min(MAX_WINDOWS, room // max(step_size, 1) + 1))
    rolling = Rolling(n_windows, step_size, h)
    rolling.check(panel, history)
    grid = grid_within(*model.reach)
    tested = roll(model, panel, rolling, probabilities(levels, grid), season, progress)
    kind = _kind(intervals, tested)
    earlier, without = 0, None
    if kind != OWN:
        shared = kind == SCALED
        grid = grid if kind == QUANTILES else GRID
        try:
            earlier = windows_before(rolling, panel, history, unseen, levels, earlier_windows, shared)
        except InputError as error:
            # Intervals were not asked for explicitly: measure the errors without them.
            if intervals != AUTO or earlier_windows is not None:
                raise
            kind, without = NONE, str(error)
    if earlier:
        # Without the last rows, the last windows are the ones just before the tested windows.
        before = replace(rolling, n_windows=rolling.gap - 1 + earlier)
        own = list(tested.quantiles)
        past = roll(model, panel.drop_last(n_windows * rolling.step_size), before, own, season, progress)
        grid = _finite_grid(grid, scores_before(rolling, panel, earlier, shared)[~np.isnan(tested.y)])
        tested = _adjust_windows(
            join_windows([past, tested]), n_windows, earlier, kind, probabilities(levels, grid)
        )
    infinite = {level: infinite_intervals(tested, level) for level in levels if tested.quantiles}
    lost = [level for level, found in infinite.items() if found.any() and found[~np.isnan(tested.y)].all()]
    kept = [level for level in levels if level not in lost]
    scale = np.array([measures.seasonal_scale(one.y[: -rolling.cuts[0]], season) for one in panel.series])
    figures = [measure_model(model.name, tested, kept, scale, grid)]
    baselines: list[ForecastModel] = [Baseline(name, season) for name in BASELINES]
    left_out = {}
    try:
        baselines.append(RidgeBaseline.fit(panel, h, fitting or Fitting.before(panel, rolling.cuts[0])))
    except InputError as error:
        left_out[RIDGE] = f"{error.where} {error.problem}"
    for one in baselines:
        rolled = roll(one, panel, rolling, probabilities(kept, grid), season)
        figures.append(measure_model(one.name, rolled, kept, scale, grid))
    first, trained_on = panel.series[0], _count_trained_windows(rolling, unseen)
    return Backtest(
        rolling,
        tuple(kept),
        season,
        kind,
        earlier,
        without,
        grid,
        {level: int(found.sum()) for level, found in infinite.items() if found.any()},
        format_times(first.ds[[len(first) - cut - 1 for cut in rolling.cuts]]),
        trained_on,
        _count_trained_windows(rolling.add_earlier(earlier), unseen) - trained_on,
        figures,
        left_out,
    )


def calibrate_intervals(
    model: ForecastModel,
    panel: Panel,
    h: int,
    levels: Sequence[float] = (80, 95),
    intervals: str = CONFORMAL,
    season: int | None = None,
    unseen: int | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Measure conformal intervals for forecasts after the data, on up to 100 windows at its end.

    The windows lie in the `unseen` rows if enough fit there, as far apart as possible, at most a horizon.
    """
    if intervals not in (CONFORMAL, *KINDS):
        raise unknown("kind of conformal intervals", intervals, (CONFORMAL, *KINDS))
    season = season or find_season(panel)
    rolling = last_windows(panel, h, max(model.lookback, season + 1), unseen, levels, intervals == SCALED)
    asked = probabilities(levels, grid_within(*ends(max(levels, default=USUAL_LEVEL))))
    rolled = roll(model, panel, rolling, asked, season, progress)
    found = KINDS[_kind(intervals, rolled)].of(rolled.to_power_scale())
    infinite = int((count_scores(rolling, panel, intervals == SCALED) < scores_needed(levels)).sum())
    return Calibration(found, rolling.n_windows, _count_trained_windows(rolling, unseen), infinite)


def _kind(intervals: str, tested: PastWindows) -> str:
    """The kind of intervals to use, depending on whether the model has quantiles."""
    if tested.quantiles:
        return {AUTO: OWN, CONFORMAL: QUANTILES}.get(intervals, intervals)
    if intervals == OWN:
        raise InputError("intervals", "own needs a model with quantiles, but this one forecasts points only")
    return {AUTO: "absolute", CONFORMAL: "absolute"}.get(intervals, intervals)


def _finite_grid(grid: Sequence[float], scores: NDArray[np.int64]) -> tuple[float, ...]:
    """The part of a grid that is finite for values with these numbers of scores, except those with none."""
    least = scores[scores > 0]
    return tuple(p for p in grid if (least >= windows_needed(abs(2 * p - 1))).all())


def _count_trained_windows(rolling: Rolling, unseen: int | None) -> int:
    """The number of windows that overlap with the rows before the `unseen` ones."""
    return 0 if unseen is None else sum(cut > unseen for cut in rolling.cuts)


def _adjust_windows(
    everything: PastWindows, n_windows: int, earlier: int, kind: str, asked: Sequence[float]
) -> PastWindows:
    """The last windows, each with intervals from the `earlier` ones that ended before it."""
    tested = everything.windows(slice(-n_windows, None))
    even = everything.to_power_scale()
    adjusted = []
    for place in range(n_windows):
        past = KINDS[kind].of(even.windows(slice(place, place + earlier)))
        last = len(even) - n_windows + place
        adjusted.append(past.adjust(even.windows(slice(last, last + 1)), asked))
    quantiles = {p: np.concatenate([one[p] for one in adjusted]) for p in asked}
    return replace(tested, quantiles=tested.to_own_units(quantiles))
