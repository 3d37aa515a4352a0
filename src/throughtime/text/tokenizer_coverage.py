"""What a tokenizer leaves of a text: a model of the rest may look better than it is."""

from __future__ import annotations

from throughtime.errors import InputError
from throughtime.text.subword import SubwordTokenizer
from throughtime.text.tokenizer import Tokenizer

JUDGED = 1 << 22
"""After so many characters it is known what a tokenizer does to the letters of a text."""


class Remainder:
    """Cuts texts and looks at what is left of them; `where` says whose texts they are.

    >>> from throughtime.text.tokenizers import tokenizer
    >>> remainder = Remainder(tokenizer("word"), "words.txt")
    >>> remainder.tokenize("Привет, world")
    ['world']
    >>> remainder.notes()
    ("words.txt: the tokenizer 'word' drops 55% of the letters; other tokens, such as unicode, keep them",)
    """

    def __init__(self, tokenizer: Tokenizer, where: str) -> None:
        self.tokenizer, self.where = tokenizer, where
        self._read = self._letters = self._kept = 0
        self._blank = self._empty = True

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text."""
        tokens = self.tokenizer.tokenize(text)
        if self._blank:
            self._blank = not text.strip()
        if self._empty:
            self._empty = not any(map(str.strip, tokens))
        # The pieces of subwords may be bytes; those that are learned have one for every character.
        if self._read < JUDGED and not isinstance(self.tokenizer, SubwordTokenizer):
            self._read += len(text)
            self._letters += _letters(text)
            self._kept += _letters("".join(tokens))
        return tokens

    def notes(self) -> tuple[str, ...]:
        """A warning where most letters are dropped; refuses texts of which nothing is left."""
        if self._blank:
            raise blank(self.where)
        if self._empty:
            raise InputError(
                self.where,
                f"has nothing left for {tokenizer_name(self.tokenizer)}; choose other tokens, "
                "such as unicode",
            )
        if 2 * self._kept >= self._letters:
            return ()
        share = 1 - self._kept / self._letters
        return (
            f"{self.where}: {tokenizer_name(self.tokenizer)} drops {share:.0%} of the letters; "
            "other tokens, such as unicode, keep them",
        )


def tokenizer_name(tokenizer: Tokenizer) -> str:
    """The name of a tokenizer in messages, with its normaliser if it has one."""
    normaliser = tokenizer.options().get("normaliser", "none")
    return f"the tokenizer {tokenizer.name!r}" + (f" with {normaliser!r}" if normaliser != "none" else "")


def blank(where: str) -> InputError:
    """The error for texts without any visible character."""
    return InputError(where, "holds no token: all of it is blank; give a text")


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text))
