"""Levels of intervals: percentages, and the two probabilities between which such an interval lies."""

from __future__ import annotations

from collections.abc import Iterable

from throughtime.errors import InputError


def check_levels(levels: Iterable[float]) -> None:
    """Refuse what is no percentage; a share such as 0.95 is a percentage that was meant otherwise.

    >>> check_levels([80, 0.95])
    Traceback (most recent call last):
    throughtime.errors.InputError: level: 0.95 is below 1; levels are percentages: use 95
    """
    for level in levels:
        if 0 < level < 1:
            raise InputError("level", f"{level:g} is below 1; levels are percentages: use {100 * level:g}")
        if not 1 <= level < 100:
            raise InputError("level", f"is {level:g}, expected a percentage of at least 1 and below 100")


def ends(level: float) -> tuple[float, float]:
    """The probabilities between which an interval of this level, in per cent, lies.

    >>> ends(80)
    (0.1, 0.9)
    """
    return round(0.5 - level / 200, 10), round(0.5 + level / 200, 10)


def ends_of(levels: Iterable[float]) -> list[float]:
    """The ends of the intervals of several levels, which are checked, in order.

    >>> ends_of([80, 95])
    [0.025, 0.1, 0.9, 0.975]
    """
    levels = list(levels)
    check_levels(levels)
    return sorted({end for level in levels for end in ends(level)})
