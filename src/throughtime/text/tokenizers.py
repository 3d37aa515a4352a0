"""The table of tokenizers: text to tokens and back, by name.

Another package adds one with an entry point of the group `throughtime.tokenizers`.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from throughtime.errors import InputError, unknown
from throughtime.registry import Registry
from throughtime.text.subword import SUBWORDS, FileTokenizer
from throughtime.text.tokenizer import Tokenizer

__all__ = ["TOKENIZERS", "Tokenizer", "tokenizer"]

TOKENIZERS = Registry[type[Tokenizer]](
    "tokenizer",
    "throughtime.tokenizers",
    {
        "char": "throughtime.text.tokenizer:CharTokenizer",
        "word": "throughtime.text.tokenizer:WordTokenizer",
        "space": "throughtime.text.tokenizer:SpaceTokenizer",
        "basic-english": "throughtime.text.tokenizer:BasicEnglishTokenizer",
        "translation": "throughtime.text.tokenizer:TranslationTokenizer",
        "unicode": "throughtime.text.unicode:UnicodeTokenizer",
        "wordpiece": "throughtime.text.subword:WordPieceTokenizer",
        "bpe": "throughtime.text.subword:BytePairTokenizer",
        "unigram": "throughtime.text.subword:UnigramTokenizer",
        "file": "throughtime.text.subword:FileTokenizer",
    },
)


def tokenizer(name: str, **options: Any) -> Tokenizer:
    """Build the tokenizer of this name.

    >>> tokenizer("char", normaliser="lower").tokenize("Ab")
    ['a', 'b']
    """
    if name not in TOKENIZERS:
        # A file is named by its path.
        raise unknown("tokenizer", name, [known for known in TOKENIZERS if known != FileTokenizer.name])
    if name in SUBWORDS and "definition" not in options:
        raise InputError(
            f"tokenizer {name!r}", "must be trained on text first, or read from a tokenizer.json"
        )
    kind = TOKENIZERS[name]
    known = list(signature(kind).parameters)
    for option in options:
        if option not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InputError(f"tokenizer {name!r}", f"has no option {option!r}; {has}")
    return kind(**options)
