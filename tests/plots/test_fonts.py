"""Letters that the usual font lacks."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib import font_manager
from matplotlib.text import Text

from throughtime.plots.style import complete_fonts, figure

LETTER = "Ⓐ"  # matplotlib brings STIXGeneral, which has it, beside DejaVu Sans, which has not
HIEROGLYPH = "𓀀"
USUAL = "DejaVu Sans"


def entry(family: str) -> Any:
    return next(
        one
        for one in font_manager.fontManager.ttflist
        if one.name == family and (one.style, one.weight) == ("normal", 400)
    )


@pytest.fixture
def fonts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make some fonts the only ones that matplotlib knows, and some files all that are installed."""

    def only(known: list[str], files: list[str]) -> None:
        made = [entry(family) for family in known]
        installed = [entry(family).fname for family in files]
        monkeypatch.setattr(font_manager.fontManager, "ttflist", made)
        monkeypatch.setattr(font_manager, "findSystemFonts", lambda: installed)

    return only


def drawn(title: str) -> tuple[Any, str]:
    with figure(2, 2) as drawing:
        axes = drawing.subplots()
        axes.set_title(title)
        axes.set_xticks([0, 1], ["plain", title])
        return drawing, complete_fonts(drawing)


def families(drawing: Any, text: str) -> set[str]:
    found = [one for one in drawing.findobj(Text) if one.get_text() == text]
    return {name for one in found for name in one.get_fontfamily()}


def test_letters_that_the_font_lacks_are_drawn_with_one_that_has_them(fonts: Any) -> None:
    fonts([USUAL, "DejaVu Serif", "STIXGeneral"], [])
    drawing, left = drawn(f"a {LETTER}")
    assert left == ""
    assert "STIXGeneral" in families(drawing, f"a {LETTER}")
    assert "DejaVu Serif" not in families(drawing, f"a {LETTER}")
    assert "STIXGeneral" not in families(drawing, "plain")


def test_fonts_that_were_installed_later_are_found(fonts: Any) -> None:
    fonts([USUAL], ["STIXGeneral"])
    drawing, left = drawn(LETTER)
    assert (left, "STIXGeneral" in families(drawing, LETTER)) == ("", True)


def test_a_font_of_boxes_has_no_letter(fonts: Any) -> None:
    known = {one.name for one in font_manager.fontManager.ttflist}
    fonts([USUAL, *(name for name in known if name.startswith("Last Resort"))], [])
    _, left = drawn(HIEROGLYPH + LETTER)
    assert left == LETTER + HIEROGLYPH
