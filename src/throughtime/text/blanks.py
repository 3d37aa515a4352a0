"""Sentences with blanks in them, as people write them and as a model reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from throughtime.errors import InputError
from throughtime.text.codec import Codec
from throughtime.text.subword import SubwordTokenizer, tokenizer_label

BLANK = re.compile(r"_{2,}|\[MASK\]")
NO_BLANK = "has no blank; write ___ where a word is missing"
_NEIGHBOUR = "1"  # a token of its own before any letter, mark or space


@dataclass(frozen=True)
class Blanks:
    """A text with blanks: `ids` as a model reads it, and which `places` of them are blanks."""

    text: str
    ids: tuple[int, ...]
    places: tuple[int, ...]

    @classmethod
    def of(cls, text: str, codec: Codec) -> Blanks:
        """A blank is `[MASK]`, or two or more underscores: one token each, however long it is drawn."""
        mask_id = mask_of(codec)
        first, *others = BLANK.split(text)
        if not others:
            raise InputError("text", NO_BLANK)
        parts = isinstance(codec.tokenizer, SubwordTokenizer)
        # In parts of words a space belongs to the word behind it, which the blank stands for.
        ids = codec.encode(first.rstrip(" ") if parts else first)
        places: list[int] = []
        for number, text_behind in enumerate(others, 1):
            places.append(len(ids))
            ids.append(mask_id)
            behind = text_behind.rstrip(" ") if parts and number < len(others) else text_behind
            ids += _inside(behind, codec) if parts else codec.encode(behind)
        return cls(text, tuple(ids), tuple(places))

    def filled(self, words: Sequence[int], codec: Codec) -> str:
        """The text with these tokens in its blanks, all else as it was written."""
        first, *others = BLANK.split(self.text)
        whole = first
        for word, behind in zip(words, others, strict=True):
            said = token_text(word, codec)
            if isinstance(codec.tokenizer, SubwordTokenizer):
                # A part that is no beginning of a word is one with what stands before it.
                whole = whole if said.startswith(" ") else whole.rstrip(" ")
                said = said.strip(" ")
            whole += said + behind
        return whole


def draw_blank(ids: Sequence[int], place: int, codec: Codec) -> str:
    """The text of these ids with a blank at one place.

    >>> codec = Codec.build(["I am tired."], "unicode")
    >>> draw_blank(codec.encode("I am tired."), 2, codec)
    'I am ___.'
    """
    if isinstance(codec.tokenizer, SubwordTokenizer):
        return f"{_going_on(ids[:place], codec)} ___{_going_on(ids[place + 1 :], codec)}".lstrip(" ")
    tokens = codec.vocabulary.tokens(ids)
    return codec.tokenizer.detokenize([*tokens[:place], "___", *tokens[place + 1 :]])


def mask_of(codec: Codec) -> int:
    """The id that hides a token."""
    if codec.vocabulary.mask_id is None:
        raise InputError(tokenizer_label(codec.tokenizer), "has no [MASK] token; choose another tokenizer")
    return codec.vocabulary.mask_id


def token_text(word: int, codec: Codec) -> str:
    """What a token says inside a text, with the space before it where that is part of it."""
    if not isinstance(codec.tokenizer, SubwordTokenizer):
        return codec.vocabulary.token(word)
    return _going_on([word], codec)


def _going_on(ids: Sequence[int], codec: Codec) -> str:
    """The text of ids that go on after something else."""
    before = codec.encode(_NEIGHBOUR)
    return codec.decode([*before, *ids])[len(codec.decode(before)) :]


def _inside(text: str, codec: Codec) -> list[int]:
    """The ids of a text that goes on after something else."""
    before, both = codec.encode(_NEIGHBOUR), codec.encode(_NEIGHBOUR + text)
    return both[len(before) :] if both[: len(before)] == before else codec.encode(text)
