"""Sentences with blanks, as people write them and as a model reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from throughtime.errors import InputError
from throughtime.text.codec import Codec
from throughtime.text.subword import SubwordTokenizer, tokenizer_label

BLANK = re.compile(r"_{2,}|\[MASK\]")
NO_BLANK = "has no blank; write ___ where a word is missing"
_NEIGHBOUR = "1"  # a separate token before any letter, mark or space


@dataclass(frozen=True)
class Blanks:
    """A text with blanks: its `ids` as a model reads them, and the `places` of the blanks among them."""

    text: str
    ids: tuple[int, ...]
    places: tuple[int, ...]

    @classmethod
    def of(cls, text: str, codec: Codec) -> Blanks:
        """Read a text. A blank is `[MASK]` or two or more underscores, and stands for one token."""
        mask_id = find_mask_id(codec)
        first, *others = BLANK.split(text)
        if not others:
            raise InputError("text", NO_BLANK)
        parts = isinstance(codec.tokenizer, SubwordTokenizer)
        # A subword holds the space before it, so the space before a blank is part of what is missing.
        ids = codec.encode(first.rstrip(" ") if parts else first)
        places: list[int] = []
        for number, behind in enumerate(others, 1):
            places.append(len(ids))
            ids.append(mask_id)
            if parts and number < len(others):
                behind = behind.rstrip(" ")
            ids += _encode_after(behind, codec) if parts else codec.encode(behind)
        return cls(text, tuple(ids), tuple(places))

    def fill(self, words: Sequence[int], codec: Codec) -> str:
        """Return the text with these tokens in its blanks and the rest unchanged."""
        first, *others = BLANK.split(self.text)
        whole = first
        for word, behind in zip(words, others, strict=True):
            token = token_text(word, codec)
            if isinstance(codec.tokenizer, SubwordTokenizer):
                # A subword that does not begin a word is joined to the text before it.
                whole = whole if token.startswith(" ") else whole.rstrip(" ")
                token = token.strip(" ")
            whole += token + behind
        return whole


def draw_blank(ids: Sequence[int], position: int, codec: Codec) -> str:
    """Return the text of these ids with a blank at one place.

    >>> codec = Codec.build(["I am tired."], "unicode")
    >>> draw_blank(codec.encode("I am tired."), 2, codec)
    'I am ___.'
    """
    if isinstance(codec.tokenizer, SubwordTokenizer):
        return (
            f"{_decode_after(ids[:position], codec)} ___{_decode_after(ids[position + 1 :], codec)}".lstrip(
                " "
            )
        )
    tokens = codec.vocabulary.tokens(ids)
    return codec.tokenizer.detokenize([*tokens[:position], "___", *tokens[position + 1 :]])


def find_mask_id(codec: Codec) -> int:
    """Return the id of the token that stands for a blank."""
    if codec.vocabulary.mask_id is None:
        raise InputError(tokenizer_label(codec.tokenizer), "has no [MASK] token; choose another tokenizer")
    return codec.vocabulary.mask_id


def token_text(word: int, codec: Codec) -> str:
    """Return the text of a token inside a sentence, with the space before it if that is part of it."""
    if not isinstance(codec.tokenizer, SubwordTokenizer):
        return codec.vocabulary.token(word)
    return _decode_after([word], codec)


def _decode_after(ids: Sequence[int], codec: Codec) -> str:
    """Decode ids that follow other text."""
    before = codec.encode(_NEIGHBOUR)
    return codec.decode([*before, *ids])[len(codec.decode(before)) :]


def _encode_after(text: str, codec: Codec) -> list[int]:
    """Encode a text that follows other text."""
    before, both = codec.encode(_NEIGHBOUR), codec.encode(_NEIGHBOUR + text)
    return both[len(before) :] if both[: len(before)] == before else codec.encode(text)
