"""Texts inside HTML: cut out, translated, and put back between the same tags."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

RAW = re.compile(r"<(script|style|pre|code|textarea)\b", re.IGNORECASE | re.ASCII)
"""What such a tag encloses is no text to translate."""
_NAME = re.compile(r"[a-zA-Z/!?]")


class Markup:
    """A piece of HTML: tags, and texts between them.

    Tags, comments, and what scripts, styles and code hold stay as they are. Each stretch of text between two
    tags is a text of its own, so that a tag inside a sentence cuts it in two.

    >>> page = Markup('<p class="x">Hello!</p> <b>a &amp; b</b>')
    >>> page.texts
    ['Hello!', 'a & b']
    >>> page.with_texts(["Bonjour !", "a < b"])
    '<p class="x">Bonjour !</p> <b>a &lt; b</b>'
    """

    def __init__(self, source: str) -> None:
        self._parts: list[str] = []
        self._places: list[int] = []
        self.texts: list[str] = []
        place = 0
        while place < len(source):
            end = _tag(source, place) if source[place] == "<" else None
            if end is None:
                following = source.find("<", place + 1)
                end = len(source) if following < 0 else following
                self._text(source[place:end])
            else:
                self._parts.append(source[place:end])
            place = end

    def with_texts(self, texts: Sequence[str]) -> str:
        """The same HTML with other texts."""
        parts = list(self._parts)
        for place, text in zip(self._places, texts, strict=True):
            parts[place] = html.escape(text, quote=False)
        return "".join(parts)

    def _text(self, text: str) -> None:
        inner = text.strip()
        if not any(character.isalnum() for character in inner):
            self._parts.append(text)
            return
        before, _, after = text.partition(inner)
        self._places.append(len(self._parts) + 1)
        self._parts += [before, inner, after]
        self.texts.append(html.unescape(inner))


def _tag(source: str, start: int) -> int | None:
    """Where the tag ends that begins here, with all that it encloses raw; None where this is no tag."""
    if not _NAME.match(source, start + 1):
        return None
    if source.startswith("<!--", start):
        return _after(source.find("-->", start + 4), 3)
    end = _after(source.find(">", start), 1)
    if end is None or (raw := RAW.match(source, start)) is None:
        return end
    # Not by a source in small letters: there some letters are longer, and places are others.
    closing = re.compile(f"</{raw[1]}", re.IGNORECASE | re.ASCII).search(source, end)
    return end if closing is None else _after(source.find(">", closing.start()), 1)


def _after(place: int, size: int) -> int | None:
    return None if place < 0 else place + size
