"""What single tokens look like to people: the letters that each adds to a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from throughtime.text.codec import Codec

BEGIN, END = "⟨begin⟩", "⟨end⟩"
"""How the marks around a sequence are shown, whatever the vocabulary calls them."""
WINDOW = 24
"""Tokens that are decoded again to see what a new one adds; spacing depends on near neighbours only."""


def pieces(codec: Codec, ids: Sequence[int]) -> list[str]:
    """What each id adds to the readable text, its spaces included; a mark is told by its name."""
    return [piece(codec, ids[:place], one) for place, one in enumerate(ids)]


def piece(codec: Codec, before: Sequence[int], one: int) -> str:
    """What one id adds after others."""
    marks = {codec.vocabulary.bos_id: BEGIN, codec.vocabulary.eos_id: END}
    if one in marks:
        return marks[one]
    token = codec.vocabulary.token(one)
    if token in codec.vocabulary.reserved:
        return token
    near = list(before[-WINDOW:])
    text, longer = codec.decode(near), codec.decode([*near, one])
    return longer[len(text) :] if longer.startswith(text) else longer


def label(piece: str, before: str = "") -> str:
    """A piece as it stands on an axis: without its space; a dot where it goes on with the word before it.

    >>> label(" jar", "le"), label("din", " jar"), label("Ma", "<bos>"), label(".", "din"), label(" ", "a")
    ('jar', '·din', 'Ma', '.', '␣')
    """
    inner = piece.strip()
    if not inner:
        return "␣"
    within = piece[0].isalnum() and before[-1:].isalnum()
    return f"·{inner}" if within else inner


def labels(found: Sequence[str]) -> list[str]:
    """Pieces as they stand on an axis; where all are single characters none is marked.

    >>> labels(["Ma", " jar", "din", "."]), labels(list("a be"))
    (['Ma', 'jar', '·din', '.'], ['a', '␣', 'b', 'e'])
    """
    single = all(len(one) <= 1 for one in found if not one.startswith(("<", "[", BEGIN, END)))
    before = ["", *found] if not single else [""] * len(found)
    return [label(one, previous) for one, previous in zip(found, before, strict=False)]
