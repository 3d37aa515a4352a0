"""Tables of characters that another program needs to read texts as this Python does.

Python, the `tokenizers` library and each browser know different versions of Unicode. Tables of their own make
the answers of an exported model the same everywhere. What steps of the library do with each character is
found by trying all of them; in its regular expressions, rewritten for JavaScript, every class of characters
becomes the set of characters that the library itself finds with it.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby
from typing import Any

from throughtime.errors import InputError
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
    codes = set(map(ord, characters))
    lengths, reached = [], 0
    for start in sorted(codes):
        if start >= reached:
            end = start
            while end in codes:
                end = _ENDS.get(end, end + 1)
            lengths += [start - reached, end - start]
            reached = end
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


def _kind(sign: str) -> tuple[str, int, str]:
    properties = (
        sign.isspace(),
        sign.isalpha(),
        sign.isalnum(),
        sign.isdecimal(),
        sign.isprintable(),
        unicodedata.category(sign) == "Cn",
        unicodedata.combining(sign) != 0,
        cased := f"{sign}Σ".lower()[-1] == "ς",
        not cased and f"a{sign}Σ".lower()[-1] == "ς",
    )
    return (
        find_class(sign),
        sum(value << position for position, value in enumerate(properties)),
        find_script(sign),
    )


def _number(value: int) -> str:
    """Write a number with the base 36."""
    head, digit = divmod(value, 36)
    return (_number(head) if head else "") + _DIGITS[digit]


FORMS = ("NFC", "NFD", "NFKC", "NFKD")


def words_and_signs() -> tuple[str, str]:
    """Return the characters of words, and others but spaces, as the pre-tokenizer Whitespace sees them."""
    from tokenizers import pre_tokenizers as library

    everything = " ".join(f"a{one}" for one in all_characters())
    pieces = [piece for piece, _ in library.Whitespace().pre_tokenize_str(everything)]
    return "".join(one[1:] for one in pieces if one[0] == "a"), "".join(
        one for one in pieces if one[0] != "a"
    )


def digits() -> Iterator[str]:
    """Return the characters that the library takes for digits."""
    from tokenizers import pre_tokenizers as library

    cutter = library.Digits(individual_digits=False)
    for piece, _ in cutter.pre_tokenize_str("a".join(("", *all_characters(), ""))):
        if len(piece) == 1 and piece != "a":
            yield piece


def find_surrounded(kind: str, options: dict[str, bool]) -> str:
    """Return the characters that a normalizer puts spaces around."""
    from tokenizers import normalizers as library

    change = getattr(library, kind)(**options).normalize_str
    return "".join(sign for sign in all_characters() if sign != " " and change(sign) == f" {sign} ")


def clusters(table: str) -> tuple[str, str]:
    """Return the characters that join the one before them, and those in a table that nothing joins.

    The table of a Precompiled normalizer is applied to a character with all that join it.
    """
    from tokenizers import normalizers as library

    # A table of one replacement, of a by X: what follows a and vanishes has joined it.
    units = [1 << 10, *([0] * 95), 1 << 10 | 1 << 8 | ord("a"), 1 << 31, *([0] * 158)]
    small = struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + b"X\0"
    marked = library.Precompiled(small).normalize_str
    joining = "".join(sign for sign in all_characters() if marked(f"a{sign}") == "X")
    change = library.Precompiled(base64.b64decode(table)).normalize_str
    accent = joining[0] if joining else ""
    changed = [(sign, new) for sign in all_characters() if (new := change(sign)) != sign]
    return joining, "".join(sign for sign, new in changed if change(sign + accent) != new)


def inert() -> str:
    """Return the characters that the library does not compose or decompose, while this Python may."""
    from tokenizers import normalizers as library

    forms = {name: getattr(library, name)().normalize_str for name in FORMS}
    inert = set()
    for sign in all_characters():
        if unicodedata.category(sign) == "Cn":
            inert.add(sign)
        elif unicodedata.normalize("NFKD", sign) != sign and forms["NFKD"](sign) == sign:
            canonical = unicodedata.normalize("NFD", sign)
            inert.update({sign, *(canonical if unicodedata.normalize("NFC", sign) == sign else "")})
        elif (turn := unicodedata.combining(sign)) and turn not in (1, 240):
            pair = "a" + ("\u0345" + sign if turn < 240 else "")
            if forms["NFD"](pair) == pair:
                inert.add(sign)
    return "".join(sorted(inert))


Pattern = list[str | int]
"""Parts of a regular expression of JavaScript; a number stands for a set of characters."""

_PARTS = re.compile(
    r"(?P<set>\\[pP]\{\^?\w+\}|\\[sSdDwWhH]|\.)"
    r"|(?P<open>\(\?(?:i:|:|=|!|<=|<!)|\((?!\?))"
    r"|(?P<plain>\||\))"
    r"|(?P<repeat>(?:[*+?]|\{\d*,?\d*\})\??(?!\+))"
    r"|(?P<code>\\x\{[0-9a-fA-F]+\}|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4})"
    r"|(?P<line>\^)|(?P<start>\\A)|(?P<end>\\z)"
    r"|(?P<name>\\[nrtfv])"
    r"|(?P<sign>\\[^\w\s]|[^\\*+?{$\[(])",
    re.DOTALL,
)
_BRACES = re.compile(r"\{\d+\}|\{(\d+,\d*|,\d+)\}\??")
_NAMES = {r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\f": "\f", r"\v": "\v"}
_ANCHORS = {
    "line": r"(?:^|(?<=\n)(?=[^]))",  # a line that begins here
    "start": "^",  # V8 finds (?<![^]) between the halves of a surrogate pair, too
    "end": "(?![^])",
}


class CharacterSets:
    """The sets of characters that the steps of a tokenizer use, each once."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def add(self, characters: str) -> int:
        """Add a set of characters and return its number."""
        ranges = write_ranges(characters)
        if ranges not in self.written:
            self.written.append(ranges)
        return self.written.index(ranges)

    def find(self, expression: str) -> int:
        """Add the set of single characters that an expression matches."""
        return self.add(_find_matched(expression))


@cache
def _find_matched(expression: str) -> str:
    """The characters that an expression matches."""
    from tokenizers import Regex, pre_tokenizers

    return removed_by(pre_tokenizers.Split(Regex(f"(?:{expression})+"), "removed"))


def removed_by(cutter: Any) -> str:
    """Return the characters that a pre-tokenizer removes."""
    characters = all_characters()
    kept = "".join(piece for piece, _ in cutter.pre_tokenize_str(characters))
    return "".join(sorted(set(characters) - set(kept)))


def translate_pattern(pattern: dict[str, str], sets: CharacterSets) -> Pattern:
    """Rewrite the pattern of a tokenizer's step, which is a text or a regular expression.

    >>> translate_pattern({"Regex": " ?a{,2}|b+(?!c)"}, CharacterSets())
    ['\\\\u{20}', '?', 'a', '{0,2}', '|', 'b', '+', '(?!', 'c', ')']
    """
    if "String" in pattern:
        return ["".join(map(_literal, pattern["String"]))]
    source, parts, at = pattern["Regex"], Pattern(), 0
    ignoring: list[bool] = []  # for each open group, whether upper and lower case are the same
    repeated = True  # nothing that can be repeated is before this place
    while at < len(source):
        ignore = bool(ignoring) and ignoring[-1]
        if source[at] == "[":
            end = class_end(source, at)
            if end > len(source):
                raise _unknown(source, at)
            parts.append(_set(source[at:end], ignore, sets))
            at, repeated = end, False
            continue
        match = _PARTS.match(source, at)
        if match is None:
            raise _unknown(source, at)
        text, kind = match[0], str(match.lastgroup)
        if kind == "set":
            parts.append(_set(text, ignore, sets))
        elif kind == "open":
            ignoring.append(ignore or text == "(?i:")
            parts.append("(?:" if text in ("(", "(?i:") else text)
        elif kind == "plain":
            if text == ")":
                ignoring.pop()
            parts.append(text)
        elif kind == "repeat":
            if repeated or (text[0] == "{" and not _BRACES.fullmatch(text)):
                raise _unknown(source, at)
            parts.append(text.replace("{,", "{0,"))
        elif kind in _ANCHORS:
            parts.append(_ANCHORS[kind])
        else:
            parts.append(_sign(text, kind, ignore, sets))
        repeated = kind in ("repeat", "open", *_ANCHORS) or text == "|"
        at = match.end()
    return parts


def _sign(text: str, kind: str, ignore: bool, sets: CharacterSets) -> str | int:
    """Rewrite one character, however it is written."""
    if kind == "code":
        character = chr(int(text[2:].strip("{}"), 16))
    else:
        character = _NAMES[text] if kind == "name" else text[-1]
    return _set(text, ignore, sets) if ignore and character.isalpha() else _literal(character)


def _set(expression: str, ignore: bool, sets: CharacterSets) -> int:
    return sets.find(f"(?i:{expression})" if ignore else expression)


def class_end(source: str, start: int) -> int:
    """Return the place behind a class of characters, which may hold others; too large if it has no end."""
    depth, at = 0, start
    while at < len(source):
        if source[at] == "\\":
            at += 1
        elif source[at] == "[":
            depth += 1
            at += source[at + 1 : at + 2] == "^"
            at += source[at + 1 : at + 2] == "]"
        elif source[at] == "]":
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    return at + 1


def _literal(sign: str) -> str:
    return sign if sign.isascii() and sign.isalnum() else f"\\u{{{ord(sign):x}}}"


def _unknown(source: str, at: int) -> InputError:
    return InputError(
        "tokenizer.json",
        f"has the regular expression {source!r}, which a page cannot use from {source[at:]!r} on; "
        "train with another tokenizer",
    )
