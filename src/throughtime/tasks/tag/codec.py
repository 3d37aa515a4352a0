"""What a tagger reads with: the vocabularies of words, letters, tags and labels, and its language models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.sequences import NO_LABEL, Reading, TaggedRows
from throughtime.data.records import Tagged
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.models.language import NOTHING, FrozenReader
from throughtime.models.weights import save_weights
from throughtime.tasks.base import load
from throughtime.tasks.tag.network import UNKNOWN
from throughtime.text.subword import SubwordTokenizer
from throughtime.text.tokenizer import CharTokenizer
from throughtime.text.vocabulary import Vocabulary

LANGUAGE_MODELS = "language-models"
"""The folder inside of a tagger's that holds copies of its language models."""
FILES = ("words", "characters", "tags", "labels")


@dataclass(frozen=True)
class TagCodec:
    """The vocabularies of a tagger.

    `words` holds every word of the training data; only those that occur `min_freq` times have a vector of
    their own. `labels` is None where sentences have none.

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
            raise InputError("data", "holds no sentence to learn from in its split train")
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
        """The number of words that have a vector of their own, <unk> included; these have the lowest ids."""
        counts = self.words.counts or {}
        return 1 + sum(
            counts.get(word, 0) >= self.min_freq for word in self.words if word not in self.words.reserved
        )

    def knows(self, word: str) -> bool:
        """Whether the word is in the training data, however rare."""
        return (word.lower() if self.lowercase else word) in self.words

    def rows(self, sentences: Sequence[Sequence[str]], languages: Sequence[TagLanguage] = ()) -> TaggedRows:
        """Sentences as ids; their tags and labels are not known."""
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

    def tagged_rows(
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


class TagLanguage:
    """A recurrent language model that reads whole sentences, given as words."""

    def __init__(self, language: Any, where: str) -> None:
        codec = language.framing.codec
        if isinstance(codec.tokenizer, SubwordTokenizer):
            raise InputError(
                "language_models", f"{where} reads parts of words; expected one with tokens=char or space"
            )
        self.language, self.reader = language, FrozenReader(language.model)
        # Words of a text in characters have spaces between them; where tokens are words, nothing is.
        self.between: list[int] = codec.encode(" ") if isinstance(codec.tokenizer, CharTokenizer) else []

    def read(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """The ids of a sentence in the model's direction, and the place of each word's last id."""
        framing = self.language.framing
        ids = [NOTHING if framing.begin_id is None else framing.begin_id]
        places = []
        for number, word in enumerate(reversed(words) if framing.backward else words):
            own = framing.codec.encode(word)
            ids += self.between if number else []
            ids += own[::-1] if framing.backward else own
            places.append(len(ids) - 1)
        return ids, places[::-1] if framing.backward else places

    def save(self, folder: ModelFolder) -> None:
        """Write a copy of the whole model, so that the tagger no longer needs the run."""
        self.language.save_description(folder)
        save_weights(self.language.model, folder)


class TaggerAssets(NamedTuple):
    """The vocabularies of a tagger, and the language models whose states it reads."""

    codec: TagCodec
    languages: tuple[TagLanguage, ...] = ()

    def save(self, folder: ModelFolder) -> None:
        """Write everything into a model folder; the weights of language models too, as they do not change."""
        self.codec.save(folder.path)
        for language, path in zip(self.languages, _copies(folder, len(self.languages)), strict=True):
            language.save(ModelFolder(path))

    @classmethod
    def load(cls, folder: ModelFolder, num_languages: int, **options: Any) -> TaggerAssets:
        """Read what `save` wrote; the options are those of `TagCodec.load`."""
        languages = load_languages(_copies(folder, num_languages))
        return cls(TagCodec.load(folder.path, **options), languages)


def load_languages(runs: Sequence[str | Path]) -> tuple[TagLanguage, ...]:
    """The language models in these folders."""
    found = []
    for run in runs:
        task, _ = ModelFolder.at(run).read_config()
        if task != "language":
            raise InputError(
                "language_models", f"{run} holds a model of the task {task!r}, expected 'language'"
            )
        found.append(TagLanguage(load(run, device="cpu"), str(run)))
    return tuple(found)


def _copies(folder: ModelFolder, count: int) -> list[Path]:
    """Where a tagger's folder keeps its language models."""
    return [folder.path / LANGUAGE_MODELS / str(number) for number in range(count)]
