"""Regular expressions of the `tokenizers` library, rewritten for JavaScript.

Every class of characters becomes the set of characters that the library itself finds with it, so that no
other program needs tables of its own.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from throughtime.errors import InputError
from throughtime.text.character_tables import all_characters, write_ranges

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
    "line": r"(?:(?<![^])|(?<=\n)(?=[^]))",  # a line that begins here
    "start": "(?<![^])",
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
    source, parts, place = pattern["Regex"], Pattern(), 0
    ignoring: list[bool] = []  # for each open group, whether upper and lower case are the same
    repeated = True  # nothing that can be repeated is before this place
    while place < len(source):
        ignore = bool(ignoring) and ignoring[-1]
        if source[place] == "[":
            end = class_end(source, place)
            if end > len(source):
                raise _unknown(source, place)
            parts.append(_set(source[place:end], ignore, sets))
            place, repeated = end, False
            continue
        found = _PARTS.match(source, place)
        if found is None:
            raise _unknown(source, place)
        text, kind = found[0], str(found.lastgroup)
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
                raise _unknown(source, place)
            parts.append(text.replace("{,", "{0,"))
        elif kind in _ANCHORS:
            parts.append(_ANCHORS[kind])
        else:
            parts.append(_sign(text, kind, ignore, sets))
        repeated = kind in ("repeat", "open", *_ANCHORS) or text == "|"
        place = found.end()
    return parts


def _sign(text: str, kind: str, ignore: bool, sets: CharacterSets) -> str | int:
    """Rewrite one character, however it is written."""
    if kind == "code":
        one = chr(int(text[2:].strip("{}"), 16))
    else:
        one = _NAMES[text] if kind == "name" else text[-1]
    return _set(text, ignore, sets) if ignore and one.isalpha() else _literal(one)


def _set(expression: str, ignore: bool, sets: CharacterSets) -> int:
    return sets.find(f"(?i:{expression})" if ignore else expression)


def class_end(source: str, place: int) -> int:
    """Return the place behind a class of characters, which may hold others; too large if it has no end."""
    depth, at = 0, place
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


def _literal(one: str) -> str:
    return one if one.isascii() and one.isalnum() else f"\\u{{{ord(one):x}}}"


def _unknown(source: str, place: int) -> InputError:
    return InputError(
        "tokenizer.json",
        f"has the regular expression {source!r}, which a page cannot use from {source[place:]!r} on; "
        "train with another tokenizer",
    )
