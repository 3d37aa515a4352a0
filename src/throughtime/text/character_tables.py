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
_ENDS = {
    0x3347F: 0xE0000,
    0xE0FFF: 0xF0000,
    0xF0000: 0xFFFFE,
    0xFFFFE: 0x100000,
    0x100000: 0x10FFFE,
    0x10FFFE: 0x110000,
}
"""Behind each of these code points, those before the second one are like it: free or for private use."""


@cache
def _codes() -> tuple[int, ...]:
    """The code points that may differ from the one before them."""
    codes = [0]
    while (following := _ENDS.get(codes[-1], codes[-1] + 1)) < 0x110000:
        codes.append(following)
    return tuple(codes)


@cache
def all_characters() -> str:
    """Return every character that may differ from the one before it, in order, without surrogates."""
    return "".join(chr(code) for code in _codes() if not 0xD800 <= code <= 0xDFFF)


def write_ranges(characters: Iterable[str]) -> str:
    """Write a set of characters as lengths of runs, outside and inside by turns, with the base 36.

    The set may leave out characters that are not among `all_characters`.

    >>> write_ranges("0123456789a")
    '1c a 13 1'
    """
    own = set(map(ord, characters))
    lengths, place = [], 0
    for start in sorted(own):
        if start >= place:
            end = start
            while end in own:
                end = _ENDS.get(end, end + 1)
            lengths += [start - place, end - start]
            place = end
    return " ".join(map(_number, lengths))


@cache
def python_table() -> str:
    """Write the properties of all characters as JSON: the kinds of characters, and the runs of each kind.

    A kind is the class of the tokenizer `unicode`, a sum of properties (1 space, 2 letter, 4 letter or
    number, 8 decimal digit, 16 printable, 32 not assigned, 64 combining; 128 makes a Σ behind it final, 256
    is ignored there) and the script of letters.
    """
    kinds: dict[tuple[str, int, str], int] = {}
    runs = []
    for kind, group in groupby(_codes(), lambda code: _kind(chr(code))):
        length = sum(_ENDS.get(code, code + 1) - code for code in group)
        runs.append(f"{_number(kinds.setdefault(kind, len(kinds)))} {_number(length)}")
    table = {"kinds": [list(kind) for kind in kinds], "runs": " ".join(runs)}
    return json.dumps(table, ensure_ascii=False, separators=(",", ":"))


def _kind(one: str) -> tuple[str, int, str]:
    properties = (
        one.isspace(),
        one.isalpha(),
        one.isalnum(),
        one.isdecimal(),
        one.isprintable(),
        unicodedata.category(one) == "Cn",
        unicodedata.combining(one) != 0,
        cased := f"{one}Σ".lower()[-1] == "ς",
        not cased and f"a{one}Σ".lower()[-1] == "ς",
    )
    return find_class(one), sum(value << place for place, value in enumerate(properties)), find_script(one)


def _number(value: int) -> str:
    """Write a number with the base 36."""
    head, digit = divmod(value, 36)
    return (_number(head) if head else "") + _DIGITS[digit]
