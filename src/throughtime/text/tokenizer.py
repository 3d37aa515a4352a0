"""The interface of every tokenizer: text to tokens and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar


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
