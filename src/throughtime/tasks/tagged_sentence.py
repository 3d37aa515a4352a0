"""What a tagger says of one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from throughtime.metrics.tagging import chunks, is_chunked


class TaggedWord(NamedTuple):
    """A word, its tag, and the most likely tags with their probabilities, best first.

    The tags of a chain are chosen together, so the chosen one need not be the most likely of its word alone.
    """

    word: str
    tag: str
    probability: float
    likely: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class TaggedSentence:
    """Words with their tags, and the label of them all where the model gives one.

    >>> sentence = TaggedSentence((TaggedWord("play", "O", 0.9), TaggedWord("jazz", "B-genre", 0.8)), "Play")
    >>> sentence.line(), sentence.chunks
    ('play/O jazz/B-genre\\tPlay', [('genre', 'jazz')])
    """

    words: tuple[TaggedWord, ...]
    label: str = ""
    label_probability: float | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags alone."""
        return tuple(word.tag for word in self.words)

    @property
    def chunks(self) -> list[tuple[str, str]]:
        """Type and text of each chunk that the tags mark; none where tags mark no chunks."""
        if not is_chunked(self.tags):
            return []
        texts = [word.word for word in self.words]
        return [(one.type, " ".join(texts[one.start : one.end])) for one in chunks(self.tags)]

    def line(self) -> str:
        """One line: word/tag, and the label behind a tab."""
        text = " ".join(f"{word.word}/{word.tag}" for word in self.words)
        return f"{text}\t{self.label}" if self.label else text

    def values(self) -> dict[str, Any]:
        """All of it, for JSON."""
        words = [{**word._asdict(), "likely": dict(word.likely)} for word in self.words]
        values: dict[str, Any] = {"words": words}
        values["chunks"] = [{"type": type_, "text": text} for type_, text in self.chunks]
        if self.label:
            values |= {"label": self.label, "label_probability": self.label_probability}
        return values
