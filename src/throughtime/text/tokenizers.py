"""The table of tokenizers: text to tokens and back, by name."""

from __future__ import annotations

from typing import Any

from throughtime.errors import InputError, unknown
from throughtime.text.rules import (
    BasicEnglishTokenizer,
    CharTokenizer,
    SpaceTokenizer,
    TranslationTokenizer,
    WordTokenizer,
)
from throughtime.text.subword import SUBWORDS
from throughtime.text.tokenizer import Tokenizer
from throughtime.text.unicode import UnicodeTokenizer

__all__ = ["TOKENIZERS", "Tokenizer", "tokenizer"]

_KINDS: tuple[type[Tokenizer], ...] = (
    CharTokenizer,
    WordTokenizer,
    SpaceTokenizer,
    BasicEnglishTokenizer,
    TranslationTokenizer,
    UnicodeTokenizer,
    *SUBWORDS.values(),
)
TOKENIZERS = {kind.name: kind for kind in _KINDS}


def tokenizer(name: str, **options: Any) -> Tokenizer:
    """Build the tokenizer of this name.

    >>> tokenizer("char", normaliser="lower").tokenize("Ab")
    ['a', 'b']
    """
    if name not in TOKENIZERS:
        raise unknown("tokenizer", name, TOKENIZERS)
    if name in SUBWORDS and "definition" not in options:
        raise InputError(
            f"tokenizer {name!r}", "must be trained on text first, or read from a tokenizer.json"
        )
    try:
        return TOKENIZERS[name](**options)
    except TypeError as error:
        raise InputError(f"tokenizer {name!r}", f"has no such option: {error}") from None
