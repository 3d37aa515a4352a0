"""Tables of characters that another program needs to read texts as this Python does.

Python, the `tokenizers` library and each browser know different versions of Unicode. Tables of their own
make the answers of an exported model the same everywhere.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import groupby

from throughtime.text.texts import find_script
from throughtime.text.unicode import find_class

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
LAST = 0x110000
ASSIGNED = (range(0x33480), range(0xE0000, 0xE0FFF))
"""The code points that Unicode has given a character; the others are alike, but for private use."""
_PRIVATE = 0xF0000


@cache
def all_characters() -> str:
    """Return every character that may differ from its neighbours, in order, without surrogates."""
    codes = [*ASSIGNED[0], *ASSIGNED[1], _PRIVATE, _PRIVATE + 0xFFFE, _PRIVATE + 0x10000]
    return "".join(chr(code) for code in codes if not 0xD800 <= code <= 0xDFFF)


def write_ranges(characters: Iterable[str]) -> str:
    """Write a set of characters as lengths of runs, outside and inside by turns, with the base 36.

    Characters that are alike (see `all_characters`) follow the last one before them.

    >>> write_ranges("0123456789a")
    '1c a 13 1'
    """
    codes = sorted(map(ord, characters))
    own = set(codes)
    lengths, place = [], 0
    for start in codes:
        if start < place:
            continue
        end = start + 1
        while end in own:
            end += 1
        if end == ASSIGNED[0].stop:
            end = ASSIGNED[1].start
        elif end == ASSIGNED[1].stop:
            end = _PRIVATE
        elif start == _PRIVATE:
            end = _PRIVATE + 0xFFFE
        elif start == _PRIVATE + 0x10000:
            end = LAST - 2
        if start == place and lengths:
            lengths[-1] += end - start
        else:
            lengths += [start - place, end - start]
        place = end
    return " ".join(map(_number, lengths))


@cache
def python_table() -> str:
    """Write the properties of all characters as JSON: the kinds of characters, and the runs of each kind.

    A kind is the class of the tokenizer `unicode`, a sum of properties (1 space, 2 letter, 4 letter or
    number, 8 decimal digit, 16 printable, 32 not assigned, 64 combining) and the script of letters.
    """
    kinds: dict[tuple[str, int, str], int] = {}
    runs: list[tuple[int, int]] = []
    for start, stop in ((0, ASSIGNED[0].stop), (ASSIGNED[1].start, ASSIGNED[1].stop), (_PRIVATE, _PRIVATE)):
        own = [_kind(chr(code)) for code in range(start, stop)] or [_kind(chr(start))]
        grouped = [(kind, len(list(group))) for kind, group in groupby(own)]
        runs += [(kinds.setdefault(kind, len(kinds)), length) for kind, length in grouped]
        following = {0: ASSIGNED[1].start, ASSIGNED[1].start: _PRIVATE}.get(start, LAST)
        runs[-1] = runs[-1][0], runs[-1][1] + following - max(stop, start + 1)
    return json.dumps(
        {
            "kinds": [list(kind) for kind in kinds],
            "runs": " ".join(f"{_number(kind)} {_number(length)}" for kind, length in runs),
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def _kind(one: str) -> tuple[str, int, str]:
    properties = (
        one.isspace(),
        one.isalpha(),
        one.isalnum(),
        one.isdecimal(),
        one.isprintable(),
        unicodedata.category(one) == "Cn",
        unicodedata.combining(one) != 0,
    )
    return find_class(one), sum(value << place for place, value in enumerate(properties)), find_script(one)


def _number(value: int) -> str:
    """Write a number with the base 36."""
    head, digit = divmod(value, 36)
    return (_number(head) if head else "") + _DIGITS[digit]
