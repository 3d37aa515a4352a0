"""What models of texts have in common: a codec, warnings about texts, and writing by any search strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from throughtime.errors import InputError
from throughtime.runtime.search import choose_search
from throughtime.tasks.base import Predictor, Progress
from throughtime.text.codec import Codec
from throughtime.text.texts import check_texts

if TYPE_CHECKING:
    from throughtime.search.generate import Constraint, Finished, Moment, Strategy

PROMPTS_AT_ONCE = 64
Item = TypeVar("Item")


class TextPredictor(Predictor):
    """A predictor that reads or writes texts with the codec of its assets."""

    @property
    def codec(self) -> Codec:
        """The vocabulary of texts and their tokenizer."""
        codec: Codec = self.assets.codec
        return codec

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the text that the vocabulary was built from."""
        return self.codec.notes

    def input_warnings(self, texts: str | Sequence[str], **how: Any) -> dict[str, str]:
        """Warnings about texts that the model knows little about, by kind (see `InputWarnings.of`)."""
        return self.codec.warnings.of([self._read_part(text) for text in check_texts(texts)], **how)

    def _read_part(self, text: str) -> str:
        """The part of a text that is read, not asked for."""
        return text

    @property
    def _layers(self) -> str:
        """The recurrent layers in words."""
        config = self.config
        several = f"{config.num_layers} x " if config.num_layers > 1 else ""
        return f"{several}{config.cell} of {config.hidden_size}"

    @property
    def _vocabulary(self) -> str:
        """The vocabulary in words, for a title."""
        return f"vocabulary {len(self.codec.vocabulary):,} ({self.config.tokens})"

    @property
    def _tokens(self) -> dict[str, str]:
        """The vocabulary in words, as a row of the card."""
        size, digest = f"{len(self.codec.vocabulary):,}", self.codec.hash[:12]
        return {"tokens": f"{self.config.tokens}, vocabulary of {size} (`{digest}`)"}

    @property
    def _reading(self) -> str:
        """How texts are read and computed, for the signature of an evaluation."""
        digest, device = self.codec.hash[:12], self.device.type
        return f"tokens:{self.config.tokens}|vocabulary:{digest}|device:{device}|precision:float32"


class TextWriter(TextPredictor):
    """A model that writes texts token by token."""

    @property
    def end_id(self) -> int | None:
        """The token that ends a text; None where texts have no end."""
        return self.codec.vocabulary.eos_id

    def strategy(self, *, max_new_tokens: int | None = None, **options: Any) -> Strategy:
        """The search strategy that some keywords ask for.

        `search` names any strategy of `throughtime.search.strategies.STRATEGIES`, and other keywords are its
        options. Without it, texts are drawn by `temperature`, `top_k`, `top_p` and `seed`, unless `greedy` or
        `num_beams` ask for likely ones. What is not given comes from generation_config.json.
        """
        from throughtime.search.strategies import build_strategy, strategy_options

        name, chosen = choose_search(self.generation, **options)
        single = "num_return_sequences" not in strategy_options(name)
        if single and (count := chosen.pop("num_return_sequences", 1)) != 1:
            raise InputError("num_return_sequences", f"is {count}, but {name} search finds 1")
        return build_strategy(name, self.end_id, max_length=self._length(max_new_tokens), **chosen)

    def write(
        self,
        prompts: Sequence[Sequence[Any]],
        strategy: Strategy,
        max_new_tokens: int | None = None,
        *,
        constraints: Callable[[int], list[Constraint]] | None = None,
        progress: Progress | None = None,
        watch: Callable[[Moment], None] | None = None,
    ) -> list[list[Finished]]:
        """What the strategy finds for each prompt, best first, many prompts at a time.

        `constraints` is called with the number of prompts of a batch, `watch` at every step of the search.
        """
        from throughtime.layers.devices import matmul_precision
        from throughtime.search.generate import generate

        found: list[list[Finished]] = []
        for first in range(0, len(prompts), PROMPTS_AT_ONCE):
            batch = prompts[first : first + PROMPTS_AT_ONCE]
            if hasattr(strategy, "first_sentence"):  # strategies that draw number the prompts
                strategy.first_sentence = first
            with matmul_precision("float32"):
                found += generate(
                    self.model,
                    batch,
                    strategy,
                    max_new_tokens=self._length(max_new_tokens),
                    constraints=constraints(len(batch)) if constraints is not None else (),
                    watch=watch,
                )
            if progress is not None:
                progress(len(found), len(prompts))
        return found

    def _length(self, max_new_tokens: int | None) -> int:
        return int(self.generation.get("max_new_tokens", 100)) if max_new_tokens is None else max_new_tokens


def build_codec(texts: Iterable[str], config: Any, where: str, **options: Any) -> Codec:
    """The codec that the settings of a model ask for, built from its training texts."""
    return Codec.build(
        texts, config.tokens, min_freq=config.min_freq, max_size=config.max_size, where=where, **options
    )


def spread(items: Sequence[Item], number: int) -> Sequence[Item]:
    """A number of items from all over a list, which may be sorted.

    >>> spread(range(90), 3)
    range(15, 105, 30)
    """
    return items[len(items) // (2 * number) :: max(1, len(items) // number)][:number]
