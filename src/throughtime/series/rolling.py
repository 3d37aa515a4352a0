"""Past windows: forecasts from one past origin after another, each without seeing later rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Panel, Series
from throughtime.errors import InputError, check_whole
from throughtime.metrics.forecast import seasonal_scale
from throughtime.results import Forecast
from throughtime.series.baselines import ForecastModel
from throughtime.series.scaling import PLAIN, apply_power, undo_power
from throughtime.text.texts import format_count

Array = NDArray[np.float64]
ROUNDING = 1e-9  # 0.95 x 20 is 19, whatever floating point says
RECENT_SEASONS = 4  # seasons over which the recent change of a series is measured
RECENT_ROWS = 32  # minimum number of rows, if the season is short


@dataclass(frozen=True)
class Rolling:
    """`n_windows` origins, `step_size` rows apart; the last window ends with the data.

    >>> Rolling(n_windows=3, step_size=2, h=4).cuts          # rows after each origin, oldest first
    [8, 6, 4]
    """

    n_windows: int
    step_size: int
    h: int

    def __post_init__(self) -> None:
        """Refuse sizes below 1."""
        for name, value in asdict(self).items():
            check_whole(name, value)

    @property
    def cuts(self) -> list[int]:
        """Number of rows after each origin, oldest first."""
        return [self.h + self.step_size * later for later in reversed(range(self.n_windows))]

    @property
    def gap(self) -> int:
        """Number of windows back to the last one that ends before the origin of a window.

        >>> Rolling(n_windows=3, step_size=2, h=5).gap
        3
        """
        return -(-self.h // self.step_size)

    def add_earlier(self, windows: int) -> Rolling:
        """Return these windows and additional earlier ones that end before the first origin."""
        return replace(self, n_windows=self.n_windows + self.gap - 1 + windows) if windows else self

    def room(self, rows: int) -> int:
        """Return the number of earlier windows that fit into the last `rows`.

        >>> rolling = Rolling(n_windows=3, step_size=2, h=4)
        >>> rolling.room(12), rolling.add_earlier(1).cuts
        (1, [12, 10, 8, 6, 4])
        """
        return max(0, (rows - self.cuts[0]) // self.step_size - self.gap + 1)

    def check(self, panel: Panel, history: int, earlier: int = 0) -> None:
        """Refuse series with fewer than `history` rows before the first origin of all windows."""
        needed = history + self.add_earlier(earlier).cuts[0]
        for series in panel.series:
            if len(series) < needed:
                windows = format_count(self.n_windows, "window")
                if earlier:
                    windows += f" and {earlier} earlier ones for the intervals,"
                raise InputError(
                    f"series {series.unique_id!r}",
                    f"has {len(series):,} rows, and {windows} of {self.h} rows, {self.step_size} apart, "
                    f"after at least {history} rows of history need {needed:,}; ask for fewer windows, a "
                    "smaller step or a shorter horizon",
                )


@dataclass(frozen=True, eq=False)
class PastWindows:
    """The forecasts of W windows of S series, and the values that were then observed."""

    series: tuple[str, ...]
    y: Array  # [W, S, h]
    mean: Array  # [W, S, h]
    quantiles: dict[float, Array]  # probability to [W, S, h]
    recent_change: Array  # [W, S]: mean |y_t - y_{t-m}| of the last seasons before the origin
    season: int  # m
    powers: Array  # [W, S]: Box-Cox powers; `recent_change` is on their scale, the rest in original units

    def __len__(self) -> int:
        """Number of windows."""
        return len(self.y)

    def windows(self, chosen: slice) -> PastWindows:
        """Return some of the windows."""
        return _combine([self], lambda arrays: arrays[0][chosen])

    def to_power_scale(self) -> PastWindows:
        """Return the windows on the scale of the powers, where errors do not depend on the level."""
        if (self.powers == PLAIN).all():
            return self
        powers = self.powers[..., None]
        quantiles = {p: apply_power(values, powers) for p, values in self.quantiles.items()}
        return replace(
            self, y=apply_power(self.y, powers), mean=apply_power(self.mean, powers), quantiles=quantiles
        )

    def to_own_units(self, quantiles: dict[float, Array]) -> dict[float, Array]:
        """Return quantiles [W, S, h] on the scale of the powers to original units."""
        return {p: undo_power(values, self.powers[..., None]) for p, values in quantiles.items()}


def roll(
    model: ForecastModel,
    panel: Panel,
    rolling: Rolling,
    probabilities: Sequence[float],
    season: int,
    progress: Callable[[int, int], None] | None = None,
) -> PastWindows:
    """Forecast from every origin. The model sees no later row, except columns known in the future."""
    windows, h = [], rolling.h
    for cut in rolling.cuts:
        history, future = panel.drop_last(cut), None
        if panel.known_names:
            future = replace(panel, series=tuple(_select_known(series, cut, h) for series in panel.series))
        y = np.stack([series.y[len(series) - cut :][:h] for series in panel.series])
        forecasts = model.predict(history, h, probabilities, future=future)
        windows.append(gather_window(model, history, forecasts, y, season))
        if progress is not None:
            progress(len(windows), rolling.n_windows)
    return join_windows(windows)


def join_windows(windows: Sequence[PastWindows]) -> PastWindows:
    """Concatenate windows."""
    return _combine(windows, np.concatenate)


def _combine(windows: Sequence[PastWindows], function: Callable[[list[Array]], Array]) -> PastWindows:
    """Apply a function to every array of some windows."""
    first = windows[0]
    arrays: dict[str, Any] = {
        name: function([getattr(each, name) for each in windows])
        for name in ("y", "mean", "recent_change", "powers")
    }
    quantiles = {p: function([each.quantiles[p] for each in windows]) for p in first.quantiles}
    return replace(first, quantiles=quantiles, **arrays)


def gather_window(
    model: ForecastModel, history: Panel, forecasts: Sequence[Forecast], y: Array, season: int
) -> PastWindows:
    """Join the forecasts of every series to one window; `y` [S, h] are the values that followed."""
    by_name = {forecast.unique_id: forecast for forecast in forecasts}
    ordered = [by_name[name] for name in history.names]
    powers = [model.power(series) for series in history.series]
    even = [apply_power(series.y, power) for series, power in zip(history.series, powers, strict=True)]
    return PastWindows(
        history.names,
        y[None],
        np.stack([forecast.mean for forecast in ordered])[None],
        {p: np.stack([forecast.quantiles[p] for forecast in ordered])[None] for p in ordered[0].quantiles},
        np.array([[measure_recent_change(values, season) for values in even]]),
        season,
        np.array([powers]),
    )


def measure_recent_change(y: Array, season: int) -> float:
    """Return the mean |y_t - y_{t-m}| of the last seasons, or of the whole history if that is 0; never 0.

    >>> round(measure_recent_change(np.array([0.0, 2.0, 1.0, 5.0]), season=1), 4)       # of 2, 1 and 4
    2.3333
    """
    rows = max(RECENT_SEASONS * season, RECENT_ROWS) + season
    for values in (y[-rows:], y):
        scale = seasonal_scale(values, season)
        if scale > 0:
            return scale
    return 1.0


def _select_known(series: Series, cut: int, h: int) -> Series:
    """The rows to forecast, with only the columns that are known in the future."""
    rows = series.rows(slice(len(series) - cut, len(series) - cut + h))
    return replace(rows, y=np.full_like(rows.y, np.nan), past=np.full_like(rows.past, np.nan))


Counts = NDArray[np.int64]
MAX_EARLIER = 100  # more windows add little, and old ones may no longer be representative
USUAL_LEVEL = 90.0  # per cent, if no level is given


def windows_needed(level: float) -> int:
    """Return the number of windows from which an interval of this level is finite.

    >>> windows_needed(0.8), windows_needed(0.95)
    (4, 19)
    """
    return math.ceil(level / (1 - level) - ROUNDING)


def scores_needed(levels: Sequence[float]) -> int:
    """Return the number of scores from which the widest interval is finite; levels are in per cent.

    >>> scores_needed([80, 95])
    19
    """
    return windows_needed(max(levels, default=USUAL_LEVEL) / 100)


def windows_before(
    rolling: Rolling,
    panel: Panel,
    history: int,
    unseen: int | None,
    levels: Sequence[float],
    wanted: int | None = None,
    shared: bool = False,
) -> int:
    """Return the number of earlier windows for the intervals of each tested window, by default up to 100.

    They lie in the `unseen` rows, unless that leaves too few scores. `shared` scores serve all series.
    """
    needed = scores_needed(levels)
    if wanted is not None and wanted < needed:
        widest = max(levels, default=USUAL_LEVEL)
        problem = f"is {wanted}, but intervals of {widest:g} % need at least {needed}"
        raise InputError("earlier_windows", problem)
    rows = min(len(series) for series in panel.series) - history
    room = rolling.room(rows if unseen is None else min(rows, unseen))
    earlier = wanted or max(1, needed, min(MAX_EARLIER, room))
    rolling.check(panel, history, earlier)
    if wanted is not None:
        return wanted
    # Gaps in the data may take more windows.
    most = max(earlier, min(rolling.room(rows), max(MAX_EARLIER, 2 * needed)))
    tested, short = observed_values(rolling, panel), list[int]()
    for counts in islice(_scores_before(rolling, panel, shared), earlier - 1, most):
        short.append(int((tested & (counts < needed)).sum()))
        if not short[-1]:
            break
    return earlier + short.index(min(short))


def scores_before(rolling: Rolling, panel: Panel, earlier: int, shared: bool = False) -> Counts:
    """Count the observed scores that `earlier` windows give each tested value, [W, S, h].

    >>> from throughtime.data.panel import Series
    >>> panel = Panel((Series.of("a", [1, 2, np.nan, 4, 5, 6]),), None)
    >>> scores_before(Rolling(n_windows=1, step_size=1, h=1), panel, earlier=4).ravel()
    array([3])
    """
    return next(islice(_scores_before(rolling, panel, shared), earlier - 1, None))


def _scores_before(rolling: Rolling, panel: Panel, shared: bool) -> Iterator[Counts]:
    """The same for 1, 2, ... earlier windows."""
    counts = np.zeros((rolling.n_windows, len(panel.series), rolling.h), dtype=np.int64)
    for window in count(rolling.gap):
        scored = observed_values(rolling, panel, lag=rolling.step_size * window)
        counts = counts + (scored.sum(axis=1, keepdims=True) if shared else scored)
        yield counts


def observed_values(rolling: Rolling, panel: Panel, lag: int = 0) -> NDArray[np.bool_]:
    """Return which values `lag` rows before the tested ones were observed, [W, S, h]."""
    observed = [~np.isnan(series.y) for series in panel.series]
    starts = [-lag - cut for cut in rolling.cuts]
    return np.stack([[row[len(row) + start :][: rolling.h] for row in observed] for start in starts])


def last_windows(
    panel: Panel, h: int, history: int, unseen: int | None, levels: Sequence[float], shared: bool = False
) -> Rolling:
    """Place up to 100 windows at the end of the data, as far apart as possible, at most a horizon.

    They lie in the `unseen` rows if enough fit there. If gaps leave too few scores, all rows are used, and
    then windows one row closer together: with windows a week apart, a value that is missing once a week
    always falls on the same step.
    """
    needed = scores_needed(levels)
    rows = min(len(series) for series in panel.series) - history
    rooms = [rows]
    if unseen is not None and unseen >= h + needed - 1:
        rooms.insert(0, min(rows, unseen))
    choices = []
    for room in rooms:
        n_windows = max(needed, min(MAX_EARLIER, room - h + 1))
        apart = max(1, min(h, (room - h) // max(n_windows - 1, 1)))
        choices += [Rolling(n_windows, step_size, h) for step_size in (apart, max(1, apart - 1))]
    choices[0].check(panel, history)
    enough = (each for each in choices if (count_scores(each, panel, shared) >= needed).all())
    return next(enough, choices[0])


def count_scores(rolling: Rolling, panel: Panel, shared: bool) -> Counts:
    """Count the observed values that these windows forecast, [S, h], or [h] over all series."""
    counts: Counts = observed_values(rolling, panel).sum(axis=(0, 1) if shared else 0)
    return counts
