"""Words, letters, tags and labels to ids and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from throughtime.data.batching import RaggedIds
from throughtime.data.batching.sequences import NO_LABEL, Reading, TaggedRows
from throughtime.data.records import Tagged
from throughtime.errors import InputError
from throughtime.tasks.tag.network import UNKNOWN
from throughtime.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from throughtime.tasks.tag.languages import TagLanguage

FILES = ("words", "characters", "tags", "labels")


@dataclass(frozen=True)
class TagCodec:
    """The vocabularies of a tagger.

    `words` holds every word of the training data; only those that stood there `min_freq` times have a vector
    of their own. `labels` is None where sentences have none.

    >>> record = Tagged(("The", "cat", "the"), ("DET", "NOUN", "DET"))
    >>> codec = TagCodec.build([record], lowercase=True, min_freq=2, max_characters=40)
    >>> codec.vectors, codec.rows([["the", "cat", "dog"]]).words.flat.tolist(), codec.knows("cat")
    (2, [1, 0, 0], True)
    """

    words: Vocabulary
    characters: Vocabulary
    tags: Vocabulary
    labels: Vocabulary | None
    lowercase: bool
    min_freq: int
    max_characters: int

    @classmethod
    def build(
        cls, records: Iterable[Tagged], *, lowercase: bool, min_freq: int, max_characters: int
    ) -> TagCodec:
        """The vocabularies of these sentences."""
        words: Counter[str] = Counter()
        characters: Counter[str] = Counter()
        tags: Counter[str] = Counter()
        labels: Counter[str] = Counter()
        for record in records:
            words.update(word.lower() if lowercase else word for word in record.words)
            characters.update("".join(record.words))
            tags.update(record.tags)
            labels.update([record.label] if record.label else [])
        if not words:
            raise InputError("--data", "holds no sentence to learn from in its split train")
        return cls(
            Vocabulary.from_counts(words),
            Vocabulary.from_counts(characters),
            Vocabulary.from_counts(tags, reserved=()),
            Vocabulary.from_counts(labels, reserved=()) if labels else None,
            lowercase,
            min_freq,
            max_characters,
        )

    @cached_property
    def vectors(self) -> int:
        """How many words have a vector of their own, <unk> among them; these have the lowest ids."""
        counts = self.words.counts or {}
        return 1 + sum(
            counts.get(word, 0) >= self.min_freq for word in self.words if word not in self.words.reserved
        )

    def knows(self, word: str) -> bool:
        """Whether the word stood in the training data, however seldom."""
        return (word.lower() if self.lowercase else word) in self.words

    def rows(self, sentences: Sequence[Sequence[str]], languages: Sequence[TagLanguage] = ()) -> TaggedRows:
        """Sentences as ids, of which nothing is told but their words."""
        forms: dict[str, int] = {}
        numbered = RaggedIds.of([forms.setdefault(word, len(forms)) for word in words] for words in sentences)
        ids = np.array([self._word(form) for form in forms], dtype=np.int32)
        words = RaggedIds(ids[numbered.flat], numbered.offsets)
        readings = []
        for language in languages:
            read = [language.read(sentence) for sentence in sentences]
            ids_read, places = (RaggedIds.of(one[side] for one in read) for side in (0, 1))
            readings.append(Reading(ids_read, places))
        return TaggedRows(
            words,
            numbered,
            RaggedIds.of(self.characters[list(self._shortened(form))] for form in forms),
            RaggedIds(np.zeros_like(words.flat), words.offsets),
            np.full(len(words), NO_LABEL),
            tuple(readings),
        )

    def taught(
        self, records: Sequence[Tagged], languages: Sequence[TagLanguage] = (), *, labelled: bool
    ) -> TaggedRows:
        """Sentences with their tags, and where `labelled` with the label of each."""
        rows = self.rows([record.words for record in records], languages)
        tags = RaggedIds.of([_known(self.tags, tag, "tag") for tag in record.tags] for record in records)
        if not labelled or self.labels is None:
            return replace(rows, tags=tags)
        labels = [
            _known(self.labels, record.label, "label") if record.label else NO_LABEL for record in records
        ]
        return replace(rows, tags=tags, labels=np.array(labels, dtype=np.int64))

    @cached_property
    def hash(self) -> str:
        """A digest of all that decides which ids a sentence gets."""
        parts = [f"{self.lowercase} {self.min_freq} {self.max_characters}"]
        parts += [own.hash for own in (self.words, self.characters, self.tags, self.labels) if own]
        return sha256(" ".join(parts).encode()).hexdigest()[:12]

    def save(self, folder: Path) -> None:
        """Write the vocabularies into a folder, which may hold other files."""
        for name in FILES:
            if (vocabulary := getattr(self, name)) is not None:
                vocabulary.save(folder / f"{name}.txt")

    @classmethod
    def load(cls, folder: Path, *, lowercase: bool, min_freq: int, max_characters: int) -> TagCodec:
        """Read what `save` wrote."""
        words, characters, tags = (Vocabulary.load(folder / f"{name}.txt") for name in FILES[:3])
        path = folder / "labels.txt"
        labels = Vocabulary.load(path) if path.is_file() else None
        return cls(words, characters, tags, labels, lowercase, min_freq, max_characters)

    def _word(self, form: str) -> int:
        number = self.words[form.lower() if self.lowercase else form]
        return number if number < self.vectors else UNKNOWN

    def _shortened(self, form: str) -> str:
        most = self.max_characters
        return form if len(form) <= most else form[: most // 2] + form[-(most - most // 2) :]


def _known(vocabulary: Vocabulary, name: str, kind: str) -> int:
    if name not in vocabulary:
        raise InputError(
            "the training data", f"hold the {kind} {name!r}, which the model does not know; train a new one"
        )
    return vocabulary[name]
