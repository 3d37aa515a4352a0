"""Compare the output of a command with what the page shows.

Shown output may leave out lines (a line `...`) and parts of lines (`...`); line breaks and runs of spaces are
alike, as pages are narrower than screens. Times and speeds are never compared.
"""

from __future__ import annotations

import re
from typing import Literal

Strictness = Literal["exact", "near", "loose"]
NEAR = 0.3  # tolerance for figures of trained models: rounding differs between processors

_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
_MEASURED = re.compile(
    r"\d+:\d\d(?::\d\d)?|[\d.,]+[kM]? (?:tokens|values)/s|in [\d.]+ s\b|[\d.]+ ms\b|after epoch \d+"
)


def difference(shown: str, got: str, strictness: Strictness) -> str | None:
    """How the output differs, or None.

    exact: the same text and numbers. near: the same text, numbers within 30 %. loose, after a shortened
    training: the first line and at least half of all lines agree, apart from numbers.
    """
    if strictness == "loose":
        return _loosely(shown, got)
    slots: list[str] = []
    pattern = _pattern(_plain(shown), slots)
    if (match := re.fullmatch(pattern, _plain(got), flags=re.DOTALL)) is None:
        return "the text is another one"
    for expected, found in zip(slots, match.groups(), strict=True):
        if expected != found and (strictness == "exact" or not _alike(expected, found)):
            return f"shown {expected}, got {found}"
    return None


def _plain(text: str) -> str:
    text = re.sub("─{4,}", "────", text)  # rules are as wide as the screen
    lines = [line.removesuffix(" *").rstrip() for line in _MEASURED.sub("(measured)", text).splitlines()]
    return " ".join(" ".join(lines).split())


def _pattern(shown: str, slots: list[str]) -> str:
    """A regular expression with a group for each number; the numbers themselves go into slots."""
    parts = []
    for part in re.split(r"(\s*\.\.\.\s*)", shown):
        if "..." in part:
            parts.append(r"\s*.*?\s*")
            continue
        end = 0
        for number in _NUMBER.finditer(part):
            parts.append(re.escape(part[end : number.start()]))
            parts.append(rf"({_NUMBER.pattern})")
            slots.append(number[0])
            end = number.end()
        parts.append(re.escape(part[end:]))
    return "".join(parts)


def _alike(shown: str, got: str) -> bool:
    expected, found = (float(number.replace(",", "")) for number in (shown, got))
    return abs(expected - found) <= NEAR * max(abs(expected), abs(found))


def _loosely(shown: str, got: str) -> str | None:
    expected = [_masked(line) for line in shown.splitlines() if line.strip() not in ("", "...")]
    found = [_masked(line) for line in got.splitlines() if line.strip()]
    if not expected or not found:
        return None if found or not expected else "nothing was printed"

    def agrees(line: str) -> bool:
        pattern = re.escape(line).replace(r"\.\.\.", ".*")
        return any(re.fullmatch(pattern, other) or other.startswith(line) for other in found)

    if shown.splitlines()[0].strip() != "..." and not agrees(expected[0]):
        return "the first line is another one"
    if 2 * sum(map(agrees, expected)) < len(expected):
        return "most of the lines are others"
    return None


def _masked(line: str) -> str:
    return " ".join(_NUMBER.sub("#", _plain(line)).replace("# #", "#").split())
