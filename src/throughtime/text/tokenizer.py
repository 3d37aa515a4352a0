"""The interface of every tokenizer, and those that are a rule of one or two lines."""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from throughtime.errors import InputError
from throughtime.registry import Registry

Normaliser = Callable[[str], str]
"""What is done to a text before it is cut into characters."""

_NOT_LETTERS = re.compile("[^A-Za-z]+")


class Tokenizer(ABC):
    """Cuts a text into tokens and puts tokens together again.

    Two laws hold: `detokenize(tokenize(text)) == normalise(text)`, and normalising twice is normalising
    once. So `normalise` says exactly what a round trip keeps of a text.
    """

    name: ClassVar[str]

    @abstractmethod
    def tokenize(self, text: str) -> list[str]:
        """The tokens of this text."""

    @abstractmethod
    def detokenize(self, tokens: Sequence[str]) -> str:
        """One text of these tokens."""

    def normalise(self, text: str) -> str:
        """What remains of this text after a round trip."""
        return self.detokenize(self.tokenize(text))

    def options(self) -> dict[str, Any]:
        """The arguments that build this tokenizer again, as JSON can hold them."""
        return {}


def none(text: str) -> str:
    """The text as it is."""
    return text


def nfc(text: str) -> str:
    """Unicode's composed form: a letter and its accent are one character wherever one exists.

    >>> nfc("e" + chr(0x301)) == chr(0xE9)
    True
    """
    return unicodedata.normalize("NFC", text)


def lower(text: str) -> str:
    """Small letters only."""
    return text.lower()


def letters(text: str) -> str:
    """Each run of anything but the letters A to Z becomes one space; small letters only.

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
    """Refuse a normaliser that is not known, or that goes with no tokenizer but `char`.

    >>> check_normaliser("letters", "word", "--normalise")
    Traceback (most recent call last):
    throughtime.errors.InputError: --normalise: is 'letters', which goes with the tokens char, not with word
    """
    NORMALISERS[name]  # refuses an unknown name
    if name != "none" and tokens != "char":
        raise InputError(where, f"is {name!r}, which goes with the tokens char, not with {tokens}")


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
        """The text as its normaliser leaves it."""
        return self._normalise(text)

    def tokenize(self, text: str) -> list[str]:
        """The characters of the normalised text."""
        return list(self._normalise(text))

    def detokenize(self, tokens: Sequence[str]) -> str:
        """The characters side by side."""
        return "".join(tokens)

    def options(self) -> dict[str, Any]:
        """The name of the normaliser."""
        return {"normaliser": self.normaliser}


class SpacedTokenizer(Tokenizer):
    """Tokens with one space between them; what becomes of the text before is the subclass's rule."""

    def detokenize(self, tokens: Sequence[str]) -> str:
        """The tokens with one space between them."""
        return " ".join(tokens)


class SpaceTokenizer(SpacedTokenizer):
    """Tokens are what stands between spaces: for text that was cut into tokens before.

    >>> SpaceTokenizer().tokenize(" mr. <unk> is  chairman ")
    ['mr.', '<unk>', 'is', 'chairman']
    """

    name: ClassVar[str] = "space"

    def tokenize(self, text: str) -> list[str]:
        """The text cut at white space."""
        return text.split()


class WordTokenizer(SpacedTokenizer):
    """Runs of the letters A to Z, in small letters; all else is dropped.

    >>> WordTokenizer().tokenize("It's 7 o'clock.")
    ['it', 's', 'o', 'clock']
    """

    name: ClassVar[str] = "word"

    def tokenize(self, text: str) -> list[str]:
        """The words of the text."""
        return letters(text).split()


class BasicEnglishTokenizer(SpacedTokenizer):
    """The rule that torchtext calls "basic_english".

    Small letters; . , ( ) ! ? ' are tokens; double quotes vanish; `<br />`, ; and : separate.

    >>> BasicEnglishTokenizer().tokenize('You "can\\'t" win: never!')
    ['you', 'can', "'", 't', 'win', 'never', '!']
    """

    name: ClassVar[str] = "basic-english"

    _mark = re.compile(r"([.,()!?'])")
    _separator = re.compile(r"[;:\s]+")

    def tokenize(self, text: str) -> list[str]:
        """The words and marks of the text."""
        text = self._separator.sub(" ", text.lower().replace('"', ""))
        # Cutting one tag out of "<br <br />/>" leaves another: cut until none is left.
        while "<br />" in text:
            text = self._separator.sub(" ", text.replace("<br />", " "))
        return self._mark.sub(r" \1 ", text).split()


class TranslationTokenizer(SpacedTokenizer):
    """The rule of the book "Dive into Deep Learning" for English-French pairs.

    No-break spaces become spaces, letters small, and , . ! ? stand apart from the word before them.

    >>> TranslationTokenizer().tokenize("Va\\u202f!"), TranslationTokenizer().tokenize("Go.")
    (['va', '!'], ['go', '.'])
    """

    name: ClassVar[str] = "translation"

    _glued_mark = re.compile(r"(?<=[^ ])(?=[,.!?])")

    def tokenize(self, text: str) -> list[str]:
        """The words and marks of the text."""
        text = text.replace("\u202f", " ").replace("\u00a0", " ").lower()
        return [token for token in self._glued_mark.sub(" ", text).split(" ") if token]
