"""What a language model says of a text, and a text that it wrote."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scored:
    """A text and how likely the model finds it."""

    text: str
    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]

    @property
    def total(self) -> float:
        """ln P(text)."""
        return sum(self.log_probs)

    @property
    def per_token(self) -> float:
        """ln P(text) divided by its tokens, so that long texts are not at a loss."""
        return self.total / len(self.log_probs) if self.log_probs else 0.0


@dataclass(frozen=True)
class Generated:
    """A text that the model wrote: `text` begins with the prompt."""

    text: str
    log_prob: float
    ended: bool
