"""Levels of prediction intervals in per cent, and the two probabilities at their ends."""

from __future__ import annotations

from collections.abc import Iterable

from throughtime.errors import InputError


def check_levels(levels: Iterable[float]) -> None:
    """Refuse levels that are not percentages; for a share such as 0.95 the error suggests 95.

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
    """Check several levels and return the ends of their intervals, sorted.

    >>> ends_of([80, 95])
    [0.025, 0.1, 0.9, 0.975]
    """
    levels = list(levels)
    check_levels(levels)
    return sorted({end for level in levels for end in ends(level)})
