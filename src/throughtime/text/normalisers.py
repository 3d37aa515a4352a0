"""What is done to a text before it is cut into tokens."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from throughtime.errors import InputError, unknown

Normaliser = Callable[[str], str]

_NOT_LETTERS = re.compile("[^A-Za-z]+")


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


NORMALISERS: dict[str, Normaliser] = {"none": none, "nfc": nfc, "lower": lower, "letters": letters}


def normaliser(name: str) -> Normaliser:
    """The normaliser of this name."""
    if name not in NORMALISERS:
        raise unknown("normaliser", name, NORMALISERS)
    return NORMALISERS[name]


def check_normaliser(name: str, tokens: str, where: str = "normaliser") -> None:
    """Refuse a normaliser that is not known, or that goes with no tokenizer but `char`.

    >>> check_normaliser("letters", "word", "--normalise")
    Traceback (most recent call last):
    throughtime.errors.InputError: --normalise: is 'letters', which goes with the tokens char, not with word
    """
    normaliser(name)
    if name != "none" and tokens != "char":
        raise InputError(where, f"is {name!r}, which goes with the tokens char, not with {tokens}")
