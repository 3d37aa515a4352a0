"""Fonts for letters that the usual one lacks: whatever is installed and has them."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

_BOXES = ("Last Resort", ".LastResort", "LastResort")  # fonts that have a box for every letter
_UNDRAWN = "CZ"  # categories of what has no shape: controls, separators, letters not yet assigned
_EAST_ASIAN = {"HIRAGANA": "JP", "KATAKANA": "JP", "HANGUL": "KR"}
"""Han characters are drawn as the language of the letters around them writes them, Chinese if alone."""


def complete_fonts(figure: Figure) -> str:
    """Give the texts of a figure further fonts for what their own lacks; the letters that none has."""
    from matplotlib.text import Text

    lacking = {text: _lacking(text) for text in figure.findobj(Text) if not text.get_text().isascii()}
    wanted = set().union(*lacking.values())
    if not wanted:
        return ""
    families, left = _families(wanted)
    for text, letters in lacking.items():
        if letters:
            text.set_fontfamily([*text.get_fontfamily(), *families])
    return "".join(sorted(left))


def _lacking(text: Text) -> set[str]:
    from matplotlib.font_manager import findfont, get_font

    font = get_font(findfont(text.get_fontproperties()))
    drawn = {letter for letter in text.get_text() if unicodedata.category(letter)[0] not in _UNDRAWN}
    return drawn - _held(font, drawn)


def _families(wanted: Collection[str]) -> tuple[list[str], set[str]]:
    """As few families as have the letters between them, and the letters that no family has."""
    holds = _known_families(wanted)
    if set(wanted) - set().union(*holds.values()):
        _learn_new_fonts(wanted)
        holds = _known_families(wanted)
    left, chosen = set(wanted), list[str]()
    script = _script(wanted)
    while holds:
        # Of fonts that have as much: without serifs, of the right language, and the plainest by its name.
        best = max(
            holds,
            key=lambda name: (len(holds[name] & left), "Sans" in name, script in name, -len(name), name),
        )
        if not holds[best] & left:
            break
        chosen.append(best)
        left -= holds[best]
    return chosen, left


def _known_families(wanted: Collection[str]) -> dict[str, set[str]]:
    """What each family that matplotlib knows has of the letters."""
    from matplotlib.font_manager import fontManager

    files: dict[str, set[str]] = {}
    holds: dict[str, set[str]] = {}
    for entry in fontManager.ttflist:
        if entry.style == "normal" and not entry.name.startswith(_BOXES):
            if entry.fname not in files:
                files[entry.fname] = _held_by_file(entry.fname, wanted)
            held = files[entry.fname]
            # Its bold face may lack what the regular one has; a letter must be there in each.
            holds[entry.name] = holds.get(entry.name, held) & held
    return {name: held for name, held in holds.items() if held}


def _learn_new_fonts(wanted: Collection[str]) -> None:
    """Tell matplotlib of fonts that were installed after it made its list of them."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {entry.fname for entry in fontManager.ttflist}
    for file in findSystemFonts():
        if file not in known and _held_by_file(file, wanted):
            fontManager.addfont(file)


def _held_by_file(file: str, wanted: Collection[str]) -> set[str]:
    from matplotlib.ft2font import FT2Font

    try:
        return _held(FT2Font(file), wanted)
    except (OSError, RuntimeError):  # gone since it was listed, or no font at all
        return set()


def _held(font: Any, letters: Collection[str]) -> set[str]:
    """What a font has of the letters; one of bitmaps, as of coloured emoji, cannot be drawn with."""
    return {letter for letter in letters if font.get_char_index(ord(letter))} if font.scalable else set()


def _script(letters: Collection[str]) -> str:
    """The mark in the name of fonts that are made for one East Asian language.

    >>> _script("这店"), _script("駅の"), _script("역")
    ('SC', 'JP', 'KR')
    """
    names = {unicodedata.name(letter, "").partition(" ")[0] for letter in letters}
    return next((mark for script, mark in _EAST_ASIAN.items() if script in names), "SC")
