"""What a classifier says of one text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Classified:
    """A text and its labels, the likeliest first."""

    text: str
    ranked: tuple[tuple[str, float], ...]  # label and probability

    @property
    def label(self) -> str:
        """The likeliest label."""
        return self.ranked[0][0]

    @property
    def probability(self) -> float:
        """That of the likeliest label."""
        return self.ranked[0][1]

    def values(self) -> dict[str, Any]:
        """Ready for JSON."""
        head = {"text": self.text, "label": self.label, "probability": self.probability}
        return {**head, "probabilities": dict(self.ranked)}
