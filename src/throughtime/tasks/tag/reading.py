"""How a tagger reads words, without torch: their ids, their letters, and what its language models read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from throughtime.tasks.language.framing import NOTHING
from throughtime.text.codec import Codec
from throughtime.text.vocabulary import Vocabulary

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


def number_forms(sentences: Sequence[Sequence[str]]) -> tuple[list[str], list[list[int]]]:
    """The distinct words of some sentences, and the sentences as numbers of these.

    >>> number_forms([["the", "cat"], ["the"]])
    (['the', 'cat'], [[0, 1], [0]])
    """
    forms: dict[str, int] = {}
    numbered = [[forms.setdefault(word, len(forms)) for word in words] for words in sentences]
    return list(forms), numbered
