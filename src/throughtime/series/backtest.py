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
from throughtime.series.baselines import BASELINES, Baseline, ForecastModel, find_season
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
        rows = [["", "MAE", "RMSE", "sMAPE %", "MASE", "CRPS", *(f"in {level:g} %" for level in self.levels)]]
        for model in self.figures:
            covered = [model.total.get(f"coverage-{level:g}") for level in self.levels]
            shares = ["-" if share is None else f"{share:.1f} %" for share in covered]
            rows.append([model.name, *(f"{model.total[name]:,.4g}" for name in names), *shares])
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
            "figures": {model.name: model.to_dict() for model in self.figures},
            "left_out": self.left_out,
            "beaten_by": self.beaten_by,
            "notes": self.notes,
        }

    @property
    def beaten_by(self) -> dict[str, list[str]]:
        """The baselines with a lower error than the model, and in which measures."""
        model, *baselines = self.figures
        return beaten_by(model.total, {other.name: other.total for other in baselines}, ("mae", "rmse"))

    @property
    def notes(self) -> list[str]:
        """Sentences about baselines that are better or left out, and about levels with too few scores."""
        model, *baselines = self.figures
        size, totals = model.windows.y.size, {other.name: other.total for other in baselines}
        sentences = loss_sentences(model.name, model.total, totals, self.beaten_by)
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
    rolling = _place_windows(panel, h, n_windows, step_size, history)
    grid = grid_within(*model.reach)
    tested = roll(model, panel, rolling, probabilities(levels, grid), season, progress)
    kind, earlier, without = _kind(intervals, tested), 0, None
    if kind != OWN:
        grid, shared = grid if kind == QUANTILES else GRID, kind == SCALED
        try:
            earlier = windows_before(rolling, panel, history, unseen, levels, earlier_windows, shared)
        except InputError as error:
            # Intervals were not asked for explicitly: measure the errors without them.
            if intervals != AUTO or earlier_windows is not None:
                raise
            kind, without = NONE, str(error)
    if earlier:
        counts = scores_before(rolling, panel, earlier, kind == SCALED)[~np.isnan(tested.y)]
        grid = _finite_grid(grid, counts)
        # Without the rows of the tested windows, the origins before these are the last ones.
        before = replace(rolling, n_windows=rolling.gap - 1 + earlier)
        shorter = panel.drop_last(rolling.n_windows * rolling.step_size)
        past = roll(model, shorter, before, list(tested.quantiles), season, progress)
        tested = _adjust_windows(past, tested, earlier, kind, probabilities(levels, grid))
    infinite = {level: infinite_intervals(tested, level) for level in levels if tested.quantiles}
    lost = [level for level, ends in infinite.items() if ends.any() and ends[~np.isnan(tested.y)].all()]
    kept = [level for level in levels if level not in lost]
    scale = np.array(
        [measures.seasonal_scale(series.y[: -rolling.cuts[0]], season) for series in panel.series]
    )
    figures = [measure_model(model.name, tested, kept, scale, grid)]
    fitting = fitting or Fitting.before(panel, rolling.cuts[0])
    fitted, left_out = RidgeBaseline.try_to_fit(panel, rolling.h, fitting)
    for baseline in (*(Baseline(rule, season) for rule in BASELINES), *fitted):
        rolled = roll(baseline, panel, rolling, probabilities(kept, grid), season)
        figures.append(measure_model(baseline.name, rolled, kept, scale, grid))
    first, trained_on = panel.series[0], _count_trained_windows(rolling, unseen)
    return Backtest(
        rolling,
        tuple(kept),
        season,
        kind,
        earlier,
        without,
        grid,
        {level: int(ends.sum()) for level, ends in infinite.items() if ends.any()},
        format_times(first.ds[[len(first) - cut - 1 for cut in rolling.cuts]]),
        trained_on,
        _count_trained_windows(rolling.add_earlier(earlier), unseen) - trained_on,
        figures,
        left_out,
    )


def _place_windows(
    panel: Panel, h: int, n_windows: int | None, step_size: int | None, history: int
) -> Rolling:
    """Return the tested windows, which need `history` rows before them."""
    step_size = h if step_size is None else step_size
    if n_windows is None:
        room = min(map(len, panel.series)) - history - h
        n_windows = max(1, min(MAX_WINDOWS, room // max(step_size, 1) + 1))
    rolling = Rolling(n_windows, step_size, h)
    rolling.check(panel, history)
    return rolling


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
    measured = KINDS[_kind(intervals, rolled)].of(rolled.to_power_scale())
    infinite = int((count_scores(rolling, panel, intervals == SCALED) < scores_needed(levels)).sum())
    return Calibration(measured, rolling.n_windows, _count_trained_windows(rolling, unseen), infinite)


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
    past: PastWindows, tested: PastWindows, earlier: int, kind: str, asked: Sequence[float]
) -> PastWindows:
    """Return the tested windows, each with intervals from the `earlier` ones that ended before it."""
    even = join_windows([past, tested]).to_power_scale()
    adjusted = []
    for number in range(len(tested)):
        intervals = KINDS[kind].of(even.windows(slice(number, number + earlier)))
        window = len(past) + number
        adjusted.append(intervals.adjust(even.windows(slice(window, window + 1)), asked))
    quantiles = {p: np.concatenate([each[p] for each in adjusted]) for p in asked}
    return replace(tested, quantiles=tested.to_own_units(quantiles))
