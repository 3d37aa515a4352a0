"""Panels: series on a common regular grid, as forecasting reads them, and the step of the grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError, check_whole
from throughtime.interrupt import check_interrupt
from throughtime.results import format_times
from throughtime.text.texts import format_count

Times = NDArray[Any]
"""`datetime64[ns]`, or int64 if a file has no dates."""
Unit = Literal["month", "second", "position"]

YEARS = range(1678, 2262)
"""The years that `datetime64[ns]` covers completely."""
MINUTE, HOUR, DAY, WEEK = 60, 3_600, 86_400, 604_800
_NAMES = {1: "second", MINUTE: "minute", HOUR: "hour", DAY: "day", WEEK: "week"}


@dataclass(frozen=True)
class Frequency:
    """One step of a regular grid. `month_end` marks months that are dated by their last day.

    >>> Frequency(1, "month").season, Frequency(3, "month").season, Frequency(3600, "second").season
    (12, 4, 24)
    >>> str(Frequency(900, "second"))
    '15 minutes'
    """

    step: int
    unit: Unit
    month_end: bool = False

    @property
    def season(self) -> int | None:
        """The number of steps in the usual season: 24 hours, 7 days, 12 months; None if there is none.

        The season of steps shorter than an hour is a day: 96 steps of 15 minutes.
        """
        if self.unit == "position":
            return None
        if self.unit == "month":
            return 12 // self.step if self.step < 12 and 12 % self.step == 0 else None
        around = DAY if self.step < DAY else WEEK if self.step < WEEK else 52 * WEEK
        return around // self.step if self.step < around and around % self.step == 0 else None

    def after(self, last: Any, h: int) -> Times:
        """Return the `h` times that follow `last`.

        >>> Frequency(1, "month").after(np.datetime64("1960-11-01", "ns"), 2).astype("datetime64[D]")
        array(['1960-12-01', '1961-01-01'], dtype='datetime64[D]')
        """
        return self.grid(last, h + 1)[1:]

    def grid(self, first: Any, count: int) -> Times:
        """Return `count` times, starting with `first`."""
        steps = np.arange(count, dtype=np.int64) * self.step
        if self.unit == "position":
            return np.int64(first) + steps
        if self.unit == "second":
            return np.asarray(np.datetime64(first, "ns") + steps.astype("timedelta64[s]"))
        month, steps = np.datetime64(first, "M"), steps.astype("timedelta64[M]")
        if self.month_end:
            return _month_ends(month + steps)
        into = np.datetime64(first, "ns") - month.astype("datetime64[ns]")
        return np.asarray((month + steps).astype("datetime64[ns]") + into)

    def places(self, ds: Times) -> NDArray[np.float64]:
        """Return the positions of times on the grid from the first on; fractions are off the grid."""
        if len(ds) < 2:  # one time lies on every grid
            return np.zeros(len(ds))
        if self.unit == "month":
            return np.asarray((_months(ds) - _months(ds[:1])) / self.step)
        if self.unit == "position":
            return np.asarray((ds - ds[0]) / self.step)
        return np.asarray((ds - ds[0]) / np.timedelta64(self.step, "s"))

    def __str__(self) -> str:
        """The step in words."""
        sizes = {"second": _NAMES, "month": {1: "month", 12: "year"}}.get(self.unit, {1: "position"})
        if self.unit == "month" and self.step == 3:
            return "quarter"
        size = max(size for size in sizes if self.step % size == 0)
        count, name = self.step // size, sizes[size]
        return name if count == 1 else f"{count} {name}s"


def infer_frequency(times: list[Times]) -> Frequency | None:
    """Return the most common step between times; None for positions 0, 1, 2, ... and for single times.

    >>> days = np.array(["2020-01-01", "2020-01-02", "2020-01-05"], "datetime64[ns]")
    >>> str(infer_frequency([days]))
    'day'
    """
    known = [ds for ds in times if len(ds) > 1]
    if not known:
        return None
    if known[0].dtype.kind != "M":
        step = _most_common(np.concatenate([np.diff(ds) for ds in known]))
        return None if step == 1 else Frequency(step, "position")
    month_end = all((_month_ends(ds.astype("datetime64[M]")) == ds).all() for ds in known)
    if month_end or all(_have_same_day(ds) for ds in known):
        return Frequency(
            _most_common(np.concatenate([np.diff(_months(ds)) for ds in known])), "month", month_end
        )
    nanoseconds = _most_common(np.concatenate([np.diff(ds).astype(np.int64) for ds in known]))
    if nanoseconds % 1_000_000_000:
        raise InputError("ds", "has times that are fractions of a second apart; number the rows instead")
    return Frequency(nanoseconds // 1_000_000_000, "second")


def calendar(ds: Times, frequency: Frequency | None) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Return hour of the day, day of the week and month of the year as points on a circle, if they vary.

    >>> names, features = calendar(np.array(["2020-01-06T06"], "datetime64[ns]"), Frequency(3600, "second"))
    >>> names
    ('hour_sin', 'hour_cos', 'weekday_sin', 'weekday_cos', 'month_sin', 'month_cos')
    >>> features.round(2).tolist()
    [[1.0, 0.0, 0.0, 1.0, 0.0, 1.0]]
    """
    if ds.dtype.kind != "M" or frequency is None:
        raise InputError("calendar", "needs dates, but these series only have positions; leave it out")
    seconds = 32 * DAY if frequency.unit == "month" else frequency.step
    days = ds.astype("datetime64[D]")
    turns = {}
    if seconds < DAY:
        turns["hour"] = (ds - days) / np.timedelta64(1, "D")
    if seconds <= DAY:
        turns["weekday"] = (days.astype(np.int64) + 3) % 7 / 7  # 1970-01-01 was a Thursday
    turns["month"] = _months(ds) % 12 / 12
    names = tuple(f"{name}_{wave}" for name in turns for wave in ("sin", "cos"))
    angles = [2 * np.pi * turn for turn in turns.values()]
    return names, np.stack([wave(angle) for angle in angles for wave in (np.sin, np.cos)], axis=1)


def _months(ds: Times) -> NDArray[np.int64]:
    return ds.astype("datetime64[M]").astype(np.int64)


def _have_same_day(ds: Times) -> bool:
    """Return whether all times are at the same moment of their month, such as its first day."""
    into = ds - ds.astype("datetime64[M]").astype("datetime64[ns]")
    return bool((into == into[0]).all())


def _month_ends(months: Times) -> Times:
    """Return the last day of each month, `datetime64[M]`."""
    ends = (months + np.timedelta64(1, "M")).astype("datetime64[D]") - np.timedelta64(1, "D")
    return np.asarray(ends.astype("datetime64[ns]"))


def _most_common(steps: NDArray[np.int64]) -> int:
    """Return the most common step, the smallest of several."""
    values, counts = np.unique(steps, return_counts=True)
    return int(values[counts.argmax()])


Values = NDArray[np.float64]
MAX_GAPS = 50
"""If a series has more missing rows than this for each row, its times must be wrong."""


@dataclass(frozen=True, eq=False)
class Series:
    """One series on a regular grid; rows that its file lacks hold NaN.

    `known` are values that are known in the future too, such as holidays; `past` are known in the past only.
    """

    unique_id: str
    ds: Times  # [T]
    y: Values  # [T], NaN where missing
    known: Values  # [T, K]
    past: Values  # [T, P]

    @classmethod
    def of(cls, unique_id: str, y: Sequence[float] | Values, ds: Times | None = None) -> Series:
        """Build a series from values alone, at positions 0, 1, 2, ... unless `ds` gives their times."""
        values = np.asarray(y, dtype=np.float64)
        times = np.arange(len(values)) if ds is None else ds
        return cls(unique_id, times, values, np.zeros((len(values), 0)), np.zeros((len(values), 0)))

    def rows(self, stretch: slice | NDArray[np.int64]) -> Series:
        """Return some of its rows."""
        return replace(
            self, ds=self.ds[stretch], y=self.y[stretch], known=self.known[stretch], past=self.past[stretch]
        )

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.ds)


@dataclass(frozen=True, eq=False)
class Panel:
    """Series of one frequency. `notes` are sentences on what was corrected when they were read.

    >>> panel = Panel((Series.of("a", [1.0, 2.0, 3.0]),), None)
    >>> panel.drop_last(1).series[0].y, panel.after(panel.series[0], 2)
    (array([1., 2.]), array([3, 4]))
    """

    series: tuple[Series, ...]
    frequency: Frequency | None  # None: positions, one apart
    known_names: tuple[str, ...] = ()
    past_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()  # columns whose values are `y`, where a file names them
    undated: bool = False  # values without times; any model accepts them as steps of its own frequency

    def drop_last(self, cut: int) -> Panel:
        """Return the history before the last `cut` rows of each series."""
        check_whole("cut", cut, 0)
        return replace(
            self, series=tuple(series.rows(slice(max(0, len(series) - cut))) for series in self.series)
        )

    def after(self, series: Series, h: int) -> Times:
        """Return the `h` times that follow the last row of a series."""
        if self.frequency is None and series.ds.dtype.kind == "M":
            problem = "has one date, which does not determine a step; give two rows or more"
            raise InputError(f"series {series.unique_id!r}", problem)
        return (self.frequency or Frequency(1, "position")).after(series.ds[-1], h)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the series."""
        return tuple(series.unique_id for series in self.series)

    def series_by_name(self) -> dict[str, Series]:
        """Return the series by name."""
        return {series.unique_id: series for series in self.series}


def make_regular(series: Sequence[Series]) -> Panel:
    """Put sorted series on the grid of their common frequency; gaps become rows of NaN, listed in `notes`.

    >>> days = np.array(["2020-01-01", "2020-01-02", "2020-01-04"], "datetime64[ns]")
    >>> panel = make_regular([Series.of("rain", [3.0, 1.0, 2.0], days)])
    >>> panel.series[0].y
    array([ 3.,  1., nan,  2.])
    >>> panel.notes[0]
    'rain has 1 gap, the first after 2020-01-02: 1 row is missing at a step of one day.'
    """
    frequency = infer_frequency([one.ds for one in series])
    grid = frequency or Frequency(1, "position")
    notes: list[str] = []
    filled = []
    for one in series:
        check_interrupt()
        places = grid.places(one.ds)
        _check_grid(one, places, grid)
        rows = places.round().astype(np.int64)
        absent = np.flatnonzero(np.isnan(one.y))
        times = format_times(one.ds) if len(absent) else []
        if len(rows) and rows[-1] + 1 > len(rows):
            notes.append(_gaps(one, rows, grid))
            one = _spread(one, rows, grid)
        if len(absent):
            lacking = format_count(len(absent), "value")
            notes.append(f"{one.unique_id} lacks {lacking}, the first at {times[int(absent[0])]}.")
        filled.append(one)
    return Panel(tuple(filled), frequency, notes=tuple(notes))


def _check_grid(series: Series, places: Values, grid: Frequency) -> None:
    off = np.flatnonzero(np.abs(places - places.round()) > 1e-6)
    if len(off):
        time = format_times(series.ds)[int(off[0])]
        problem = f"the time {time}, which does not fit its step of one {grid}; resample it to a regular step"
    elif len(places) and places[-1] > MAX_GAPS * len(places):
        problem = f"only {len(places):,} rows for {int(places[-1]) + 1:,} steps of one {grid}; look for a "
        problem += "wrong date or time"
    else:
        return
    raise InputError(f"series {series.unique_id!r}", f"has {problem}")


def _spread(series: Series, rows: NDArray[np.int64], grid: Frequency) -> Series:
    count = int(rows[-1]) + 1

    def spread_rows(values: Values) -> Values:
        spread = np.full((count, *values.shape[1:]), np.nan)
        spread[rows] = values
        return spread

    known, past = spread_rows(series.known), spread_rows(series.past)
    return Series(series.unique_id, grid.grid(series.ds[0], count), spread_rows(series.y), known, past)


def _gaps(series: Series, rows: NDArray[np.int64], grid: Frequency) -> str:
    steps = np.diff(rows)
    first = int(np.flatnonzero(steps > 1)[0])
    gaps, lacking = int((steps > 1).sum()), int((steps - 1).sum())
    where = f"{format_count(gaps, 'gap')}, the first after {format_times(series.ds)[first]}"
    missing = f"{format_count(lacking, 'row')} {'is' if lacking == 1 else 'are'} missing"
    return f"{series.unique_id} has {where}: {missing} at a step of one {grid}."


Floats = NDArray[np.float32]
Numbers = TypeVar("Numbers")


class Window(NamedTuple, Generic[Numbers]):
    """What a forecaster reads of B series: their scaled values and additional columns, arrays or tensors.

    In training, `values` and `past` also hold the rows to forecast, which serve as targets.
    """

    values: Numbers  # [T, B]
    known: Numbers  # [T and the rows to forecast, B, K]
    past: Numbers  # [T, B, P]
    numbers: Numbers  # [B]: the number of the series, -1 for a series that was not in training


@dataclass(frozen=True, eq=False)
class PanelArrays:
    """All series of a panel, scaled and concatenated; missing values are filled in and not `observed`."""

    values: Floats  # [N]
    observed: NDArray[np.bool_]  # [N]
    known: Floats  # [N, K]
    past: Floats  # [N, P]
    offsets: NDArray[np.int64]  # [S + 1]: the start of each series
    numbers: NDArray[np.int64]  # [S]: the number of a series in the model, or -1 if it is unknown
    names: tuple[str, ...] = ()  # [S]

    def window(
        self, series: NDArray[np.int64], starts: NDArray[np.int64], lookback: int, ahead: int = 0
    ) -> Window[NDArray[Any]]:
        """Return `lookback` rows of each of these series from `starts` on, and known columns `ahead` of them.

        Known columns after the end of a series repeat its last row.
        """
        rows = starts + np.arange(lookback + ahead)[:, None]
        past = rows[:lookback]
        known = np.minimum(rows, self.offsets[series + 1] - 1)
        return Window(self.values[past], self.known[known], self.past[past], self.numbers[series])
