"""Back-testing: how good a model would have been, from one origin after another, beside rules of thumb."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from throughtime.data.frequency import spelled
from throughtime.data.panel import Panel
from throughtime.errors import InputError, unknown
from throughtime.metrics import forecast as measures
from throughtime.models.naive import BASELINES
from throughtime.tasks.baselines import Baseline, season_of
from throughtime.tasks.conformal import KINDS, Intervals, windows_needed
from throughtime.tasks.forecasts import Forecasting
from throughtime.tasks.rolling import Rolled, Rolling, joined, roll

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]

GRID = tuple(round(0.05 * each, 2) for each in range(1, 20))
"""The probabilities that CRPS is taken over, for the model and the rules of thumb alike."""
GRID_LEVEL = 90.0  # per cent: the widest interval on that grid
OWN, AUTO, CONFORMAL, NONE = "own", "auto", "conformal", "none"
CHOICES = (AUTO, OWN, CONFORMAL, *KINDS)
MOST_EARLIER = 100  # windows: more tell little, and what is long ago tells of another time


@dataclass(frozen=True)
class Judged:
    """The figures of one forecaster: in all, for each step ahead, and for each series."""

    name: str
    total: dict[str, float]
    steps: dict[str, list[float]]
    series: dict[str, dict[str, float]]
    windows: Rolled

    def values(self) -> dict[str, Any]:
        """All figures, by name."""
        return {"total": self.total, "by_step": self.steps, "by_series": self.series}


@dataclass(frozen=True)
class Backtest:
    """A model's figures, and after them those of the rules of thumb on the same windows."""

    rolling: Rolling
    levels: tuple[float, ...]
    season: int
    interval_kind: str  # own, the conformal kind, or none
    earlier_windows: int  # from which each window's intervals were made
    without: str | None  # why there are no intervals, where there are none
    origins: list[str]  # of the first series: the last time that was known
    trained_on: int  # windows, earlier ones included, that reach into rows that the model was trained on
    judged: list[Judged]

    def values(self) -> dict[str, Any]:
        """All of it, for machines."""
        return {
            "h": self.rolling.h,
            "n_windows": self.rolling.n_windows,
            "step_size": self.rolling.step_size,
            "season": self.season,
            "levels": list(self.levels),
            "intervals": self.interval_kind,
            "earlier_windows": self.earlier_windows,
            "windows_trained_on": self.trained_on,
            "origins": self.origins,
            "figures": {one.name: one.values() for one in self.judged},
        }


class Calibrated(NamedTuple):
    """Conformal intervals, and of how many windows, some of which may hold rows the model was trained on."""

    intervals: Intervals
    n_windows: int
    trained_on: int


def backtest(
    model: Forecasting,
    panel: Panel,
    h: int,
    n_windows: int = 8,
    step_size: int | None = None,
    levels: Sequence[float] = (80, 95),
    intervals: str = AUTO,
    earlier_windows: int | None = None,
    season: int | None = None,
    history: int = 1,
    unseen: int | None = None,
    progress: Progress | None = None,
) -> Backtest:
    """Forecast `h` rows from each of `n_windows` origins, `step_size` (else `h`) rows apart, and measure.

    `intervals` are the model's own, or conformal: absolute, scaled or quantiles (see tasks.conformal), where
    `conformal` means quantiles if it has some, else absolute; auto means its own if it has some, else
    absolute. Conformal ones of a window come from the `earlier_windows` before it whose every row was known
    by then: what is tested never made the interval that it is tested against.

    `history` is how many rows the model needs before it can forecast; `unseen` how many rows at the end of
    every series it was not trained on: earlier windows are looked for there first.
    """
    if intervals not in CHOICES:
        raise unknown("kind of intervals", intervals, CHOICES)
    rolling = Rolling(n_windows, h if step_size is None else step_size, h)
    season = season or season_of(panel)
    history = max(history, season + 1)  # a season and a row: MASE and seasonal-naive live on them
    rolling.check(panel, history)
    asked = probabilities(levels)
    tested = roll(model, panel, rolling, asked, season, progress)
    kind = _kind(intervals, tested)
    earlier, without = 0, None
    if kind != OWN:
        try:
            earlier = _earlier(rolling, panel, history, unseen, levels, earlier_windows)
        except InputError as error:
            # Nobody asked for intervals of a model of points: its errors can be measured all the same.
            if intervals != AUTO or earlier_windows is not None:
                raise
            kind, without = NONE, str(error)
    if earlier:
        # Without the last rows, the last windows are those just before the tested ones.
        before = replace(rolling, n_windows=rolling.gap - 1 + earlier)
        past = roll(model, panel.until(n_windows * rolling.step_size), before, asked, season, progress)
        tested = _conformal(joined([past, tested]), n_windows, earlier, kind, asked)
    scale = np.array([measures.seasonal_scale(one.y[: -rolling.cuts[0]], season) for one in panel.series])
    judged = [judge(model.name, tested, levels, scale)]
    for name in BASELINES:
        rolled = roll(Baseline(name, season), panel, rolling, asked, season)
        judged.append(judge(name, rolled, levels, scale))
    first = panel.series[0]
    origins = spelled(first.ds[[len(first) - cut - 1 for cut in rolling.cuts]])
    trained_on = _trained_on(rolling.with_earlier(earlier), unseen)
    return Backtest(rolling, tuple(levels), season, kind, earlier, without, origins, trained_on, judged)


def calibrated(
    model: Forecasting,
    panel: Panel,
    h: int,
    levels: Sequence[float] = (80, 95),
    intervals: str = CONFORMAL,
    season: int | None = None,
    history: int = 1,
    unseen: int | None = None,
    progress: Progress | None = None,
) -> Calibrated:
    """Conformal intervals for what comes after the data, from up to 100 windows at their end.

    They lie in the `unseen` rows if enough fit there, as far apart as there is room, a horizon at most.
    """
    if intervals not in (CONFORMAL, *KINDS):
        raise unknown("kind of conformal intervals", intervals, (CONFORMAL, *KINDS))
    season = season or season_of(panel)
    history = max(history, season + 1)
    asked, needed = probabilities(levels), _needed(levels)
    rows = min(len(series) for series in panel.series) - history
    if unseen is not None and unseen >= h + needed - 1:
        rows = min(rows, unseen)
    n_windows = max(needed, min(MOST_EARLIER, rows - h + 1))
    rolling = Rolling(n_windows, max(1, min(h, (rows - h) // max(n_windows - 1, 1))), h)
    rolling.check(panel, history)
    rolled = roll(model, panel, rolling, asked, season, progress)
    found = KINDS[_kind(intervals, rolled)].of(rolled.evened())
    return Calibrated(found, n_windows, _trained_on(rolling, unseen))


def probabilities(levels: Sequence[float]) -> list[float]:
    """The ends of the intervals of these levels, in per cent, and what of the grid of CRPS lies within them.

    >>> [p for p in probabilities([50, 95]) if p not in GRID]
    [0.025, 0.975]
    """
    for level in levels:
        if not 0 < level < 100:
            raise InputError("--level", f"is {level:g}, expected a percentage between 0 and 100")
    low, high = ends(max(levels, default=GRID_LEVEL))
    return sorted({*(p for p in GRID if low <= p <= high), *(p for level in levels for p in ends(level))})


def ends(level: float) -> tuple[float, float]:
    """The probabilities between which an interval of this level, in per cent, lies.

    >>> ends(80)
    (0.1, 0.9)
    """
    return round(0.5 - level / 200, 10), round(0.5 + level / 200, 10)


def judge(name: str, windows: Rolled, levels: Sequence[float], scale: Array) -> Judged:
    """Measure in all, by step and by series; `scale` has what MASE divides by, for each series."""
    total = measured(windows, levels, scale, None)
    steps = measured(windows, levels, scale, (0, 1))
    series = measured(windows, levels, scale, (0, 2))
    return Judged(
        name,
        {figure: float(value) for figure, value in total.items()},
        {figure: value.tolist() for figure, value in steps.items()},
        {
            unique_id: {figure: float(value[place]) for figure, value in series.items()}
            for place, unique_id in enumerate(windows.series)
        },
        windows,
    )


def measured(windows: Rolled, levels: Sequence[float], scale: Array, axis: measures.Axis) -> dict[str, Any]:
    """Every measure over the axes windows, series and steps that `axis` names. CRPS of a point is |y - f|."""
    y, mean, quantiles = windows.y, windows.mean, windows.quantiles
    grid = {p: quantiles[p] for p in GRID if p in quantiles}
    figures = {
        "mae": measures.mae(y, mean, axis),
        "rmse": measures.rmse(y, mean, axis),
        "smape": measures.smape(y, mean, axis),
        "mase": measures.mase(y, mean, scale[:, None], axis),
        "crps": measures.crps_quantiles(y, grid, axis) if grid else measures.mae(y, mean, axis),
    }
    for level in levels if quantiles else ():
        low, high = (quantiles[p] for p in ends(level))
        figures[f"coverage-{level:g}"] = 100 * measures.coverage(y, low, high, axis)
        figures[f"width-{level:g}"] = measures.mean_width(low, high, axis)
    return figures


def _kind(intervals: str, tested: Rolled) -> str:
    """The kind of intervals that is meant for a model that has quantiles, or has none."""
    if tested.quantiles:
        return {AUTO: OWN, CONFORMAL: "quantiles"}.get(intervals, intervals)
    if intervals == OWN:
        raise InputError("--intervals own", "needs a model with quantiles; this one forecasts points only")
    return {AUTO: "absolute", CONFORMAL: "absolute"}.get(intervals, intervals)


def _earlier(
    rolling: Rolling,
    panel: Panel,
    history: int,
    unseen: int | None,
    levels: Sequence[float],
    wanted: int | None,
) -> int:
    """How many earlier windows the intervals are made of: as asked for, else as many as there are."""
    needed = _needed(levels)
    if wanted is not None and wanted < needed:
        widest = max(levels, default=GRID_LEVEL)
        problem = f"is {wanted}, and intervals of {widest:g} % take at least {needed}"
        raise InputError("--earlier-windows", problem)
    rows = min(len(series) for series in panel.series) - history
    room = rolling.room(rows if unseen is None else min(rows, unseen))
    earlier = wanted or max(needed, min(MOST_EARLIER, room))
    rolling.check(panel, history, earlier)
    return earlier


def _needed(levels: Sequence[float]) -> int:
    """How many windows make the widest interval finite."""
    return windows_needed(max(levels, default=GRID_LEVEL) / 100)


def _trained_on(rolling: Rolling, unseen: int | None) -> int:
    """How many windows reach into the rows before the `unseen` ones."""
    return 0 if unseen is None else sum(cut > unseen for cut in rolling.cuts)


def _conformal(everything: Rolled, n_windows: int, earlier: int, kind: str, asked: Sequence[float]) -> Rolled:
    """The last windows, each with intervals from the `earlier` ones that were over at its origin."""
    tested = everything.windows(slice(-n_windows, None))
    evened = everything.evened()
    adjusted = []
    for place in range(n_windows):
        past = KINDS[kind].of(evened.windows(slice(place, place + earlier)))
        last = len(evened) - n_windows + place
        adjusted.append(past.adjusted(evened.windows(slice(last, last + 1)), asked))
    quantiles = {p: np.concatenate([one[p] for one in adjusted]) for p in asked}
    return replace(tested, quantiles=tested.in_own_units(quantiles))
