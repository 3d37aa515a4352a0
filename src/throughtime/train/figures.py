"""Numbers as people read them at a glance."""

from __future__ import annotations

import math


def measure(value: float) -> str:
    """A loss or a perplexity, to four digits.

    >>> [measure(value) for value in (91.2, 812.345, 1.00449, 9999.7, 123456, 0.00001234)]
    ['91.20', '812.3', '1.004', '10,000', '123,500', '1.234e-5']
    """
    rounded = _rounded(value, 4)
    if not math.isfinite(rounded):
        return str(value)
    if rounded != 0 and not 1e-3 <= abs(rounded) < 1e7:
        return _scientific(rounded, 4)
    whole_digits = math.floor(math.log10(abs(rounded))) + 1 if rounded else 1
    return f"{rounded:,.{max(4 - whole_digits, 0)}f}"


def rate(value: float) -> str:
    """A learning rate.

    >>> [rate(value) for value in (0.0012, 2e-3, 30, 0.25, 0)]
    ['1.2e-3', '2e-3', '30', '0.25', '0']
    """
    if not math.isfinite(value) or value == 0 or 0.1 <= value < 1000:
        return f"{value:.3g}"
    return _scientific(value, 2)


def speed(value: float) -> str:
    """Things a second.

    >>> [speed(value) for value in (950.4, 12_345, 999_600, 1_234_567)]
    ['950', '12.3k', '1.00M', '1.23M']
    """
    rounded = _rounded(value, 3)
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if rounded >= size:
            whole_digits = math.floor(math.log10(rounded / size)) + 1
            return f"{rounded / size:.{max(3 - whole_digits, 0)}f}{unit}"
    return f"{rounded:.0f}"


def duration(seconds: float | None) -> str:
    """Minutes and seconds, with hours and days where they are due.

    >>> [duration(seconds) for seconds in (7.4, 200, 3800, 100_000, None)]
    ['0:07', '3:20', '1:03:20', '1 d 3:46:40', '?']
    """
    if seconds is None or not math.isfinite(seconds):
        return "?"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours == 0:
        return f"{minute}:{second:02}"
    days, hour = divmod(hours, 24)
    return (f"{days} d " if days else "") + f"{hour}:{minute:02}:{second:02}"


def _rounded(value: float, digits: int) -> float:
    """Rounded before its size is looked at: 9999.7 is a number of five digits."""
    return float(f"{value:.{digits - 1}e}")


def _scientific(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.') if digits < 3 else mantissa}e{int(exponent)}"
