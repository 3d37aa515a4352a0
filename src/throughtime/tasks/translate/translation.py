"""Sentences in, translations with scores and alignments out, for one model or several together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from throughtime.config import Config
from throughtime.errors import InputError
from throughtime.layers.devices import matmul_precision
from throughtime.results import Translation
from throughtime.runtime.search import batches_by_length
from throughtime.search.constraints import no_token
from throughtime.search.generate import Constraint, Finished, Moment, StepModel, Strategy, generate
from throughtime.search.strategies import build_strategy, strategy_options
from throughtime.tasks.translate.alignment import aligned
from throughtime.tasks.translate.codecs import Codecs
from throughtime.tasks.translate.config import MOST_BEAMS, Beams, LengthPenalty
from throughtime.tasks.translate.decoding_constraints import DecodingConstraints
from throughtime.tasks.translate.long_texts import translate_in_parts
from throughtime.text.subword import SUBWORDS
from throughtime.text.texts import check_texts

if TYPE_CHECKING:
    import numpy as np

    from throughtime.tasks.base import Progress

SENTENCES_AT_ONCE, ROWS_AT_ONCE = 128, 2_048
GROUP_WIDTH, DIVERSE = 3, {"diversity_penalty": 2.0, "per_group": 2}
"""Of a search for translations unlike each other; a sure model's groups may well agree on the best."""

Search = Callable[[int], Strategy]
"""A strategy for results of at most so many tokens."""


class Found(NamedTuple):
    """What a search found for one part of a text."""

    results: list[Finished]
    attention: list[Tensor]  # of each result, [tokens, source]; empty where the model has none


class Generation(Config):
    """How a model translates unless told otherwise: what generation_config.json holds."""

    num_beams: Beams = 5
    length_penalty: LengthPenalty = 0.75
    max_source_tokens: int = Field(100, ge=2)  # what is longer is translated sentence by sentence


class SentenceTranslator:
    """A step model of sentences, with the codecs of both languages."""

    def __init__(self, model: StepModel, codecs: Codecs, generation: Generation) -> None:
        self._step_model, self.codecs, self.generation = model, codecs, generation

    @property
    def step_model(self) -> StepModel:
        """What search runs."""
        return self._step_model

    @property
    def lowercase(self) -> bool:
        """Whether its translations are in small letters whatever the references are."""
        return self.codecs.target.tokenizer.normalise("A") == "a"

    @property
    def attends(self) -> bool:
        """Whether it tells what it looks at. A step shows it: a decoder of one's own need not say."""
        model = self.step_model
        with torch.inference_mode(), matmul_precision("float32"):
            return "attention" in model.step(*model.start([self.codecs.prompt("")])).extras

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        num_return_sequences: int = 1,
        max_length: int | None = None,
        search: str | Search = "beam",
        prefix: str = "",
        forbid: Sequence[str] = (),
        require: Sequence[str] = (),
        no_repeat_ngram: int | None = None,
        min_length: int = 0,
        copy_unknown: bool = False,
        align: bool = False,
        progress: Progress | None = None,
        watch: Callable[[Moment], None] | None = None,
        **search_options: Any,
    ) -> list[Translation]:
        """Translate one text or several; one answer per text, its other translations are `alternatives`.

        Nothing but spaces gives an empty translation; a text of more than `max_source_tokens` is translated
        sentence by sentence. `search` names a strategy of `throughtime.search.strategies.STRATEGIES`, whose
        further options are keywords: `search="diverse", groups=3`. `copy_unknown` allows `<unk>` and puts the
        source word there that attention points to. `watch` is called at every step, and may raise to stop.
        """
        constraints = DecodingConstraints(
            prefix, tuple(forbid), tuple(require), no_repeat_ngram, min_length
        ).check(self.codecs.target)
        if copy_unknown:
            self.check_copying()
        if isinstance(search, str):
            given = {"num_beams": num_beams, "length_penalty": length_penalty, **search_options}
            search = self.strategy(search, num_return_sequences, **given)

        def translate_parts(parts: list[str]) -> list[list[Translation]]:
            found = self.searched(
                [self.codecs.prompt(part) for part in parts],
                search,
                max_length=max_length,
                constraints=constraints,
                unknown=copy_unknown,
                attend=align or copy_unknown,
                progress=progress,
                watch=watch,
            )
            both = zip(parts, found, strict=True)
            told = [self._in_words(part, one, copy_unknown) for part, one in both]
            if constraints is not None:  # a required word that comes first has brought the space before it
                told = [[replace(one, text=one.text.strip()) for one in own] for own in told]
            if not align:
                told = [[replace(one, alignment=None) for one in own] for own in told]
            return told

        limit = self.generation.max_source_tokens
        return translate_in_parts(texts, limit, lambda part: len(self.codecs.prompt(part)), translate_parts)

    def input_warnings(self, texts: Sequence[str], **how: Any) -> dict[str, str]:
        """Warnings about texts that the model knows little about, by kind (see `InputWarnings.of`)."""
        return self.codecs.source.warnings.of(check_texts(texts), **how)

    def check_copying(self) -> None:
        """Refuse to copy unknown words where none are, as parts of words spell them all, or none is found."""
        name = self.codecs.target.tokenizer.name
        if name in SUBWORDS:
            raise InputError(
                "copy_unknown",
                f"is for models of whole words, this one writes parts of them ({name}); leave it out",
            )
        if not self.attends:
            raise InputError(
                "copy_unknown",
                "copies the word that attention points to, and this model has none; leave it out, or train "
                "one with structure=attention",
            )

    def strategy(self, name: str, num_return_sequences: int = 1, **options: Any) -> Search:
        """The strategy of this name with its options; what is not given is the model's own.

        Without `num_beams` a beam is as wide as `num_return_sequences` needs, and diverse search has a group
        for each of them.
        """
        known, count = strategy_options(name), num_return_sequences
        options = {option: value for option, value in options.items() if value is not None}
        if "length_penalty" in known:
            options.setdefault("length_penalty", self.generation.length_penalty)
        if "groups" in known:
            if count > 1 and not {"groups", "num_beams"} & options.keys():
                options = {**DIVERSE, "groups": count, "num_beams": count * GROUP_WIDTH, **options}
        elif "num_beams" in known:
            options.setdefault("num_beams", max(self.generation.num_beams, count))
        given = {"num_return_sequences": count, "num_beams": options.get("num_beams", 1)}
        for option, value in given.items():
            if option in known and (value := known[option].read(value)) > MOST_BEAMS:
                by_groups = "groups" in known and options.get("groups") == count
                most = MOST_BEAMS // GROUP_WIDTH if by_groups else MOST_BEAMS
                option, value = ("num_return_sequences", count) if by_groups else (option, value)
                raise InputError(option, f"is {value}, expected at most {most:,}")
        if "num_return_sequences" in known:
            options["num_return_sequences"] = count
        elif count > given["num_beams"]:
            raise InputError("num_return_sequences", f"is {count}, expected at most {given['num_beams']}")

        def search(most: int) -> Strategy:
            return build_strategy(name, self.codecs.end_id, max_length=most, **options)

        search(1)  # so that what it refuses is refused before any sentence is read
        return search

    @torch.inference_mode()
    def searched(
        self,
        prompts: Sequence[Sequence[int]],
        search: Search,
        *,
        max_length: int | None = None,
        constraints: DecodingConstraints | None = None,
        unknown: bool = False,
        attend: bool = False,
        progress: Progress | None = None,
        watch: Callable[[Moment], None] | None = None,
    ) -> list[Found]:
        """What the search finds for source ids: batches of like lengths, results in the order given."""
        found: dict[int, Found] = {}
        end_id = self.codecs.end_id
        # What is wished comes on top of what a source's own length makes likely.
        wished = (
            constraints.tokens(self.codecs.target) if constraints is not None and max_length is None else 0
        )
        with matmul_precision("float32"):
            for usual, batch in batches_by_length(prompts, max_length, sentences_at_once(search(1))):
                most = usual + wished
                rules = [] if unknown else self._known_words()
                if constraints is not None:
                    rules += constraints.rules(len(batch), self.codecs.target, end_id, most)
                seen = _Seen(watch) if attend else None
                results = generate(
                    self.step_model,
                    [prompts[number] for number in batch],
                    search(most),
                    max_new_tokens=most,
                    constraints=rules,
                    watch=seen or watch,
                )
                for number, own in zip(batch, results, strict=True):
                    found[number] = Found(own, [seen.along(one) for one in own] if seen else [])
                if progress is not None:
                    progress(len(found), len(prompts))
        return [found[number] for number in range(len(prompts))]

    def _known_words(self) -> list[Constraint]:
        """Never `<unk>`: where tokens are parts of words none is ever learned, and barring it costs time."""
        codec = self.codecs.target
        unk = codec.vocabulary.unk_id
        return [] if unk is None or codec.tokenizer.name in SUBWORDS else [no_token(unk)]

    def _in_words(self, part: str, found: Found, copy_unknown: bool) -> list[Translation]:
        """The results of a part of a text in words."""
        translations = []
        for number, one in enumerate(found.results):
            tokens = self.codecs.target.vocabulary.tokens(one.tokens)
            alignment, text = None, self.codecs.target.decode(one.tokens)
            if found.attention and found.attention[number].numel():
                attention = found.attention[number].cpu().numpy()
                words = self.codecs.source.tokenizer.tokenize(part)
                if copy_unknown:
                    tokens = self._copied(one.tokens, tokens, attention, words)
                    text = self.codecs.target.tokenizer.detokenize(tokens)
                alignment = aligned(attention, words, tokens, self.codecs.tokenizers)
            translations.append(Translation(text, one.score, one.log_prob, one.ended, alignment))
        return translations

    def _copied(
        self, ids: Sequence[int], tokens: list[str], attention: np.ndarray[Any, Any], words: list[str]
    ) -> list[str]:
        """The tokens with each `<unk>` replaced by the source word that it looked at most."""
        unk = self.codecs.target.vocabulary.unk_id

        def looked_at(place: int, token: str) -> str:
            row = attention[place : place + 1]
            return aligned(row, words, [token], self.codecs.tokenizers).best(0)

        return [
            looked_at(place, token) if number == unk else token
            for place, (number, token) in enumerate(zip(ids, tokens, strict=True))
        ]


class _Seen:
    """Watches a search, and keeps the attention of every step."""

    def __init__(self, watch: Callable[[Moment], None] | None) -> None:
        self.steps: list[Tensor] = []  # [rows, source] each
        self.watch = watch

    def __call__(self, moment: Moment) -> None:
        if self.watch is not None:
            self.watch(moment)
        if (attention := moment.extras.get("attention")) is not None:
            self.steps.append(attention.float())

    def along(self, result: Finished) -> Tensor:
        """The attention of a result's own rows, [tokens, source]."""
        if not self.steps:
            return torch.empty(0, 0)
        return torch.stack([self.steps[time][row] for time, row in enumerate(result.path)])


def sentences_at_once(strategy: Strategy) -> int:
    """How many sentences are searched together: fewer under a wide beam, as memory goes by its rows.

    >>> from throughtime.search.beam import Beam
    >>> sentences_at_once(Beam(0, 5)), sentences_at_once(Beam(0, 500))
    (128, 4)
    """
    rows: int = getattr(strategy, "num_beams", 1)
    return max(1, min(SENTENCES_AT_ONCE, ROWS_AT_ONCE // rows))
