"""What a model that fills blanks makes of one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Filling:
    """A sentence with its blanks filled, the words put in, and how likely they are together."""

    text: str
    tokens: tuple[str, ...]
    probability: float

    def values(self) -> dict[str, Any]:
        """All of it, by name."""
        return {"text": self.text, "tokens": list(self.tokens), "probability": self.probability}
