"""How far apart the times of a series lie: a step of so many months, of so many seconds, or of positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError

Times = NDArray[Any]
"""`datetime64[ns]`, or int64 where a file has no dates."""
Unit = Literal["month", "second", "position"]

YEARS = range(1678, 2262)
"""The years of which `datetime64[ns]` holds every day."""
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
        """How many steps make the season that people expect: 24 hours, 7 days, 12 months; None: no idea.

        Steps shorter than an hour have a day, as 15 minutes have 96.
        """
        if self.unit == "position":
            return None
        if self.unit == "month":
            return 12 // self.step if self.step < 12 and 12 % self.step == 0 else None
        around = DAY if self.step < DAY else WEEK if self.step < WEEK else 52 * WEEK
        return around // self.step if self.step < around and around % self.step == 0 else None

    def after(self, last: Any, h: int) -> Times:
        """The `h` times that follow `last`.

        >>> Frequency(1, "month").after(np.datetime64("1960-11-01", "ns"), 2).astype("datetime64[D]")
        array(['1960-12-01', '1961-01-01'], dtype='datetime64[D]')
        """
        return self.grid(last, h + 1)[1:]

    def grid(self, first: Any, count: int) -> Times:
        """`count` times from `first` on."""
        steps = np.arange(count, dtype=np.int64) * self.step
        if self.unit == "position":
            return np.int64(first) + steps
        if self.unit == "second":
            return np.asarray(np.datetime64(first, "ns") + steps.astype("timedelta64[s]"))
        month = np.datetime64(first, "M")
        if self.month_end:
            ends = (month + steps + 1).astype("datetime64[D]") - np.timedelta64(1, "D")
            return np.asarray(ends.astype("datetime64[ns]"))
        into = np.datetime64(first, "ns") - month.astype("datetime64[ns]")
        return np.asarray((month + steps).astype("datetime64[ns]") + into)

    def places(self, ds: Times) -> NDArray[np.float64]:
        """Where times stand on the grid that begins with the first of them; a fraction is off the grid."""
        if len(ds) < 2:  # which lies on every grid, also one of a step that a date alone does not tell
            return np.zeros(len(ds))
        if self.unit == "month":
            return np.asarray((_months(ds) - _months(ds[:1])) / self.step)
        if self.unit == "position":
            return np.asarray((ds - ds[0]) / self.step)
        return np.asarray((ds - ds[0]) / np.timedelta64(self.step, "s"))

    def __str__(self) -> str:
        """The step in words."""
        count, name = self.step, str(self.unit)
        if self.unit != "second":
            if self.unit == "month" and self.step % 12 == 0:
                count, name = self.step // 12, "year"
            elif self.unit == "month" and self.step == 3:
                count, name = 1, "quarter"
        else:
            size = max(size for size in _NAMES if self.step % size == 0)
            count, name = self.step // size, _NAMES[size]
        return name if count == 1 else f"{count} {name}s"


def infer_frequency(times: list[Times]) -> Frequency | None:
    """The step that most neighbours are apart; None for positions 0, 1, 2, ... and where no two times are.

    >>> days = np.array(["2020-01-01", "2020-01-02", "2020-01-05"], "datetime64[ns]")
    >>> str(infer_frequency([days]))
    'day'
    """
    known = [ds for ds in times if len(ds) > 1]
    if not known:
        return None
    if known[0].dtype.kind != "M":
        step = _usual(np.concatenate([np.diff(ds) for ds in known]))
        return None if step == 1 else Frequency(step, "position")
    month_end = all(_at_month_end(ds) for ds in known)
    if month_end or all(_on_one_day(ds) for ds in known):
        return Frequency(_usual(np.concatenate([np.diff(_months(ds)) for ds in known])), "month", month_end)
    nanoseconds = _usual(np.concatenate([np.diff(ds).astype(np.int64) for ds in known]))
    if nanoseconds % 1_000_000_000:
        raise InputError("ds", "has times that lie fractions of a second apart; number the rows instead")
    return Frequency(nanoseconds // 1_000_000_000, "second")


def calendar(ds: Times, frequency: Frequency | None) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Hour of the day, day of the week and month of the year as points on a circle, if they vary.

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


def spelled(ds: Times) -> list[str]:
    """Times as a file has them: no hour where all are midnights.

    >>> spelled(np.array(["2020-01-06T00", "2020-01-06T12"], "datetime64[ns]"))
    ['2020-01-06 00:00:00', '2020-01-06 12:00:00']
    """
    if ds.dtype.kind != "M":
        return [str(time) for time in ds.tolist()]
    days = ds.astype("datetime64[D]")
    if (days == ds).all():
        return [str(day) for day in days]
    return [str(time).replace("T", " ") for time in ds.astype("datetime64[s]")]


def _months(ds: Times) -> NDArray[np.int64]:
    return ds.astype("datetime64[M]").astype(np.int64)


def _on_one_day(ds: Times) -> bool:
    """Whether all times fall on the same moment of their months, as months dated by their first day do."""
    into = ds - ds.astype("datetime64[M]").astype("datetime64[ns]")
    return bool((into == into[0]).all())


def _at_month_end(ds: Times) -> bool:
    ends = (ds.astype("datetime64[M]") + 1).astype("datetime64[D]") - np.timedelta64(1, "D")
    return bool((ends.astype("datetime64[ns]") == ds).all())


def _usual(steps: NDArray[np.int64]) -> int:
    """The commonest step, the smallest where several are."""
    values, counts = np.unique(steps, return_counts=True)
    return int(values[counts.argmax()])
