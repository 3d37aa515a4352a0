"""A model asked again and again, from one origin after another, as if the rest had not happened yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Panel, Series
from throughtime.data.power import PLAIN, powered, unpowered
from throughtime.errors import InputError
from throughtime.metrics.forecast import seasonal_scale
from throughtime.series.forecasts import Forecast, Forecasting

Array = NDArray[np.float64]
LATELY = 4  # seasons of the history that tell how lively a series is at an origin
LATELY_AT_LEAST = 32  # rows, where the season is short


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
        given = {"--n-windows": self.n_windows, "--step-size": self.step_size, "--h": self.h}
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
class Rolled:
    """What was forecast from some origins and what came then: a row of windows for each series."""

    series: tuple[str, ...]
    y: Array  # [W, S, h]
    mean: Array  # [W, S, h]
    quantiles: dict[float, Array]  # probability to [W, S, h]
    lately: Array  # [W, S]: mean |y_t - y_{t-m}| of the last seasons before the origin
    season: int  # m
    powers: Array  # [W, S]: of Box and Cox; `lately` is on their scale, all else in the series' own units

    def __len__(self) -> int:
        """How many windows there are."""
        return len(self.y)

    def windows(self, part: slice) -> Rolled:
        """Some of the windows."""
        quantiles = {p: values[part] for p, values in self.quantiles.items()}
        return Rolled(
            self.series,
            self.y[part],
            self.mean[part],
            quantiles,
            self.lately[part],
            self.season,
            self.powers[part],
        )

    def evened(self) -> Rolled:
        """The same on the scale of the powers, where an error means as much at any level."""
        if (self.powers == PLAIN).all():
            return self
        powers = self.powers[..., None]
        quantiles = {p: powered(values, powers) for p, values in self.quantiles.items()}
        return replace(self, y=powered(self.y, powers), mean=powered(self.mean, powers), quantiles=quantiles)

    def in_own_units(self, quantiles: dict[float, Array]) -> dict[float, Array]:
        """Quantiles [W, S, h] that were found on the scale of the powers."""
        return {p: unpowered(values, self.powers[..., None]) for p, values in quantiles.items()}


def roll(
    model: Forecasting,
    panel: Panel,
    rolling: Rolling,
    probabilities: Sequence[float],
    season: int,
    progress: Callable[[int, int], None] | None = None,
) -> Rolled:
    """Let a model forecast from every origin. It never sees a row after it, but for columns known ahead."""
    windows = []
    for cut in rolling.cuts:
        windows.append(_window(model, panel, cut, rolling.h, probabilities, season))
        if progress is not None:
            progress(len(windows), rolling.n_windows)
    return joined(windows)


def joined(windows: Sequence[Rolled]) -> Rolled:
    """The windows of all of these, in their order."""
    return Rolled(
        windows[0].series,
        np.concatenate([one.y for one in windows]),
        np.concatenate([one.mean for one in windows]),
        {p: np.concatenate([one.quantiles[p] for one in windows]) for p in windows[0].quantiles},
        np.concatenate([one.lately for one in windows]),
        windows[0].season,
        np.concatenate([one.powers for one in windows]),
    )


def _window(
    model: Forecasting, panel: Panel, cut: int, h: int, probabilities: Sequence[float], season: int
) -> Rolled:
    coming = tuple(_known_of(series, cut, h) for series in panel.series)
    future = replace(panel, series=coming) if panel.known_names else None
    history = panel.until(cut)
    y = np.stack([series.y[len(series) - cut :][:h] for series in panel.series])
    return gathered(history, model.predict(history, h, probabilities, future=future), y, season)


def gathered(history: Panel, forecasts: Sequence[Forecast], y: Array, season: int) -> Rolled:
    """The forecasts of every series of a history as one window; `y` [S, h] is what came then."""
    found = {one.unique_id: one for one in forecasts}
    ordered = [found[series.unique_id] for series in history.series]
    evened = [powered(series.y, one.power) for series, one in zip(history.series, ordered, strict=True)]
    return Rolled(
        tuple(one.unique_id for one in ordered),
        y[None],
        np.stack([one.mean for one in ordered])[None],
        {p: np.stack([one.quantiles[p] for one in ordered])[None] for p in ordered[0].quantiles},
        np.array([[lately(values, season) for values in evened]]),
        season,
        np.array([[one.power for one in ordered]]),
    )


def lately(y: Array, season: int) -> float:
    """How much a series changed from season to season of late: mean |y_t - y_{t-m}|; never 0.

    >>> round(lately(np.array([0.0, 2.0, 1.0, 5.0]), season=1), 4)       # of 2, 1 and 4
    2.3333
    """
    rows = max(LATELY * season, LATELY_AT_LEAST) + season
    for part in (y[-rows:], y):
        scale = seasonal_scale(part, season)
        if scale > 0:
            return scale
    return 1.0


def _known_of(series: Series, cut: int, h: int) -> Series:
    """The rows to be forecast, with nothing in them but what is known ahead."""
    rows = series.rows(slice(len(series) - cut, len(series) - cut + h))
    return replace(rows, y=np.full_like(rows.y, np.nan), past=np.full_like(rows.past, np.nan))
