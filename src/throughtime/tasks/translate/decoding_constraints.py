"""Words that a translation must begin with, contain or avoid, turned into constraints on token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from throughtime.errors import InputError

if TYPE_CHECKING:
    from throughtime.search.generate import Constraint
    from throughtime.text.codec import Codec


@dataclass(frozen=True)
class DecodingConstraints:
    """The same for every sentence. Words are matched as the tokenizer cuts them inside a sentence.

    A forbidden word takes all words with it that begin with its tokens. Other rules hold after the prefix.
    """

    prefix: str = ""
    forbidden: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    no_repeated_ngram: int | None = None
    min_length: int = 0

    def __post_init__(self) -> None:
        """Refuse words of nothing but spaces, which would still change what is said."""
        for option, word in self._asked:
            if not word.strip():
                raise InputError(option, "is empty; give a word, or leave it out")

    def check(self, codec: Codec) -> DecodingConstraints | None:
        """Refuse what a model can never write, or another constraint rules out; None if nothing is asked."""
        barred = [(word, ids) for word in self.forbidden for ids in forms(word, codec)]
        for option, text in self._asked:
            ids = inside(text, codec) if option == "require" else codec.encode(text)
            if not ids:
                raise InputError(option, f"is {text!r}, of which the model's tokenizer leaves nothing")
            if option == "forbid":
                continue
            if codec.vocabulary.unk_id in ids:
                raise InputError(option, f"is {text!r}, which is not in the model's vocabulary")
            for word, forbidden in barred:
                if occurs(forbidden, ids):
                    raise InputError(
                        option, f"is {text!r}, which forbid={word!r} rules out; leave one of them out"
                    )
        return None if self == DecodingConstraints() else self

    def tokens(self, codec: Codec) -> int:
        """How many tokens these constraints need, at least, and the end where words are required."""
        left = self._left(codec)
        return len(codec.encode(self.prefix)) + sum(map(len, left)) + bool(left)

    def rules(self, sentences: int, codec: Codec, end_id: int | None, max_length: int) -> list[Constraint]:
        """The constraints for a batch of `sentences`; refused if `max_length` leaves no room for them.

        Without an `end_id` no word can be required, and there is no minimum length.
        """
        from throughtime.search import constraints

        prefix, left = codec.encode(self.prefix), self._left(codec)
        if (needed := self.tokens(codec)) > max_length:
            options = [name for name, there in (("prefix", prefix), ("require", left)) if there]
            raise InputError(
                " and ".join(options),
                f"{'need' if len(options) > 1 else 'needs'} {needed} tokens, but at most {max_length} may "
                "come; raise max_length or max_new_tokens",
            )
        found: list[Constraint] = []
        if self.min_length and end_id is not None:
            found.append(constraints.minimum_length(self.min_length, end_id))
        if self.no_repeated_ngram is not None:
            found.append(constraints.no_repeated_ngram(self.no_repeated_ngram))
        if self.forbidden:
            found.append(
                constraints.forbidden([ids for word in self.forbidden for ids in forms(word, codec)])
            )
        if left and end_id is not None:
            found.append(constraints.required([left] * sentences, end_id, max_length))
        if prefix:
            # What a rule would rather have must not end a sentence in the midst of its prefix.
            found = [constraints.after(len(prefix), rule) for rule in found]
            found.append(constraints.forced_prefix([prefix] * sentences))
        return found

    @property
    def _asked(self) -> list[tuple[str, str]]:
        """Each text with its option."""
        prefix = [("prefix", self.prefix)] if self.prefix else []
        forbidden = [("forbid", word) for word in self.forbidden]
        return [*prefix, *forbidden, *(("require", word) for word in self.required)]

    def _left(self, codec: Codec) -> list[list[int]]:
        """The required words that the prefix does not say."""
        said = codec.encode(self.prefix)
        return [
            inside(word, codec)
            for word in self.required
            if not occurs(inside(word, codec), said)
            and not occurs(first := codec.encode(word), said[: len(first)])
        ]


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


def forms(word: str, codec: Codec) -> list[list[int]]:
    """A word's ids at the beginning of a sentence and inside one; those of no token are left out."""
    return [ids for ids in (codec.encode(word), inside(word, codec)) if ids]


def occurs(ids: Sequence[int], among: Sequence[int]) -> bool:
    """Whether these ids come one after another among others.

    >>> occurs([2, 3], [1, 2, 3]), occurs([1, 3], [1, 2, 3])
    (True, False)
    """
    return any(list(among[at : at + len(ids)]) == list(ids) for at in range(len(among)))
