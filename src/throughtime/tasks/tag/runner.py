"""Tagging without torch: how words are read, what a trained tagger and its export share, and the export."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, NotRequired, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError, unknown
from throughtime.interrupt import check_interrupt
from throughtime.metrics.classification import chunks, is_chunked
from throughtime.results import Progress, Tagged, TaggedWord
from throughtime.runtime.chain import Chain
from throughtime.runtime.checks import Size
from throughtime.runtime.keywords import complete_options
from throughtime.runtime.runner import TextRunner, batches, pad
from throughtime.runtime.session import ExportedModel, ExportFolder
from throughtime.runtime.vectors import VectorCodec, open_vectors
from throughtime.tasks.tag import TagOptions
from throughtime.text.codec import Codec
from throughtime.text.framing import NOTHING
from throughtime.text.indicators import INDICATORS, indicate
from throughtime.text.input_warnings import InputWarnings, ReadsTexts
from throughtime.text.subword import SUBWORDS
from throughtime.text.texts import check_sentences, check_texts
from throughtime.text.tokenizer import TOKENIZERS, tokenizer
from throughtime.text.vocabulary import Vocabulary

Array = NDArray[Any]

UNKNOWN = 0
"""The id of all words that have no vector of their own."""


@dataclass(frozen=True)
class WordReader:
    """The ids of words and of their letters; only the first `vectors` words of the vocabulary have an id.

    >>> letters = Vocabulary(["<unk>", "a", "b", "c"])
    >>> reader = WordReader(Vocabulary(["<unk>", "the"]), letters, True, 2, 2)
    >>> reader.word_id("The"), reader.word_id("cat"), reader.letter_ids("abbc")
    (1, 0, [1, 3])
    """

    words: Vocabulary
    characters: Vocabulary
    lowercase: bool
    max_characters: int
    vectors: int

    def normalise(self, form: str) -> str:
        """A word as the vocabulary has it."""
        return form.lower() if self.lowercase else form

    def word_id(self, form: str) -> int:
        """The id of a word; UNKNOWN if it has no vector of its own."""
        number = self.words[self.normalise(form)]
        return number if number < self.vectors else UNKNOWN

    def letter_ids(self, form: str) -> list[int]:
        """The ids of a word's letters; the middle of a long word is left out."""
        cut = len(form) - self.max_characters
        start = self.max_characters // 2
        return self.characters[list(form if cut <= 0 else form[:start] + form[start + cut :])]


@dataclass(frozen=True)
class LanguageReader:
    """What a language model reads of a sentence that is split into words.

    `between` are the ids of a space, for models of characters. Without `begin_id` a text begins with NOTHING.
    """

    codec: Codec
    begin_id: int | None
    backward: bool
    between: Sequence[int]

    def read(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """The ids of a sentence in the model's direction, and for each word the place of its last id."""
        ids = [NOTHING if self.begin_id is None else self.begin_id]
        places = []
        for number, word in enumerate(reversed(words) if self.backward else words):
            own = self.codec.encode(word)
            ids += self.between if number else []
            ids += own[::-1] if self.backward else own
            places.append(len(ids) - 1)
        return ids, places[::-1] if self.backward else places


def indicator_ids(sentences: Sequence[Sequence[str]], known: Vocabulary) -> Array:
    """The ids of the indicators of all words [T, B, K], 0 for unknown ones and past the end of a sentence."""
    ids = np.zeros((max(map(len, sentences), default=1), len(sentences), INDICATORS), dtype=np.int64)
    for column, words in enumerate(sentences):
        ids[: len(words), column] = [known[row] for row in indicate(words)]
    return ids


def number_forms(sentences: Sequence[Sequence[str]]) -> tuple[list[str], list[list[int]]]:
    """The distinct words of some sentences, and the sentences as numbers of these.

    >>> number_forms([["the", "cat"], ["the"]])
    (['the', 'cat'], [[0, 1], [0]])
    """
    forms: dict[str, int] = {}
    numbered = [[forms.setdefault(word, len(forms)) for word in words] for words in sentences]
    return list(forms), numbered


LIKELY = 3
"""The number of the most likely tags that an answer holds for each word."""
WORD_TOKENIZERS = frozenset(TOKENIZERS) - frozenset(SUBWORDS)
"""The tokenizers that need no training."""


STEPS, AROUND = 512, 64
"""Steps of a sequence of vectors that are tagged at a time, and those around them that are read, too."""


def cut_steps(sequence: Any) -> list[Any]:
    """Cut a sequence into pieces of at most `STEPS`."""
    return [sequence[first : first + STEPS] for first in range(0, len(sequence), STEPS)]


class TagReading(NamedTuple):
    """What a network says of a sentence of T words."""

    tags: Array  # [T]: the likeliest tags together
    marginals: Array  # [T, S]: P of every tag at each word
    labels: Array | None  # [K]: the score of every label, if there are any


class SentenceTagger(ReadsTexts, ABC):
    """A tagger, trained or exported."""

    characters: Vocabulary  # the letters of the training data
    tags: Sequence[str]  # in the order of the network's outputs, as are the labels
    labels: Sequence[str]  # empty if sentences have none
    sentences_per_batch: int

    @abstractmethod
    def _compute(self, sentences: Sequence[Any]) -> list[TagReading]:
        """Read some sentences, none of them empty."""

    def tag_words(self, sentences: Any, *, progress: Progress | None = None) -> list[Tagged]:
        """Tag sentences that are split into words already, or the steps of sequences of vectors."""
        if self.vectors is not None:
            return self._tag_steps(self.vectors.list_sequences(sentences), self.vectors, progress)
        full = [sentence for sentence in check_sentences(sentences) if sentence]
        readings = iter(self._read_all(full, progress))
        empty = Tagged(())
        return [self._build_answer(one, next(readings)) if one else empty for one in sentences]

    def _tag_steps(
        self, sequences: Sequence[Any], vectors: VectorCodec, progress: Progress | None
    ) -> list[Tagged]:
        """Tag the steps of sequences, long ones in pieces that see some steps before and after them."""
        scaled = [vectors.scale(one) for one in sequences]
        pieces = [(number, first) for number, one in enumerate(scaled) for first in range(0, len(one), STEPS)]
        seen = [scaled[number][max(0, first - AROUND) : first + STEPS + AROUND] for number, first in pieces]
        answers: list[tuple[TaggedWord, ...]] = [()] * len(scaled)
        for (number, first), reading in zip(pieces, self._read_all(seen, progress), strict=True):
            inside = slice(min(AROUND, first), min(AROUND, first) + STEPS)
            reading = TagReading(reading.tags[inside], reading.marginals[inside], None)
            names = [str(first + step) for step in range(1, len(reading.tags) + 1)]
            answers[number] += self._build_answer(names, reading).words
        return [build_answer(words) for words in answers]

    def _read_all(self, sentences: Sequence[Any], progress: Progress | None) -> list[TagReading]:
        """Read sentences, none of them empty, in batches."""
        readings: dict[int, TagReading] = {}
        for chosen in batches(sentences, self.sentences_per_batch, progress=progress):
            check_interrupt()
            readings |= zip(chosen, self._compute([sentences[each] for each in chosen]), strict=True)
        return [readings[number] for number in range(len(sentences))]

    def _build_answer(self, words: Sequence[str], reading: TagReading) -> Tagged:
        """The answer for a sentence, with the tags and the label in words."""
        likely = np.argsort(-reading.marginals, axis=1, kind="stable")[:, :LIKELY]
        tagged = [
            TaggedWord(
                word, self.tags[tag], float(row[tag]), tuple((self.tags[n], float(row[n])) for n in near)
            )
            for word, tag, row, near in zip(
                words, reading.tags.tolist(), reading.marginals, likely.tolist(), strict=True
            )
        ]
        if reading.labels is None:
            return build_answer(tagged)
        raised = np.exp(reading.labels - reading.labels.max())
        return build_answer(tagged, self.labels[int(raised.argmax())], float(raised.max() / raised.sum()))

    def tag(
        self,
        texts: str | Sequence[Any] | Array,
        *,
        progress: Progress | None = None,
        **options: Unpack[TagOptions],
    ) -> list[Tagged]:
        """Tag the words of each text, or the steps of each sequence of vectors; an empty text has none.

        `tokenize` names the tokenizer that splits a text into words: `space`, as in tagged data and by
        default, or `unicode` for raw text.
        """
        tokenize = complete_options(TagOptions, options)["tokenize"]
        if self.vectors is not None:
            return self.tag_words(texts, progress=progress)
        if tokenize not in WORD_TOKENIZERS:
            raise InputError("tokenize", str(unknown("tokenizer", tokenize, WORD_TOKENIZERS)))
        split = tokenizer(tokenize).tokenize
        return self.tag_words([split(text) for text in check_texts(texts)], progress=progress)

    @cached_property
    def _warnings(self) -> InputWarnings:
        """A tagger reads unknown words by their letters, so only unknown letters count."""
        return InputWarnings(tokenizer("char"), self.characters)


class ReaderSettings(TypedDict):
    """How an exported tagger reads with one of its language models."""

    begin_id: Size | None
    backward: bool
    between: list[Size]


class ChainSettings(TypedDict):
    """The scores of successive tags."""

    transitions: list[list[float]]
    first: list[float]
    last: list[float]


class TaggerSettings(TypedDict):
    """The settings of an exported tagger."""

    vectors: Size
    lowercase: bool
    max_characters: Size
    spelled: bool
    labelled: bool
    indicators: NotRequired[bool]
    chain: ChainSettings | None
    languages: list[ReaderSettings]


class TaggerRunner(SentenceTagger, TextRunner):
    """An exported tagger: one graph, and the vocabularies of words, letters, tags and labels."""

    settings_type = TaggerSettings
    sentences_per_batch = 32

    def __init__(self, folder: ExportFolder) -> None:
        ExportedModel.__init__(self, folder)  # it has several vocabularies, and no codec
        self.session, self.vectors = folder.session("model"), open_vectors(folder.path)
        words, self.characters, tags = (
            Vocabulary.load(folder.path / f"{name}.txt") for name in ("words", "characters", "tags")
        )
        settings = {name: self.settings[name] for name in ("lowercase", "max_characters", "vectors")}
        self.reader = WordReader(words, self.characters, **settings)
        self.tags, self.chain = list(tags), Chain(self.settings["chain"])
        self.labels = list(Vocabulary.load(folder.path / "labels.txt")) if self.settings["labelled"] else []
        spotted = self.settings.get("indicators", False)
        self.indicators = Vocabulary.load(folder.path / "indicators.txt") if spotted else None
        self.languages = [
            LanguageReader(Codec.load(folder.path / f"language-{number}"), **options)
            for number, options in enumerate(self.settings["languages"])
        ]

    def _compute(self, sentences: Sequence[Any]) -> list[TagReading]:
        names = ["tags", "labels"] if self.labels else ["tags"]
        scores, *labels = self.session.run(names, self._build_inputs(sentences))
        readings = []
        for row, words in enumerate(sentences):
            own = scores[: len(words), row]
            best, marginals = self.chain.best(own), self.chain.marginals(own)
            readings.append(TagReading(best, marginals, labels[0][row] if labels else None))
        return readings

    def _build_inputs(self, sentences: Sequence[Sequence[str]]) -> dict[str, Array]:
        """The inputs of the graph; the letters of each distinct word are given once."""
        if self.vectors is not None:
            return dict(zip(("words", "lengths"), pad(sentences), strict=True))
        forms, numbered = number_forms(sentences)
        ids = [self.reader.word_id(form) for form in forms]
        words, lengths = pad([[ids[form] for form in row] for row in numbered])
        given = {"words": words, "lengths": lengths}
        if self.settings["spelled"]:
            spelled, _ = pad(numbered)
            characters, sizes = pad([self.reader.letter_ids(form) for form in forms])
            given |= {"characters": characters, "character_lengths": sizes, "spelled": spelled}
        if self.indicators is not None:
            given["indicators"] = indicator_ids(sentences, self.indicators)
        for number, language in enumerate(self.languages):
            ids_read, places = zip(*(language.read(words) for words in sentences), strict=True)
            given[f"read_{number}"], given[f"places_{number}"] = pad(ids_read)[0], pad(places)[0]
        return given


def build_answer(words: Sequence[TaggedWord], label: str = "", probability: float | None = None) -> Tagged:
    """Build an answer; it has chunks if the tags mark some.

    >>> answer = build_answer([TaggedWord("play", "O", 0.9), TaggedWord("jazz", "B-genre", 0.8)], "Play")
    >>> answer.text, answer.chunks
    ('play/O jazz/B-genre\\tPlay', (('genre', 'jazz'),))
    """
    tags = [word.tag for word in words]
    marked = chunks(tags) if is_chunked(tags) else []
    texts = [(chunk.type, " ".join(word.word for word in words[chunk.start : chunk.end])) for chunk in marked]
    return Tagged(tuple(words), label, probability, tuple(texts))
