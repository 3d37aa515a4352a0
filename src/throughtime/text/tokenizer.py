"""The interface of tokenizers, the simplest of them, and the table of all.

Another package adds a tokenizer with an entry point of the group `throughtime.tokenizers`.
"""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, ClassVar

from throughtime.errors import InputError, unknown
from throughtime.registry import Registry

Normaliser = Callable[[str], str]
"""Changes a text before it is split into characters."""

_NOT_LETTERS = re.compile("[^A-Za-z]+")


class Tokenizer(ABC):
    """Splits a text into tokens and joins tokens to a text.

    Two laws hold: `detokenize(tokenize(text)) == normalise(text)`, and normalising twice is the same as
    normalising once. So `normalise` shows exactly what a round trip keeps of a text.
    """

    name: ClassVar[str]

    @abstractmethod
    def tokenize(self, text: str) -> list[str]:
        """Split a text into tokens."""

    @abstractmethod
    def detokenize(self, tokens: Sequence[str]) -> str:
        """Join tokens to a text."""

    def normalise(self, text: str) -> str:
        """Return what a round trip keeps of a text."""
        return self.detokenize(self.tokenize(text))

    def options(self) -> dict[str, Any]:
        """Return the arguments that build this tokenizer again, as JSON values."""
        return {}


def none(text: str) -> str:
    """Return the text unchanged."""
    return text


def nfc(text: str) -> str:
    """Return the text in composed form (NFC): a letter with its accent is one character if there is one.

    >>> nfc("e" + chr(0x301)) == chr(0xE9)
    True
    """
    return unicodedata.normalize("NFC", text)


def lower(text: str) -> str:
    """Return the text in lower case."""
    return text.lower()


def letters(text: str) -> str:
    """Replace everything but the letters A to Z by single spaces, and return the rest in lower case.

    >>> letters("The Time Machine, 1895!")
    'the time machine '
    """
    return _NOT_LETTERS.sub(" ", text).lower()


NORMALISERS = Registry[Normaliser](
    "normaliser",
    "throughtime.normalisers",
    {name: f"{__name__}:{name}" for name in ("none", "nfc", "lower", "letters")},
)


def check_normaliser(name: str, tokens: str, where: str = "normaliser") -> None:
    """Check that a normaliser exists and is only used with the tokenizer `char`.

    >>> check_normaliser("letters", "word", "--normaliser")
    Traceback (most recent call last):
    throughtime.errors.InputError: --normaliser: is 'letters', which needs the tokenizer char, not word
    """
    NORMALISERS[name]  # raises for an unknown name
    if name != "none" and tokens != "char":
        raise InputError(where, f"is {name!r}, which needs the tokenizer char, not {tokens}")


class CharTokenizer(Tokenizer):
    """Each character is a token.

    >>> CharTokenizer(normaliser="letters").tokenize("Ah, no")
    ['a', 'h', ' ', 'n', 'o']
    """

    name: ClassVar[str] = "char"

    def __init__(self, normaliser: str = "none") -> None:
        self.normaliser = normaliser
        self._normalise = NORMALISERS[normaliser]

    def normalise(self, text: str) -> str:
        """Apply the normaliser."""
        return self._normalise(text)

    def tokenize(self, text: str) -> list[str]:
        """Split the normalised text into characters."""
        return list(self._normalise(text))

    def detokenize(self, tokens: Sequence[str]) -> str:
        """Join the characters."""
        return "".join(tokens)

    def options(self) -> dict[str, Any]:
        """Return the name of the normaliser."""
        return {"normaliser": self.normaliser}


class SpacedTokenizer(Tokenizer):
    """The base of tokenizers whose tokens are joined by single spaces."""

    def detokenize(self, tokens: Sequence[str]) -> str:
        """Join the tokens by single spaces."""
        return " ".join(tokens)


class SpaceTokenizer(SpacedTokenizer):
    """Splits at white space, for text that is already split into tokens.

    >>> SpaceTokenizer().tokenize(" mr. <unk> is  chairman ")
    ['mr.', '<unk>', 'is', 'chairman']
    """

    name: ClassVar[str] = "space"

    def tokenize(self, text: str) -> list[str]:
        """Split the text at white space."""
        return text.split()


class WordTokenizer(SpacedTokenizer):
    """Keeps runs of the letters A to Z, in lower case, and drops everything else.

    >>> WordTokenizer().tokenize("It's 7 o'clock.")
    ['it', 's', 'o', 'clock']
    """

    name: ClassVar[str] = "word"

    def tokenize(self, text: str) -> list[str]:
        """Split the text into words."""
        return letters(text).split()


class BasicEnglishTokenizer(SpacedTokenizer):
    """The rule that torchtext calls "basic_english".

    Letters become lower case; . , ( ) ! ? ' are tokens; double quotes vanish; `<br />`, ; and : separate.

    >>> BasicEnglishTokenizer().tokenize('You "can\\'t" win: never!')
    ['you', 'can', "'", 't', 'win', 'never', '!']
    """

    name: ClassVar[str] = "basic-english"

    _mark = re.compile(r"([.,()!?'])")
    _separator = re.compile(r"[;:\s]+")

    def tokenize(self, text: str) -> list[str]:
        """Split the text into words and marks."""
        text = self._separator.sub(" ", text.lower().replace('"', ""))
        # Removing one tag from "<br <br />/>" leaves another, so repeat until none is left.
        while "<br />" in text:
            text = self._separator.sub(" ", text.replace("<br />", " "))
        return self._mark.sub(r" \1 ", text).split()


class TranslationTokenizer(SpacedTokenizer):
    """The rule of the book "Dive into Deep Learning" for English-French pairs.

    No-break spaces become spaces, letters lower case, and , . ! ? are split from the word before them.

    >>> TranslationTokenizer().tokenize("Va\\u202f!"), TranslationTokenizer().tokenize("Go.")
    (['va', '!'], ['go', '.'])
    """

    name: ClassVar[str] = "translation"

    _glued_mark = re.compile(r"(?<=[^ ])(?=[,.!?])")

    def tokenize(self, text: str) -> list[str]:
        """Split the text into words and marks."""
        text = text.replace("\u202f", " ").replace("\u00a0", " ").lower()
        return [token for token in self._glued_mark.sub(" ", text).split(" ") if token]


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
        # The tokenizer of a file is chosen by its path.
        raise unknown("tokenizer", name, [known for known in TOKENIZERS if known != "file"])
    kind = TOKENIZERS[name]
    known = list(signature(kind).parameters)
    if "definition" in known and "definition" not in options:
        raise InputError(
            f"tokenizer {name!r}", "must be trained on text first, or read from a tokenizer.json"
        )
    for option in options:
        if option not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InputError(f"tokenizer {name!r}", f"has no option {option!r}; {has}")
    return kind(**options)
