"""A tokenizer: words in capital letters."""

from __future__ import annotations

from typing import ClassVar

from throughtime.text.tokenizer import SpacedTokenizer


class ShoutTokenizer(SpacedTokenizer):
    """What stands between spaces, in capital letters."""

    name: ClassVar[str] = "shout"

    def tokenize(self, text: str) -> list[str]:
        """The words."""
        return text.upper().split()
