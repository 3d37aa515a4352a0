"""Texts as a model reads them, and what each id adds to them."""

from __future__ import annotations

from throughtime.text.codec import Codec
from throughtime.text.framing import Framing


def test_a_torn_character_is_told_once_it_is_whole():
    codec = Codec.build(["plain letters alone", "and more of them"], "bpe", max_size=300)
    framing = Framing(codec, "lines")
    text = "a 苹果 é b"
    ids = codec.encode(text)
    assert len(ids) > len(text)  # the bytes of what was never seen
    pieces = framing.pieces(ids)
    assert "".join(pieces) == text
    assert "" in pieces
    assert "苹" in "".join(pieces[:6])
