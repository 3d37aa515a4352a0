"""What a tagger says of one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from throughtime.metrics.classification import chunks, is_chunked
from throughtime.results import Tagged


@dataclass(frozen=True)
class TaggedSentence(Tagged):
    """The same with the chunks that the tags mark, for people and for JSON.

    >>> from throughtime.results import TaggedWord
    >>> sentence = TaggedSentence((TaggedWord("play", "O", 0.9), TaggedWord("jazz", "B-genre", 0.8)), "Play")
    >>> sentence.line(), sentence.chunks
    ('play/O jazz/B-genre\\tPlay', [('genre', 'jazz')])
    """

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
