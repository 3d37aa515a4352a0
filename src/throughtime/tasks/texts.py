"""Models that read or write texts: the codec, warnings about inputs, search strategies and constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from throughtime.errors import InputError, check_whole
from throughtime.runtime.keywords import split_options
from throughtime.runtime.search import Finished, choose_search
from throughtime.runtime.vectors import VectorCodec, open_codec
from throughtime.tasks.base import Predictor, Progress
from throughtime.text.codec import Codec
from throughtime.text.input_warnings import ReadsTexts
from throughtime.text.texts import check_text, check_texts

if TYPE_CHECKING:
    from throughtime.folder import ModelFolder
    from throughtime.search.generate import Constraint, StepModel, Strategy
    from throughtime.tasks.labels import Labels

PROMPTS_AT_ONCE = 64
Item = TypeVar("Item")
WritePrompts = Callable[[Sequence[Any], Progress | None], list[list[Finished]]]
"""Writes the texts of each prompt, the best first."""


class TextAssets(NamedTuple):
    """The codec of a model, and the labels of its texts or vectors if it has any."""

    codec: Any
    labels: Labels | None = None

    @property
    def known_labels(self) -> Labels:
        """The labels of a model that has labels."""
        assert self.labels is not None
        return self.labels

    def save(self, folder: ModelFolder) -> None:
        """Write the assets to a model folder."""
        self.codec.save(folder.path)
        if self.labels is not None:
            self.labels.save(folder)

    @classmethod
    def load(cls, folder: ModelFolder, *, labelled: bool = False) -> TextAssets:
        """Read the assets that `save` wrote."""
        from throughtime.tasks.labels import Labels

        return cls(open_codec(folder.path), Labels.load(folder) if labelled else None)


class TextPredictor(ReadsTexts, Predictor):
    """A predictor whose assets have a codec, with which it reads or writes texts."""

    @property
    def codec(self) -> Codec:
        """The tokenizer and the vocabulary."""
        codec: Codec = self.assets.codec
        return codec

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the texts that the vocabulary was built from."""
        return self.codec.notes

    @property
    def _vocabulary(self) -> str:
        """The vocabulary in words, for the title."""
        if isinstance(codec := self.assets.codec, VectorCodec):
            return codec.title
        return f"vocabulary {len(codec.vocabulary):,} ({self.config.tokens})"

    @property
    def _tokens(self) -> dict[str, str]:
        """The vocabulary in words, as a row of the card."""
        if isinstance(codec := self.assets.codec, VectorCodec):
            return {"reads": f"{codec.title}: {', '.join(codec.features[:20])} (`{codec.hash[:12]}`)"}
        size, digest = f"{len(self.codec.vocabulary):,}", self.codec.hash[:12]
        return {"tokens": f"{self.config.tokens}, vocabulary of {size} (`{digest}`)"}

    @property
    def _reading(self) -> str:
        """Tokens, device and precision, as parts of the signature of an evaluation."""
        digest, device = self.codec.hash[:12], self.device.type
        reads = "vectors" if isinstance(self.assets.codec, VectorCodec) else f"tokens:{self.config.tokens}"
        return f"{reads}|vocabulary:{digest}|device:{device}|precision:float32"


class TextWriter(TextPredictor):
    """A model that writes texts token by token."""

    @property
    def end_id(self) -> int | None:
        """The id of the token that ends a text; None if texts have no end mark."""
        return self.codec.vocabulary.eos_id

    def strategy(self, *, max_new_tokens: int | None = None, **options: Any) -> Strategy:
        """Return the search strategy for some keywords.

        `search` names any strategy of `throughtime.search.strategies.STRATEGIES`, and other keywords are its
        options. Without it, texts are sampled by `temperature`, `top_k`, `top_p` and `seed`, unless
        `greedy` or `num_beams` is given. Defaults come from generation_config.json.
        """
        from throughtime.search.strategies import build_strategy

        name, chosen = choose_search(self.generation, **options)
        return build_strategy(name, self.end_id, max_length=self._length(max_new_tokens), **chosen)

    def choose_writing(
        self,
        options: Mapping[str, Any],
        kind: Any,
        strategy: Strategy | None = None,
        constraints: Sequence[Constraint] = (),
    ) -> WritePrompts:
        """Check the options, of which `kind` declares the rules, and return what writes texts by them."""
        rules, writing = split_options(options, kind)
        length = self._length(writing.get("max_new_tokens"))
        if strategy is None:
            strategy = self.strategy(**writing)
        elif names := writing.keys() - {"max_new_tokens"}:
            raise InputError(min(names), "cannot be given together with strategy; leave one of them out")
        checked = DecodingConstraints(**rules)
        checked.check(self.codec)

        def build(rows: int) -> list[Constraint]:
            return [*constraints, *checked.build(rows, self.codec, self.end_id, length)]

        return lambda prompts, progress: self.write(
            prompts, strategy, length, constraints=build, progress=progress
        )

    def write(
        self,
        prompts: Sequence[Sequence[Any]],
        strategy: Strategy,
        max_new_tokens: int | None = None,
        *,
        constraints: Callable[[int], list[Constraint]] | None = None,
        progress: Progress | None = None,
        model: StepModel | None = None,
    ) -> list[list[Finished]]:
        """Search in batches of prompts, and return the results of each prompt, best first.

        `constraints` is called with the number of prompts in each batch.
        `model` is run in place of the predictor's own.
        """
        from throughtime.layers.devices import matmul_precision
        from throughtime.search.generate import generate

        results: list[list[Finished]] = []
        for first in range(0, len(prompts), PROMPTS_AT_ONCE):
            batch = prompts[first : first + PROMPTS_AT_ONCE]
            if hasattr(strategy, "first_sentence"):  # strategies that draw number the prompts
                strategy.first_sentence = first
            with matmul_precision("float32"):
                results += generate(
                    model or self.model,
                    batch,
                    strategy,
                    max_new_tokens=self._length(max_new_tokens),
                    constraints=constraints(len(batch)) if constraints is not None else (),
                )
            if progress is not None:
                progress(len(results), len(prompts))
        return results

    def _length(self, max_new_tokens: int | None) -> int:
        return int(self.generation.get("max_new_tokens", 100)) if max_new_tokens is None else max_new_tokens


@dataclass(frozen=True)
class DecodingConstraints:
    """What every text that a model writes must begin with, contain or avoid.

    Words are compared as the tokenizer splits them inside a sentence, so a forbidden word excludes all words
    that begin with its tokens. The other constraints apply after the prefix.
    """

    prefix: str = ""
    forbid: Sequence[str] = ()
    require: Sequence[str] = ()
    no_repeat_ngram: int | None = None
    min_length: int = 0

    def __post_init__(self) -> None:
        """Take a text as one word; refuse blank words, which would still change the results."""
        for option in ("forbid", "require"):
            object.__setattr__(self, option, tuple(check_texts(getattr(self, option), option)))
        check_text(self.prefix, "prefix")
        check_whole("min_length", self.min_length, 0)
        if self.no_repeat_ngram is not None:
            check_whole("no_repeat_ngram", self.no_repeat_ngram)
        for option, word in self._words:
            if not word.strip():
                raise InputError(option, "is empty; give a word, or leave it out")

    def check(self, codec: Codec) -> None:
        """Refuse words that the model can never write or that another constraint forbids."""
        excluded = [(word, ids) for word in self.forbid for ids in _encode_both(word, codec)]
        for option, text in self._words:
            ids = encode_inside(text, codec) if option == "require" else codec.encode(text)
            if not ids:
                raise InputError(option, f"is {text!r}, which has no token in the model's vocabulary")
            if option == "forbid":
                continue
            if codec.vocabulary.unk_id in ids:
                raise InputError(option, f"is {text!r}, which is not in the model's vocabulary")
            for word, forbidden in excluded:
                if _occurs(forbidden, ids):
                    raise InputError(
                        option, f"is {text!r}, which forbid={word!r} rules out; leave one of them out"
                    )

    def count_tokens(self, codec: Codec) -> int:
        """Return the number of tokens that prefix and required words need, including the end mark."""
        required = self._encode_required(codec)
        return len(codec.encode(self.prefix)) + sum(map(len, required)) + bool(required)

    def list_tokens(self, codec: Codec) -> list[int]:
        """Return the tokens that a text needs to begin with the prefix and contain the required words."""
        return [*codec.encode(self.prefix), *(one for ids in self._encode_required(codec) for one in ids)]

    def build(self, sentences: int, codec: Codec, end_id: int | None, max_length: int) -> list[Constraint]:
        """Build the constraints of a batch; refuse those that need more than `max_length` tokens.

        Without an `end_id`, `required` and `min_length` have no effect.
        """
        from throughtime.search import constraints as rules

        prefix, required = codec.encode(self.prefix), self._encode_required(codec)
        needed = self.count_tokens(codec)
        if needed and needed > max_length:
            options = [name for name, ids in (("prefix", prefix), ("require", required)) if ids]
            raise InputError(
                " and ".join(options),
                f"{'need' if len(options) > 1 else 'needs'} {needed} tokens, but a result has at most "
                f"{max_length}; raise max_length or max_new_tokens",
            )
        constraints: list[Constraint] = []
        if self.min_length and end_id is not None:
            constraints.append(rules.minimum_length(self.min_length, end_id))
        if self.no_repeat_ngram is not None:
            constraints.append(rules.no_repeated_ngram(self.no_repeat_ngram))
        if self.forbid:
            words = [ids for word in self.forbid for ids in _encode_both(word, codec)]
            constraints.append(rules.forbidden_words(words))
        if required and end_id is not None:
            constraints.append(rules.required_words([required] * sentences, end_id, max_length))
        if prefix:
            # Constraints must not end a sentence before its prefix is complete.
            constraints = [rules.after(len(prefix), constraint) for constraint in constraints]
            constraints.append(rules.forced_prefix([prefix] * sentences))
        return constraints

    @property
    def _words(self) -> list[tuple[str, str]]:
        """Each text with the name of its option."""
        prefix = [("prefix", self.prefix)] if self.prefix else []
        forbidden = [("forbid", word) for word in self.forbid]
        return [*prefix, *forbidden, *(("require", word) for word in self.require)]

    def _encode_required(self, codec: Codec) -> list[list[int]]:
        """Encode the required words that the prefix does not contain."""
        prefix = codec.encode(self.prefix)
        return [
            ids
            for word in self.require
            if not _occurs(ids := encode_inside(word, codec), prefix)
            and not _occurs(first := codec.encode(word), prefix[: len(first)])
        ]


def encode_inside(word: str, codec: Codec) -> list[int]:
    """Encode a word as it stands after another word; byte pairs include the space before it.

    >>> from throughtime.text.codec import Codec
    >>> codec = Codec.build(["a cat", "the cat"], "bpe", max_size=300)
    >>> codec.decode(encode_inside("cat", codec))
    ' cat'
    """
    before, both = codec.encode("a"), codec.encode(f"a {word}")
    return both[len(before) :] if both[: len(before)] == before else codec.encode(word)


def _encode_both(word: str, codec: Codec) -> list[list[int]]:
    """Encode a word at the beginning of a sentence and inside one; without empty results."""
    return [ids for ids in (codec.encode(word), encode_inside(word, codec)) if ids]


def _occurs(ids: Sequence[int], among: Sequence[int]) -> bool:
    """Whether `among` contains `ids` in a row."""
    return any(list(among[at : at + len(ids)]) == list(ids) for at in range(len(among)))


def build_codec(texts: Iterable[str], config: Any, where: str, **options: Any) -> Codec:
    """Build the codec of a configuration from the training texts."""
    return Codec.build(
        texts, config.tokens, min_freq=config.min_freq, max_size=config.max_size, where=where, **options
    )


def spread(items: Sequence[Item], number: int) -> Sequence[Item]:
    """Return a number of items, evenly spaced over a list, which may be sorted.

    >>> spread(range(90), 3)
    range(15, 105, 30)
    """
    return items[len(items) // (2 * number) :: max(1, len(items) // number)][:number]
