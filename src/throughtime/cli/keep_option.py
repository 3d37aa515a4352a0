"""`--keep`: where the commands that look at random cells set the gates that keep the state."""

from __future__ import annotations

from collections.abc import Sequence

from throughtime.errors import InputError


def checked_keep(keep: float, cells: Sequence[str]) -> float:
    """What was given, if it can be a gate's value and one of these cells has such a gate."""
    from throughtime.inspection.lag import keeps

    if not any(keeps(cell) for cell in cells):
        raise InputError("--keep", f"sets gates that keep the state; {cells[0]} has none, so leave it out")
    if not 0 < keep < 1:
        raise InputError("--keep", f"is {keep}, expected a number between 0 and 1")
    return keep
