"""The answers of taggers, trained or exported, and the measures of answers whose tags are known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from throughtime.errors import InputError, unknown
from throughtime.metrics.classification import Tagging, chunks, is_chunked
from throughtime.results import Progress, Tagged, TaggedWord
from throughtime.text.input_warnings import InputWarnings, ReadsTexts
from throughtime.text.subword import SUBWORDS
from throughtime.text.texts import align_columns, check_texts
from throughtime.text.tokenizer import TOKENIZERS, tokenizer
from throughtime.text.vocabulary import Vocabulary

CONFUSIONS = 10
"""The number of confusions that a report lists."""
LIKELY = 3
"""The number of the most likely tags that an answer holds for each word."""
WORD_TOKENIZERS = frozenset(TOKENIZERS) - frozenset(SUBWORDS)
"""The tokenizers that need no training."""


class SentenceTagger(ReadsTexts, ABC):
    """A tagger, trained or exported."""

    characters: Vocabulary  # the letters of the training data

    @abstractmethod
    def tag_words(
        self, sentences: Sequence[Sequence[str]], *, progress: Progress | None = None
    ) -> list[Tagged]:
        """Tag sentences that are split into words already."""

    def tag(
        self, texts: str | Sequence[str], *, tokenize: str = "space", progress: Progress | None = None
    ) -> list[Tagged]:
        """Tag the words of each text; an empty text has none.

        `tokenize` names the tokenizer that splits a text into words: `space`, as in tagged data, or `unicode`
        for raw text.
        """
        if tokenize not in WORD_TOKENIZERS:
            raise InputError("tokenize", str(unknown("tokenizer", tokenize, WORD_TOKENIZERS)))
        split = tokenizer(tokenize).tokenize
        return self.tag_words([split(text) for text in check_texts(texts)], progress=progress)

    @cached_property
    def _warnings(self) -> InputWarnings:
        """A tagger reads unknown words by their letters, so only unknown letters count."""
        return InputWarnings(tokenizer("char"), self.characters)


def build_answer(words: Sequence[TaggedWord], label: str = "", probability: float | None = None) -> Tagged:
    """Build an answer; it has chunks if the tags mark some.

    >>> answer = build_answer([TaggedWord("play", "O", 0.9), TaggedWord("jazz", "B-genre", 0.8)], "Play")
    >>> answer.text, answer.chunks
    ('play/O jazz/B-genre\\tPlay', (('genre', 'jazz'),))
    """
    tags = [word.tag for word in words]
    marked = chunks(tags) if is_chunked(tags) else []
    texts = [(one.type, " ".join(word.word for word in words[one.start : one.end])) for one in marked]
    return Tagged(tuple(words), label, probability, tuple(texts))


@dataclass
class TagCounts:
    """Counts over sentences whose tags are known."""

    tags: Tagging = field(default_factory=Tagging)
    sentences: int = 0
    unknown: int = 0  # number of words that are not in the training data
    unknown_right: int = 0
    labelled: int = 0
    labels_right: int = 0

    def measures(self, *, chunked: bool) -> dict[str, Any]:
        """Accuracy, the F1 of chunks if tags mark some, and the numbers of words and sentences."""
        chunks = self.tags.chunks
        found: dict[str, Any] = {"accuracy": self.tags.accuracy}
        if chunked:
            found |= {"f1": chunks.f1, "precision": chunks.precision, "recall": chunks.recall}
            found["types"] = {name: self.tags.types[name].values() for name in sorted(self.tags.types)}
        if self.labelled:
            found["intent_accuracy"] = self.labels_right / self.labelled
        found["unknown_word_accuracy"] = self.unknown_right / self.unknown if self.unknown else None
        counts = {"words": self.tags.words, "unknown_words": self.unknown, "sentences": self.sentences}
        return {**found, **counts, "confusion": self.tags.table()}

    def report(self, *, chunked: bool) -> str:
        """The measures for people, with those of each type of chunk and the most frequent confusions."""
        values = self.measures(chunked=chunked)
        parts = [f"F1 {values['f1']:.2%}"] if chunked else []
        parts.append(f"accuracy {values['accuracy']:.2%}")
        if chunked:
            parts.append(f"precision {values['precision']:.2%}, recall {values['recall']:.2%}")
        if self.labelled:
            parts.append(f"intents {values['intent_accuracy']:.2%}")
        lines = [", ".join(parts), f"over {values['words']:,} words of {values['sentences']:,} sentences"]
        if self.unknown:
            right = f"{values['unknown_word_accuracy']:.2%} are right"
            lines[-1] += f"; of {self.unknown:,} words not seen in training {right}"
        if chunked:
            shares = ("precision", "recall", "f1")
            rows = [
                (name, *(f"{one[share]:.1%}" for share in shares), f"{one['given']:,}")
                for name, one in values["types"].items()
            ]
            table = align_columns([("type", "precision", "recall", "F1", "given"), *rows])
            lines += [f"  {line}" for line in table]
        if confused := self.tags.confused[:CONFUSIONS]:
            counted = [(given, found, f"{count:,}") for given, found, count in confused]
            table = align_columns([("is", "tagged", "times"), *counted], left=2)
            lines += ["Confused most:", *(f"  {line}" for line in table)]
        return "\n".join(lines)
