"""Past windows: a model asked from one origin after another, as if the rest had not happened yet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Panel, Series
from throughtime.errors import InputError
from throughtime.metrics.forecast import seasonal_scale
from throughtime.results import Forecast
from throughtime.series.protocol import ForecastModel
from throughtime.series.scaling import PLAIN, apply_power, undo_power

Array = NDArray[np.float64]
ROUNDING = 1e-9  # 0.95 x 20 is 19, whatever floating point says
RECENT_SEASONS = 4  # seasons of the history that tell how lively a series is at an origin
RECENT_ROWS = 32  # rows, where the season is short


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
        """Refuse what is no window."""
        given = {"n_windows": self.n_windows, "step_size": self.step_size, "h": self.h}
        for name, value in given.items():
            if value < 1:
                raise InputError(name, f"is {value}, expected at least 1")

    @property
    def cuts(self) -> list[int]:
        """How many rows of each series lie after the origins, oldest first."""
        return [self.h + self.step_size * later for later in reversed(range(self.n_windows))]

    @property
    def gap(self) -> int:
        """How many windows back one lies whose every row is known at the origin of a window.

        >>> Rolling(n_windows=3, step_size=2, h=5).gap
        3
        """
        return -(-self.h // self.step_size)

    def with_earlier(self, windows: int) -> Rolling:
        """These and so many windows before them whose every row is known at the first origin of these."""
        return replace(self, n_windows=self.n_windows + self.gap - 1 + windows) if windows else self

    def room(self, rows: int) -> int:
        """How many such windows there may be before these within the last `rows`; 0 where there is no room.

        >>> rolling = Rolling(n_windows=3, step_size=2, h=4)
        >>> rolling.room(12), rolling.with_earlier(1).cuts
        (1, [12, 10, 8, 6, 4])
        """
        return max(0, (rows - self.cuts[0]) // self.step_size - self.gap + 1)

    def check(self, panel: Panel, history: int, earlier: int = 0) -> None:
        """Refuse series with less than `history` rows before the first origin, earlier windows counted in."""
        needed = history + self.with_earlier(earlier).cuts[0]
        for series in panel.series:
            if len(series) < needed:
                windows = f"{self.n_windows} window{'s' if self.n_windows > 1 else ''}"
                if earlier:
                    windows += f" and {earlier} earlier ones, which intervals are made of,"
                raise InputError(
                    f"series {series.unique_id!r}",
                    f"has {len(series):,} rows, and {windows} of {self.h} rows, {self.step_size} apart, "
                    f"after at least {history} rows of history need {needed:,}; ask for fewer windows, a "
                    "smaller step or a shorter horizon",
                )


@dataclass(frozen=True, eq=False)
class PastWindows:
    """What was forecast from some origins and what came then: a row of windows for each series."""

    series: tuple[str, ...]
    y: Array  # [W, S, h]
    mean: Array  # [W, S, h]
    quantiles: dict[float, Array]  # probability to [W, S, h]
    recent_change: Array  # [W, S]: mean |y_t - y_{t-m}| of the last seasons before the origin
    season: int  # m
    powers: Array  # [W, S]: of Box and Cox; `recent_change` is on their scale, all else in own units

    def __len__(self) -> int:
        """How many windows there are."""
        return len(self.y)

    def windows(self, part: slice) -> PastWindows:
        """Some of the windows."""
        quantiles = {p: values[part] for p, values in self.quantiles.items()}
        return PastWindows(
            self.series,
            self.y[part],
            self.mean[part],
            quantiles,
            self.recent_change[part],
            self.season,
            self.powers[part],
        )

    def on_power_scale(self) -> PastWindows:
        """The same on the scale of the powers, where an error means as much at any level."""
        if (self.powers == PLAIN).all():
            return self
        powers = self.powers[..., None]
        quantiles = {p: apply_power(values, powers) for p, values in self.quantiles.items()}
        return replace(
            self, y=apply_power(self.y, powers), mean=apply_power(self.mean, powers), quantiles=quantiles
        )

    def in_own_units(self, quantiles: dict[float, Array]) -> dict[float, Array]:
        """Quantiles [W, S, h] that were found on the scale of the powers."""
        return {p: undo_power(values, self.powers[..., None]) for p, values in quantiles.items()}


def roll(
    model: ForecastModel,
    panel: Panel,
    rolling: Rolling,
    probabilities: Sequence[float],
    season: int,
    progress: Callable[[int, int], None] | None = None,
) -> PastWindows:
    """Let a model forecast from every origin. It never sees a row after it, but for columns known ahead."""
    windows = []
    for cut in rolling.cuts:
        windows.append(_window(model, panel, cut, rolling.h, probabilities, season))
        if progress is not None:
            progress(len(windows), rolling.n_windows)
    return join_windows(windows)


def join_windows(windows: Sequence[PastWindows]) -> PastWindows:
    """The windows of all of these, in their order."""
    return PastWindows(
        windows[0].series,
        np.concatenate([one.y for one in windows]),
        np.concatenate([one.mean for one in windows]),
        {p: np.concatenate([one.quantiles[p] for one in windows]) for p in windows[0].quantiles},
        np.concatenate([one.recent_change for one in windows]),
        windows[0].season,
        np.concatenate([one.powers for one in windows]),
    )


def _window(
    model: ForecastModel, panel: Panel, cut: int, h: int, probabilities: Sequence[float], season: int
) -> PastWindows:
    coming = tuple(_known_of(series, cut, h) for series in panel.series)
    future = replace(panel, series=coming) if panel.known_names else None
    history = panel.until(cut)
    y = np.stack([series.y[len(series) - cut :][:h] for series in panel.series])
    forecasts = model.predict(history, h, probabilities, future=future)
    return gather_window(model, history, forecasts, y, season)


def gather_window(
    model: ForecastModel, history: Panel, forecasts: Sequence[Forecast], y: Array, season: int
) -> PastWindows:
    """The forecasts of every series of a history as one window; `y` [S, h] is what came then."""
    found = {one.unique_id: one for one in forecasts}
    ordered = [found[series.unique_id] for series in history.series]
    powers = [model.power(series) for series in history.series]
    even = [apply_power(series.y, power) for series, power in zip(history.series, powers, strict=True)]
    return PastWindows(
        tuple(one.unique_id for one in ordered),
        y[None],
        np.stack([one.mean for one in ordered])[None],
        {p: np.stack([one.quantiles[p] for one in ordered])[None] for p in ordered[0].quantiles},
        np.array([[measure_recent_change(values, season) for values in even]]),
        season,
        np.array([powers]),
    )


def measure_recent_change(y: Array, season: int) -> float:
    """How much a series changed from season to season of late: mean |y_t - y_{t-m}|; never 0.

    >>> round(measure_recent_change(np.array([0.0, 2.0, 1.0, 5.0]), season=1), 4)       # of 2, 1 and 4
    2.3333
    """
    rows = max(RECENT_SEASONS * season, RECENT_ROWS) + season
    for part in (y[-rows:], y):
        scale = seasonal_scale(part, season)
        if scale > 0:
            return scale
    return 1.0


def _known_of(series: Series, cut: int, h: int) -> Series:
    """The rows to be forecast, with nothing in them but what is known ahead."""
    rows = series.rows(slice(len(series) - cut, len(series) - cut + h))
    return replace(rows, y=np.full_like(rows.y, np.nan), past=np.full_like(rows.past, np.nan))


Counts = NDArray[np.int64]
MOST_EARLIER = 100  # windows: more tell little, and what is long ago tells of another time
USUAL_LEVEL = 90.0  # per cent, where no level is asked for


def windows_needed(level: float) -> int:
    """How many windows it takes for an interval of this level to be finite.

    >>> windows_needed(0.8), windows_needed(0.95)
    (4, 19)
    """
    return math.ceil(level / (1 - level) - ROUNDING)


def scores_needed(levels: Sequence[float]) -> int:
    """How many scores make the widest interval finite; levels are in per cent.

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
    """How many windows the intervals of each tested one are made of: as asked for, else as many as there are.

    They lie in the `unseen` rows, unless that leaves too few scores. `shared` ones are those of all series.
    """
    needed = scores_needed(levels)
    if wanted is not None and wanted < needed:
        widest = max(levels, default=USUAL_LEVEL)
        problem = f"is {wanted}, and intervals of {widest:g} % take at least {needed}"
        raise InputError("earlier_windows", problem)
    rows = min(len(series) for series in panel.series) - history
    room = rolling.room(rows if unseen is None else min(rows, unseen))
    earlier = wanted or max(needed, min(MOST_EARLIER, room))
    rolling.check(panel, history, earlier)
    if wanted is not None:
        return wanted
    most = min(rolling.room(rows), max(MOST_EARLIER, 2 * needed))
    return _enough(rolling, panel, earlier, most, needed, shared)


def scores_before(rolling: Rolling, panel: Panel, earlier: int, shared: bool = False) -> Counts:
    """How many observed scores `earlier` windows give each tested value, [W, S, h].

    >>> from throughtime.data.panel import Series
    >>> panel = Panel((Series.of("a", [1, 2, np.nan, 4, 5, 6]),), None)
    >>> scores_before(Rolling(n_windows=1, step_size=1, h=1), panel, earlier=4).ravel()
    array([3])
    """
    observed = _observed(panel, rolling.with_earlier(earlier).cuts[0])
    counts = np.zeros((rolling.n_windows, len(panel.series), rolling.h), dtype=np.int64)
    for back in range(earlier):
        counts += _scored(rolling, observed, back, shared)
    return counts


def observed_values(rolling: Rolling, panel: Panel) -> NDArray[np.bool_]:
    """Which of the tested values were observed, [W, S, h]."""
    return _cut(_observed(panel, rolling.cuts[0]), rolling.cuts, rolling.h)


def last_windows(
    panel: Panel, h: int, history: int, unseen: int | None, levels: Sequence[float], shared: bool = False
) -> Rolling:
    """Up to 100 windows at the end of the data, as far apart as there is room, a horizon at most.

    They lie in the `unseen` rows if enough fit there. Where gaps leave too few scores, all rows serve; and
    windows a row nearer to each other, for what is missing once a week falls on one step if they are a week
    apart.
    """
    needed = scores_needed(levels)
    rows = min(len(series) for series in panel.series) - history
    rooms = [rows]
    if unseen is not None and unseen >= h + needed - 1:
        rooms.insert(0, min(rows, unseen))
    choices = []
    for room in rooms:
        n_windows = max(needed, min(MOST_EARLIER, room - h + 1))
        apart = max(1, min(h, (room - h) // max(n_windows - 1, 1)))
        choices += [Rolling(n_windows, step_size, h) for step_size in (apart, max(1, apart - 1))]
    choices[0].check(panel, history)
    return next((one for one in choices if (_scores(one, panel, shared) >= needed).all()), choices[0])


def _scores(rolling: Rolling, panel: Panel, shared: bool) -> Counts:
    """How many of the values that these windows forecast were observed, [S, h] or of all series [h]."""
    counts: Counts = observed_values(rolling, panel).sum(axis=(0, 1) if shared else 0)
    return counts


def _enough(rolling: Rolling, panel: Panel, earlier: int, most: int, needed: int, shared: bool) -> int:
    """The number of windows, from `earlier` up to `most`, that gives the tested values enough scores."""
    counts, tested = scores_before(rolling, panel, earlier, shared), observed_values(rolling, panel)
    short, found = int((tested & (counts < needed)).sum()), earlier
    observed = _observed(panel, rolling.with_earlier(max(most, earlier)).cuts[0])
    for back in range(earlier, most):
        if not short:
            break
        counts += _scored(rolling, observed, back, shared)
        still = int((tested & (counts < needed)).sum())
        if still < short:
            short, found = still, back + 1
    return found


def _scored(rolling: Rolling, observed: NDArray[np.bool_], back: int, shared: bool) -> Counts:
    """Which values have a score from the window that lies `back` before the last one over: 1 or 0."""
    lag = rolling.step_size * (rolling.gap + back)
    scored: Counts = _cut(observed, [cut + lag for cut in rolling.cuts], rolling.h).astype(np.int64)
    return scored.sum(axis=1, keepdims=True) if shared else scored


def _observed(panel: Panel, rows: int) -> NDArray[np.bool_]:
    """Where the last rows of each series have a value, [S, rows]."""
    return np.stack([~np.isnan(series.y[len(series) - rows :]) for series in panel.series])


def _cut(observed: NDArray[np.bool_], cuts: Sequence[int], h: int) -> NDArray[np.bool_]:
    """The `h` rows after each origin, [W, S, h]."""
    rows = observed.shape[1]
    return np.stack([observed[:, rows - cut : rows - cut + h] for cut in cuts])
