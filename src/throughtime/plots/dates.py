"""Dates below a picture, each with as much of it as it takes to read it right."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

_TIME, _DAY, _MONTH, _YEAR = "%H:%M", "%d %b", "%b", "%Y"


def date_axis(axes: Any, most: int) -> None:
    """Mark the axis of times with at most so many dates."""
    from matplotlib import dates
    from matplotlib.ticker import Formatter

    known: Any = dates

    class Dates(Formatter):
        def format_ticks(self, values: Sequence[float]) -> list[str]:
            """A locator may set ticks beyond the ends: the first that is seen must say all."""
            low, high = sorted(axes.get_xlim())
            seen = [value for value in values if low <= value <= high]
            labels = dict(zip(seen, date_labels(known.num2date(seen)), strict=True))
            return [labels.get(value, "") for value in values]

    axes.xaxis.set_major_locator(known.AutoDateLocator(minticks=3, maxticks=most))
    axes.xaxis.set_major_formatter(Dates())


def date_labels(moments: Sequence[datetime]) -> list[str]:
    r"""Two lines each; what stays the same from one to the next stands below the first that has it.

    >>> date_labels([datetime(2023, 12, 22), datetime(2024, 1, 1), datetime(2024, 1, 8)])
    ['22 Dec\n2023', '01 Jan\n2024', '08 Jan\n']
    >>> date_labels([datetime(2024, 1, 8, 12), datetime(2024, 1, 9), datetime(2024, 1, 9, 12)])
    ['12:00\n08 Jan 2024', '00:00\n09 Jan', '12:00\n']
    """
    above, below = _formats(moments)
    before, labels = "", []
    for moment in moments:
        lower = moment.strftime(below)
        # A line left empty is there all the same, else labels of one and of two lines would stand uneven.
        labels.append(f"{moment:{above}}\n{_news(before, lower)}" if below else f"{moment:{above}}")
        before = lower
    return labels


def _formats(moments: Sequence[datetime]) -> tuple[str, str]:
    """How to write what differs between the dates, and what stands below it."""
    if any(moment.microsecond for moment in moments):
        return f"{_TIME}:%S.%f", f"{_DAY} {_YEAR}"
    if any(moment.second for moment in moments):
        return f"{_TIME}:%S", f"{_DAY} {_YEAR}"
    if any((moment.hour, moment.minute) != (0, 0) for moment in moments):
        return _TIME, f"{_DAY} {_YEAR}"
    if any(moment.day != 1 for moment in moments):
        return _DAY, _YEAR
    if any(moment.month != 1 for moment in moments):
        return _MONTH, _YEAR
    return _YEAR, ""


def _news(before: str, lower: str) -> str:
    """What stands below, without what has been said."""
    day, _, year = lower.rpartition(" ")
    if lower == before:
        return ""
    return day if day and before.endswith(year) else lower
