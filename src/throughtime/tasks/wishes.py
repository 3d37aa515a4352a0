"""What a person may ask of a translation, in words; search knows it as constraints on ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from throughtime.errors import InputError

if TYPE_CHECKING:
    from throughtime.search import Constraint
    from throughtime.text.codec import Codec


@dataclass(frozen=True)
class Wishes:
    """The same for every sentence. Words are matched as the tokenizer cuts them inside a sentence.

    A forbidden word takes all words with it that begin with its tokens.
    """

    prefix: str = ""
    forbidden: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    no_repeated_ngram: int | None = None
    min_length: int = 0

    def __post_init__(self) -> None:
        """Refuse words of nothing but spaces, which would still change what is said."""
        for option, words in (("--forbid", self.forbidden), ("--require", self.required)):
            if not all(word.strip() for word in words):
                raise InputError(option, "is empty; give a word, or leave it out")

    def check(self, codec: Codec) -> None:
        """Refuse words that a model of this vocabulary can never say."""
        for option, words in (("--prefix", (self.prefix,)), ("--require", self.required)):
            for word in words:
                if codec.vocabulary.unk_id in codec.encode(word):
                    raise InputError(option, f"is {word!r}, which is not in the model's vocabulary")

    def constraints(self, sentences: int, codec: Codec, end_id: int, max_length: int) -> list[Constraint]:
        """The constraints for a batch of so many sentences."""
        from throughtime import search

        found: list[Constraint] = []
        if self.min_length:
            found.append(search.minimum_length(self.min_length, end_id))
        if self.no_repeated_ngram is not None:
            found.append(search.no_repeated_ngram(self.no_repeated_ngram))
        if self.forbidden:
            first = [codec.encode(word) for word in self.forbidden]
            inner = [inside(word, codec) for word in self.forbidden]
            found.append(search.forbidden([ids for ids in (*first, *inner) if ids]))
        if self.required:
            words = [inside(word, codec) for word in self.required]
            found.append(search.required([words] * sentences, end_id, max_length))
        if self.prefix:
            found.append(search.forced_prefix([codec.encode(self.prefix)] * sentences))
        return found


def inside(word: str, codec: Codec) -> list[int]:
    """A word's ids where it follows another one: in byte pairs, its space is part of it.

    >>> from throughtime.text.codec import Codec
    >>> codec = Codec.build(["a cat", "the cat"], "bpe", max_size=300)
    >>> codec.decode(inside("cat", codec))
    ' cat'
    """
    before = codec.encode("a")
    both = codec.encode(f"a {word}")
    return both[len(before) :] if both[: len(before)] == before else codec.encode(word)
