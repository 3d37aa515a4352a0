"""One style for all figures: colours that everybody can tell apart, and fonts for every script."""

from __future__ import annotations

import sys
import unicodedata
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.errors import InputError, import_optional
from throughtime.files import whole_file
from throughtime.text.texts import escape_controls

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

# Okabe and Ito's palette, strongest contrast first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK, FAINT = "#333333", "#DDDDDD"
FORMATS = ("png", "svg", "pdf")
_DPI = 160
_NAMED = 20  # maximum number of missing characters to name

_STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "text.color"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
    # Each date is complete, in lines so short that several fit side by side.
    "date.autoformatter.month": "%b\n%Y",
    "date.autoformatter.day": "%d %b\n%Y",
    **dict.fromkeys(("date.autoformatter.hour", "date.autoformatter.minute"), "%H:%M\n%d %b\n%Y"),
    "date.autoformatter.second": "%H:%M:%S\n%d %b\n%Y",
    "date.autoformatter.microsecond": "%H:%M:%S.%f\n%d %b\n%Y",
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    # Equal figures give equal files: no random identifiers in an SVG.
    "svg.hashsalt": "throughtime",
}
_BOXES = ("Last Resort", ".LastResort", "LastResort")  # fonts with a box for every character
_UNDRAWN = "CZ"  # Unicode categories without a shape: controls, separators, unassigned
_EAST_ASIAN = {"HIRAGANA": "JP", "KATAKANA": "JP", "HANGUL": "KR"}
"""Han characters are drawn in the style of the language around them, by default Chinese."""


def import_matplotlib() -> Any:
    """Import matplotlib; if it is missing, the error says what to install."""
    return import_optional("matplotlib", feature="drawing a picture", extra="plot")


@contextmanager
def figure(width: float = 7.0, height: float = 4.2, path: Path | str | None = None) -> Iterator[Figure]:
    """Create an empty figure of this size in inches, to be drawn in the common style within the block.

    At the end of the block the figure is written to `path`, if given, in the format of its suffix. Characters
    that the usual font lacks are drawn with another installed font; a line on stderr names those that no font
    has. The figure is not registered with pyplot, so that a notebook shows it only once.
    """
    matplotlib = import_matplotlib()
    from cycler import cycler
    from matplotlib.figure import Figure

    kind = None if path is None else check_format(path)
    with matplotlib.rc_context({**_STYLE, "axes.prop_cycle": cycler(color=COLOURS)}):
        drawing = Figure(figsize=(width, height))
        drawing._repr_png_ = partial(_png, drawing)  # type: ignore[attr-defined]  # what a notebook shows
        yield drawing
        missing = complete_fonts(drawing)
        with warnings.catch_warnings():
            # One line below names them all.
            warnings.filterwarnings("ignore", r"Glyph .* missing from ")
            if path is None or kind is None:
                drawing.draw_without_rendering()  # ticks take their style when they are first drawn
            else:
                # A date in the file would make equal figures differ.
                metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
                with whole_file(Path(path), "wb") as file:
                    drawing.savefig(file, format=kind, dpi=_DPI, metadata=metadata)
    if missing:
        message = _missing_characters("figure" if path is None else str(path), missing)
        print(escape_controls(message), file=sys.stderr)


def legend_line(label: str, **look: Any) -> Any:
    """Create an entry of a legend: a line with this look that is not part of the figure."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **look)


def _png(drawing: Figure) -> bytes:
    """Return the figure as a PNG for notebooks."""
    buffer = BytesIO()
    drawing.savefig(buffer, format="png", dpi=_DPI / 2)
    return buffer.getvalue()


def _missing_characters(where: str, missing: str) -> str:
    """Write the message about characters that no font has.

    >>> _missing_characters("a.png", "ሀሁ")
    'a.png: boxes stand for ሀሁ, which no installed font has; Noto has fonts of most scripts.'
    """
    more = len(missing) - _NAMED
    named = f"{missing[:_NAMED]} and {more} more" if more > 0 else missing
    return f"{where}: boxes stand for {named}, which no installed font has; Noto has fonts of most scripts."


def check_format(path: Path | str, where: str | None = None) -> str:
    """Return the format of a figure by its suffix; call this before long work that ends in a figure.

    An error names the path, or `where` if that is clearer.
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        known = ", ".join(f".{name}" for name in FORMATS)
        problem = f"has no known format of figures; choose a name that ends in {known}"
        raise InputError(where or str(path), problem)
    return kind


def complete_fonts(figure: Figure) -> str:
    """Add fallback fonts to the texts of a figure; return the characters that no font has."""
    from matplotlib.text import Text

    lacking = {text: _find_missing(text) for text in figure.findobj(Text) if not text.get_text().isascii()}
    characters = set().union(*lacking.values())
    if not characters:
        return ""
    families, left = _families(characters)
    for text, letters in lacking.items():
        if letters:
            text.set_fontfamily([*text.get_fontfamily(), *families])
    return "".join(sorted(left))


def _find_missing(text: Text) -> set[str]:
    from matplotlib.font_manager import findfont

    drawn = {letter for letter in text.get_text() if unicodedata.category(letter)[0] not in _UNDRAWN}
    return drawn - _find_available(str(findfont(text.get_fontproperties())), drawn)


def _families(characters: Collection[str]) -> tuple[list[str], set[str]]:
    """Choose as few font families as possible that cover the characters; return the rest as well."""
    holds = _known_families(characters)
    if set(characters) - set().union(*holds.values()):
        _learn_new_fonts(characters)
        holds = _known_families(characters)
    left, chosen = set(characters), list[str]()
    script = _script(characters)
    while holds:
        # Among equal fonts prefer sans-serif, the right language, and the shortest name.
        best = max(
            holds,
            key=lambda name: (len(holds[name] & left), "Sans" in name, script in name, -len(name), name),
        )
        if not holds[best] & left:
            break
        chosen.append(best)
        left -= holds[best]
    return chosen, left


def _known_families(characters: Collection[str]) -> dict[str, set[str]]:
    """The characters that each family known to matplotlib has."""
    from matplotlib.font_manager import fontManager

    holds: dict[str, set[str]] = {}
    for entry in fontManager.ttflist:
        if entry.style == "normal" and not entry.name.startswith(_BOXES):
            available = _find_available(entry.fname, characters)
            # The bold face may lack a character of the regular one: it must be in all faces.
            holds[entry.name] = holds.get(entry.name, available) & available
    return {name: available for name, available in holds.items() if available}


def _learn_new_fonts(characters: Collection[str]) -> None:
    """Add fonts to matplotlib that were installed after it cached its list."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {entry.fname for entry in fontManager.ttflist}
    for file in findSystemFonts():
        if file not in known and _find_available(file, characters):
            fontManager.addfont(file)


def _find_available(file: str, letters: Collection[str]) -> set[str]:
    """The characters that a font has; bitmap fonts, such as coloured emoji, cannot be drawn."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(file)
    except (OSError, RuntimeError):  # deleted since it was listed, or not a font
        return set()
    return {letter for letter in letters if font.get_char_index(ord(letter))} if font.scalable else set()


def _script(letters: Collection[str]) -> str:
    """Return the suffix in the names of fonts for the East Asian language of the characters.

    >>> _script("这店"), _script("駅の"), _script("역")
    ('SC', 'JP', 'KR')
    """
    names = {unicodedata.name(letter, "").partition(" ")[0] for letter in letters}
    return next((mark for script, mark in _EAST_ASIAN.items() if script in names), "SC")
