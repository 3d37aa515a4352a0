"""Indicators of a word in its sentence: the word, its shape, its beginnings and ends, and its neighbours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

LONGEST = 4
"""Letters of the longest beginning and end."""
NEIGHBOURS = (-2, -1, 1, 2)
NEAR = 2
"""What is said of a neighbour: its letters in lower case, and its shape."""
INDICATORS = 4 + 2 * LONGEST + NEAR * len(NEIGHBOURS)
"""Number of indicators of each word."""

_REPEATED = re.compile(r"(.)\1+", re.DOTALL)


def find_shape(form: str) -> str:
    """Return a word with X for each capital, x for each other letter and 0 for each digit.

    >>> find_shape("McDonald's-24")
    "XxXxxxxx'x-00"
    """
    return "".join(
        "X" if sign != sign.lower() else "x" if sign.isalpha() else "0" if sign.isdecimal() else sign
        for sign in form
    )


@lru_cache(maxsize=1 << 16)
def _describe(form: str) -> tuple[str, ...]:
    """What is said of a word itself; it begins with what is said of a neighbour."""
    lower, shape = form.lower(), find_shape(form)
    sizes = range(1, LONGEST + 1)
    beginnings, ends = (lower[:size] for size in sizes), (lower[-size:] for size in sizes)
    return (lower, _REPEATED.sub(r"\1", shape), shape, form, *beginnings, *ends)


def indicate(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the indicators of each word; those of a kind begin with its number.

    >>> next(indicate(["Tea", "!"]))
    ['0=tea', '1=Xx', '2=Xxx', '3=Tea', '4=t', '5=te', '6=tea', '7=tea', '8=a', '9=ea', '10=tea', \
'11=tea', '12=', '13=', '14=', '15=', '16=!', '17=!', '18=', '19=']
    """
    outside = ("",) * NEAR
    described = [_describe(word) for word in words]
    for place, values in enumerate(described):
        near = [at + place for at in NEIGHBOURS]
        sides = [described[at][:NEAR] if 0 <= at < len(words) else outside for at in near]
        values = values + tuple(value for side in sides for value in side)
        yield [f"{number}={value}" for number, value in enumerate(values)]
