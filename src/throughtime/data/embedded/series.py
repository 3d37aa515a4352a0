"""Two noisy series: a slow sine wave and a straight climb."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from throughtime.errors import InputError, unknown

if TYPE_CHECKING:
    import numpy as np

    Values = np.ndarray[Any, np.dtype[np.float64]]


def _sine(length: int) -> Values:
    import numpy as np

    curve: Values = np.sin(0.01 * np.arange(1, length + 1))
    return curve


def _ramp(length: int) -> Values:
    import numpy as np

    return np.linspace(0.0, 10.0, length)


SERIES: dict[str, tuple[Callable[[int], Values], float]] = {"sine": (_sine, 0.2), "ramp": (_ramp, 0.5)}
"""Each series: its noiseless curve, and the standard deviation of the noise upon it."""


def series(name: str, length: int = 1000, seed: int = 0) -> Values:
    """`length` values of a series; the same name, length and seed always give the same values.

    >>> series("ramp", length=3).round(2).tolist()
    [0.88, 5.2, 10.49]
    """
    import numpy as np

    if name not in SERIES:
        raise unknown("series", name, SERIES)
    if length < 1:
        raise InputError("length", f"is {length}, expected at least 1")
    curve, noise = SERIES[name]
    # numpy promises never to change the numbers of RandomState; of default_rng it does not.
    return curve(length) + noise * np.random.RandomState(seed).standard_normal(length)
