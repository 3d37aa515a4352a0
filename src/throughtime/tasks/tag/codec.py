"""The vocabularies of a tagger (words, letters, tags and labels), and its language models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from throughtime.data.batching.buckets import FrameTable, RaggedIds
from throughtime.data.batching.sequences import NO_LABEL, Reading, TaggedBatch, TaggedRows
from throughtime.data.records import TaggedSentence
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.manifest import write_manifest
from throughtime.models.indicators import IndicatorChain, fit_chain
from throughtime.models.language import FrozenReader
from throughtime.models.weights import save_weights
from throughtime.runtime.vectors import VectorCodec, open_vectors
from throughtime.tasks.saved import SavedRun
from throughtime.tasks.tag.runner import LanguageReader, WordReader, cut_steps, number_forms
from throughtime.text.indicators import INDICATORS, indicate
from throughtime.text.subword import SubwordTokenizer
from throughtime.text.tokenizer import CharTokenizer
from throughtime.text.vocabulary import Vocabulary

LANGUAGE_MODELS = "language-models"
"""The part of a tagger's folder that holds copies of its language models."""
FILES = ("words", "characters", "tags", "labels", "indicators")
MAX_WEIGHTS = 4_000_000
"""Weights of the indicators, at most: one for each tag; the most frequent ones are kept."""


@dataclass(frozen=True)
class TagCodec:
    """The vocabularies of a tagger.

    `words` holds every word of the training data; only those that occur at least `min_freq` times have a
    vector of their own. `labels` is None if sentences have no labels, and `indicators` if the
    model has none.

    >>> record = TaggedSentence(("The", "cat", "the"), ("DET", "NOUN", "DET"))
    >>> codec = TagCodec.build([record], lowercase=True, min_freq=2, max_characters=40)
    >>> codec.vectors, codec.rows([["the", "cat", "dog"]]).words.flat.tolist(), codec.knows("cat")
    (2, [1, 0, 0], True)
    """

    words: Vocabulary
    characters: Vocabulary
    tags: Vocabulary
    labels: Vocabulary | None
    indicators: Vocabulary | None
    lowercase: bool
    min_freq: int
    max_characters: int

    @classmethod
    def build(
        cls,
        records: Iterable[TaggedSentence],
        *,
        lowercase: bool,
        min_freq: int,
        max_characters: int,
        indicators: bool = False,
    ) -> TagCodec:
        """Build the vocabularies of these sentences."""
        words: Counter[str] = Counter()
        characters: Counter[str] = Counter()
        tags: Counter[str] = Counter()
        labels: Counter[str] = Counter()
        seen: Counter[str] = Counter()
        for record in records:
            words.update(word.lower() if lowercase else word for word in record.words)
            characters.update("".join(record.words))
            tags.update(record.tags)
            labels.update([record.label] if record.label else [])
            if indicators:
                seen.update(chain.from_iterable(indicate(record.words)))
        if not words:
            raise InputError("data", "holds no sentence to learn from in its split train")
        return cls(
            Vocabulary.from_counts(words),
            Vocabulary.from_counts(characters),
            Vocabulary.from_counts(tags, reserved=()),
            Vocabulary.from_counts(labels, reserved=()) if labels else None,
            Vocabulary.from_counts(seen, max_size=1 + MAX_WEIGHTS // len(tags)) if seen else None,
            lowercase,
            min_freq,
            max_characters,
        )

    @cached_property
    def vectors(self) -> int:
        """The number of words with a vector of their own, <unk> included; these have the lowest ids."""
        counts = self.words.counts or {}
        return 1 + sum(
            counts.get(word, 0) >= self.min_freq for word in self.words if word not in self.words.reserved
        )

    @cached_property
    def reader(self) -> WordReader:
        """Turns words into ids."""
        return WordReader(self.words, self.characters, self.lowercase, self.max_characters, self.vectors)

    def knows(self, word: str) -> bool:
        """Whether the word is in the training data, however rare."""
        return self.reader.normalise(word) in self.words

    def rows(self, sentences: Sequence[Sequence[str]], languages: Sequence[TagLanguage] = ()) -> TaggedRows:
        """Sentences as ids, without tags and labels."""
        forms, rows = number_forms(sentences)
        numbered = RaggedIds.of(rows)
        ids = np.array([self.reader.word_id(form) for form in forms], dtype=np.int32)
        words = RaggedIds(ids[numbered.flat], numbered.offsets)
        readings = []
        for language in languages:
            read = [language.reading.read(sentence) for sentence in sentences]
            ids_read, places = (RaggedIds.of(one[side] for one in read) for side in (0, 1))
            readings.append(Reading(ids_read, places))
        return TaggedRows(
            words,
            numbered,
            RaggedIds.of(self.reader.letter_ids(form) for form in forms),
            RaggedIds(np.zeros_like(words.flat), words.offsets),
            np.full(len(words), NO_LABEL),
            tuple(readings),
        )

    def tagged_rows(
        self, records: Sequence[TaggedSentence], languages: Sequence[TagLanguage] = (), *, labelled: bool
    ) -> TaggedRows:
        """Sentences with their tags and, if `labelled`, the label of each."""
        rows = self.rows([record.words for record in records], languages)
        tags = RaggedIds.of([_find_known(self.tags, tag, "tag") for tag in record.tags] for record in records)
        if not labelled or self.labels is None:
            return replace(rows, tags=tags)
        labels = [
            _find_known(self.labels, record.label, "label") if record.label else NO_LABEL
            for record in records
        ]
        return replace(rows, tags=tags, labels=np.array(labels, dtype=np.int64))

    def fit_chain(
        self, records: Sequence[TaggedSentence], *, linked: bool, seconds: float | None
    ) -> IndicatorChain | None:
        """Fit a chain over indicators to these sentences, if indicators are read."""
        if self.indicators is None:
            return None
        fitted = IndicatorChain(len(self.indicators), len(self.tags))
        rows = (self.indicators[row] for record in records for row in indicate(record.words))
        ids = np.fromiter(chain.from_iterable(rows), dtype=np.int32).reshape(-1, INDICATORS)
        tags = RaggedIds.of(self.tags[record.tags] for record in records)
        fit_chain(fitted, ids, tags.flat, tags.offsets, linked=linked, seconds=seconds)
        return fitted

    def number_steps(self, words: RaggedIds, tags: Iterable[Sequence[str]] = ()) -> TaggedRows:
        """Sequences of vectors, given by their numbers, as sentences of one word that all steps share."""
        zeros = RaggedIds(np.zeros_like(words.flat), words.offsets)
        numbers = RaggedIds.of([_find_known(self.tags, tag, "tag") for tag in own] for own in tags)
        labels = np.full(len(words), NO_LABEL)
        return TaggedRows(words, zeros, RaggedIds.of([[0]]), numbers if len(numbers) else zeros, labels)

    @cached_property
    def hash(self) -> str:
        """A digest of everything that decides which ids a sentence gets."""
        parts = [f"{self.lowercase} {self.min_freq} {self.max_characters}"]
        parts += [own.hash for name in FILES if (own := getattr(self, name)) is not None]
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
        paths = (folder / f"{name}.txt" for name in FILES[3:])
        labels, indicators = (Vocabulary.load(path) if path.is_file() else None for path in paths)
        return cls(words, characters, tags, labels, indicators, lowercase, min_freq, max_characters)


def _find_known(vocabulary: Vocabulary, name: str, kind: str) -> int:
    if name not in vocabulary:
        raise InputError(
            "the training data", f"hold the {kind} {name!r}, which the model does not know; train a new one"
        )
    return vocabulary[name]


class TagLanguage:
    """A recurrent language model whose states describe the words of a sentence."""

    def __init__(self, language: Any, where: str) -> None:
        codec = language.framing.codec
        if isinstance(codec.tokenizer, SubwordTokenizer):
            raise InputError(
                "language_models", f"{where} reads parts of words; expected one with tokens=char or space"
            )
        self.language, self.reader = language, FrozenReader(language.model)
        framing = language.framing
        # A text in characters has spaces between its words; tokens that are words have nothing between them.
        between = codec.encode(" ") if isinstance(codec.tokenizer, CharTokenizer) else []
        self.reading = LanguageReader(codec, framing.begin_id, framing.backward, between)

    def save(self, folder: ModelFolder) -> None:
        """Write a copy of the whole model, so that the tagger no longer needs the run."""
        self.language.save_description(folder)
        save_weights(self.language.model, folder)
        write_manifest(folder.path)


class TaggerAssets(NamedTuple):
    """The vocabularies of a tagger, and the language models whose states it reads."""

    codec: TagCodec
    languages: tuple[TagLanguage, ...] = ()
    chain: IndicatorChain | None = None
    """The chain over indicators of a new model; a saved one has it among its weights."""
    vectors: VectorCodec | None = None
    """How sequences of vectors are read in place of words."""

    def save(self, folder: ModelFolder) -> None:
        """Write everything into a model folder, with copies of the language models."""
        self.codec.save(folder.path)
        if self.vectors is not None:
            self.vectors.save(folder.path)
        for language, path in zip(self.languages, _copies(folder, len(self.languages)), strict=True):
            language.save(ModelFolder(path))

    @classmethod
    def load(cls, folder: ModelFolder, num_languages: int, **options: Any) -> TaggerAssets:
        """Read what `save` wrote; the options are those of `TagCodec.load`."""
        # The manifest of the tagger, which has been checked, covers these copies.
        languages = load_languages(_copies(folder, num_languages), trust_changed=True)
        return cls(TagCodec.load(folder.path, **options), languages, vectors=open_vectors(folder.path))

    def rows(self, sentences: Sequence[Any]) -> tuple[TaggedRows, FrameTable | None]:
        """Sentences as ids; or scaled vectors, with the table from which `read_vectors` takes them."""
        if self.vectors is None:
            return self.codec.rows(sentences, self.languages), None
        frames = FrameTable(self.vectors.size)
        return self.codec.number_steps(frames.add(sentences)), frames

    def tagged_rows(self, records: Sequence[Any], *, labelled: bool) -> tuple[TaggedRows, FrameTable | None]:
        """The same with tags and, if `labelled`, the label of each; long sequences of vectors in pieces."""
        if self.vectors is None:
            return self.codec.tagged_rows(records, self.languages, labelled=labelled), None
        frames = FrameTable(self.vectors.size)
        numbers = frames.add(piece for one in records for piece in cut_steps(self.vectors.scale(one.words)))
        tags = (piece for one in records for piece in cut_steps(one.tags))
        return self.codec.number_steps(numbers, tags), frames


def read_vectors(batch: TaggedBatch, frames: FrameTable | None) -> TaggedBatch:
    """A batch with vectors in place of their numbers."""
    return batch if frames is None else replace(batch, words=frames.read(batch.words))


def load_languages(runs: Sequence[str | Path], *, trust_changed: bool = False) -> tuple[TagLanguage, ...]:
    """Load the language models in these folders."""
    models = []
    for run in runs:
        saved = SavedRun.open(run)
        if saved.task != "language":
            raise InputError(
                "language_models", f"{run} holds a model of the task {saved.task!r}, expected 'language'"
            )
        models.append(TagLanguage(saved.load("cpu", trust_changed=trust_changed), str(run)))
    return tuple(models)


def _copies(folder: ModelFolder, count: int) -> list[Path]:
    """The folders of a tagger's language models."""
    return [folder.path / LANGUAGE_MODELS / str(number) for number in range(count)]
