"""What a tagger says of one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TaggedWord(NamedTuple):
    """A word, its tag, and the most likely tags with their probabilities, best first.

    The tags of a chain are chosen together, so the chosen one need not be the most likely of its word alone.
    """

    word: str
    tag: str
    probability: float
    likely: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Tagged:
    """Words with their tags, and the label of them all where the model gives one."""

    words: tuple[TaggedWord, ...]
    label: str = ""
    label_probability: float | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags alone."""
        return tuple(word.tag for word in self.words)
