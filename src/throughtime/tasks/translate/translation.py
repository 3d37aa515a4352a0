"""Translation by search: texts in, translations with scores and alignments out, under constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from throughtime.errors import InputError, check_whole
from throughtime.layers.attention import keep_scores
from throughtime.layers.devices import matmul_precision
from throughtime.models.shortlist import Candidates, output_device, restrict_model, to_vocabulary
from throughtime.results import Translation
from throughtime.runtime.search import batches_by_length
from throughtime.runtime.shortlist import Shortlist, choose_count
from throughtime.search.constraints import no_token
from throughtime.search.generate import generate
from throughtime.search.strategies import build_strategy, strategy_options
from throughtime.tasks.texts import DecodingConstraints
from throughtime.tasks.translate.config import Generation
from throughtime.tasks.translate.texts import Codecs
from throughtime.text.input_warnings import InputWarnings, ReadsTexts
from throughtime.text.subword import SUBWORDS

if TYPE_CHECKING:
    from throughtime.results import Progress
    from throughtime.search.generate import Finished, Moment, StepModel, Strategy

MAX_SENTENCES, MAX_ROWS = 128, 2_048
"""Limits of one batch: sentences, and hypotheses of all its sentences together."""

Search = Callable[[int], "Strategy"]
"""A function that takes the maximum number of tokens of a result, and returns a strategy.

With a shortlist, a strategy sees other ids than those of the vocabulary, except for special tokens."""


class Found(NamedTuple):
    """The results of a search for one part of a text, best first."""

    results: list[Finished]
    attention: list[Tensor]  # [tokens, source] for each result; empty if the model has none or none was kept
    scores: Sequence[Tensor] = ()  # of the attention before its softmax; empty as above, or of several models


class Part(NamedTuple):
    """A part of a text, what the search found for it, and the translations made of that."""

    source: str
    prompt: list[int]
    found: Found
    translations: list[Translation]


class SentenceTranslator(ReadsTexts):
    """Translates with a step model and the codecs of both languages."""

    def __init__(
        self,
        model: StepModel,
        codecs: Codecs,
        generation: Generation,
        shortlist: Shortlist | None = None,
    ) -> None:
        self._step_model, self.codecs, self.generation = model, codecs, generation
        self.shortlist = shortlist
        """The likely translations of each source token, if they were counted."""

    @property
    def step_model(self) -> StepModel:
        """The model that the search runs."""
        return self._step_model

    @property
    def lowercase(self) -> bool:
        """Whether all translations are in lower case."""
        return self.codecs.target.tokenizer.normalise("A") == "a"

    @property
    def attends(self) -> bool:
        """Whether the model has attention. A step is run to find out, since custom decoders do not say."""
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
        shortlist: int | None = None,
        progress: Progress | None = None,
        watch: Callable[[Part], None] | None = None,
        **search_options: Any,
    ) -> list[Translation]:
        """Translate one text or several; returns one answer per text, with other translations inside it.

        A text of more than `max_source_tokens` tokens is translated sentence by sentence. `search` names a
        strategy of `throughtime.search.strategies.STRATEGIES`, whose options are further keywords, as in
        `search="diverse", groups=3`. Translations begin with `prefix`, contain the words of `require` and
        none of `forbid`, repeat no n-gram of length `no_repeat_ngram` and have at least `min_length` tokens.
        `copy_unknown` replaces each `<unk>` by the source word with the most attention; `align` adds the
        attention between words. `shortlist` is the number of candidates per source token that translations
        may use; 0 allows the whole vocabulary. See `choose_shortlist` for the default. `watch` is called with
        each part of the texts, which has its attention.
        """
        target = self.codecs.target
        constraints = self.constrain(prefix, forbid, require, no_repeat_ngram, min_length)
        # At the beginning of a sentence a required word may bring the space before it.
        strip = constraints != DecodingConstraints()
        if copy_unknown:
            self._check_copying()
        candidates = self.choose_shortlist(shortlist)
        if isinstance(search, str):
            given = {"num_beams": num_beams, "length_penalty": length_penalty, **search_options}
            search = self.build_search(search, num_return_sequences, **given)

        def to_translation(part: str, one: Finished, attention: Tensor | None) -> Translation:
            tokens, text = target.vocabulary.tokens(one.tokens), target.decode(one.tokens)
            alignment = None
            if attention is not None:
                weights, words = attention.cpu().numpy(), self.codecs.source.tokenizer.tokenize(part)
                if copy_unknown:
                    for place, number in enumerate(one.tokens):
                        if number == target.vocabulary.unk_id:
                            row, token = weights[place : place + 1], tokens[place]
                            tokens[place] = self.codecs.align_words(row, words, [token]).best(0)
                    text = target.tokenizer.detokenize(tokens)
                alignment = self.codecs.align_words(weights, words, tokens) if align else None
            return Translation(text.strip() if strip else text, one.score, one.log_prob, one.ended, alignment)

        def translate_parts(parts: list[str]) -> list[list[Translation]]:
            prompts = [self.codecs.prompt(part) for part in parts]
            found = self.run_search(
                prompts,
                search,
                max_length=max_length,
                constraints=constraints,
                allow_unknown=copy_unknown,
                keep_attention=align or copy_unknown or watch is not None,
                keep_attention_scores=watch is not None,
                shortlist=candidates,
                progress=progress,
            )
            translations = [
                [
                    to_translation(part, one, own.attention[rank] if own.attention else None)
                    for rank, one in enumerate(own.results)
                ]
                for part, own in zip(parts, found, strict=True)
            ]
            if watch is not None:
                for part in zip(parts, prompts, found, translations, strict=True):
                    watch(Part(*part))
            return translations

        return self.codecs.translate_in_parts(texts, self.generation.max_source_tokens, translate_parts)

    @property
    def _warnings(self) -> InputWarnings:
        return self.codecs.source.warnings

    def _check_copying(self) -> None:
        """Refuse `copy_unknown` for models that never write `<unk>` or have no attention."""
        name = self.codecs.target.tokenizer.name
        if name in SUBWORDS:
            raise InputError(
                "copy_unknown",
                f"needs a model of whole words, but this one writes {name} tokens; leave it out",
            )
        if not self.attends:
            raise InputError(
                "copy_unknown",
                "needs attention, which this model lacks; leave it out, or train with structure=attention",
            )

    def choose_shortlist(self, asked: int | None = None) -> int:
        """Return the number of candidates per source token; 0 if there is no shortlist.

        By default, a model on a CPU uses its shortlist if its target vocabulary is large.
        """
        device = output_device(self.step_model)
        available = self.shortlist if device is not None else None
        size = len(self.codecs.target.vocabulary)
        return choose_count(asked, available, size, worthwhile=device == torch.device("cpu"))

    def build_search(self, name: str, num_return_sequences: int = 1, **options: Any) -> Search:
        """Return the named strategy with its options; the model's defaults replace those that are None.

        Without `num_beams`, beam search has at least `num_return_sequences` hypotheses.
        """
        known = strategy_options(name)
        options = {option: value for option, value in options.items() if value is not None}
        if "length_penalty" in known:
            options.setdefault("length_penalty", self.generation.length_penalty)
        if "num_beams" in known and "groups" not in known:
            count = check_whole("num_return_sequences", num_return_sequences)
            options.setdefault("num_beams", max(self.generation.num_beams, count))
        options["num_return_sequences"] = num_return_sequences

        def search(most: int) -> Strategy:
            return build_strategy(name, self.codecs.end_id, max_length=most, **options)

        search(1)  # refuse bad options before any sentence is read
        return search

    def constrain(self, *rules: Any) -> DecodingConstraints:
        """The rules of a search, in the order of `DecodingConstraints`, checked with the vocabulary."""
        constraints = DecodingConstraints(*rules)
        constraints.check(self.codecs.target)
        return constraints

    @torch.inference_mode()
    def run_search(
        self,
        prompts: Sequence[Sequence[int]],
        search: Search,
        *,
        max_length: int | None = None,
        constraints: DecodingConstraints = DecodingConstraints(),  # noqa: B008 - frozen
        allow_unknown: bool = False,
        keep_attention: bool = False,
        keep_attention_scores: bool = False,
        progress: Progress | None = None,
        watch: Callable[[Moment], None] | None = None,
        model: StepModel | None = None,
        shortlist: int = 0,
    ) -> list[Found]:
        """Search for translations of source ids in batches of similar length; returns them in input order.

        `model` is run in place of `step_model`. With a `shortlist`, results have only this number of
        candidates for each source token, the most frequent tokens, and those that constraints ask for.
        """
        found: dict[int, Found] = {}
        codec, end_id = self.codecs.target, self.codecs.end_id
        # Prefix and required words come on top of the length that follows from the source.
        extra = constraints.count_tokens(codec) if max_length is None else 0
        # Memory grows with the number of hypotheses.
        sentences = max(1, min(MAX_SENTENCES, MAX_ROWS // getattr(search(1), "num_beams", 1)))
        excluded = [] if allow_unknown else [no_token(one) for one in self.codecs.excluded_ids]
        steps: list[Tensor] = []  # the attention of each step, [rows, source]
        raw: list[Tensor] = []  # its scores before the softmax

        def watch_step(moment: Moment) -> None:
            if watch is not None:
                watch(moment)
            if keep_attention and "attention" in moment.extras:
                steps.append(moment.extras["attention"].float())
                if len(latest) == 1:  # the attention of several models is a mean, and has no scores
                    raw.append(latest[0].float())
                latest.clear()

        with matmul_precision("float32"), keep_scores(keep_attention_scores) as latest:
            for usual, batch in batches_by_length(prompts, max_length, sentences):
                most = usual + extra
                steps.clear()
                raw.clear()
                chosen = [prompts[number] for number in batch]
                searched, renumber = model or self.step_model, False
                lists: Candidates = ()
                if shortlist:
                    lists = self._list_candidates(chosen, shortlist, constraints)
                    renumber = watch is None and self._may_renumber(constraints)
                    searched = restrict_model(searched, lists, renumber=renumber)
                results = generate(
                    searched,
                    chosen,
                    search(most),
                    max_new_tokens=most,
                    constraints=[*excluded, *constraints.build(len(batch), codec, end_id, most)],
                    watch=watch_step if watch is not None or keep_attention else None,
                )
                if renumber:
                    results = to_vocabulary(results, lists)
                for number, own in zip(batch, results, strict=True):
                    paths = [one.path for one in own] if steps else []  # the row of a result at each step
                    kept = (steps, raw if len(raw) == len(steps) else [])
                    found[number] = Found(own, *(_follow(paths, one) if one else [] for one in kept))
                if progress is not None:
                    progress(len(found), len(prompts))
        return [found[number] for number in range(len(prompts))]

    def _list_candidates(
        self, prompts: Sequence[Sequence[int]], count: int, constraints: DecodingConstraints
    ) -> Candidates:
        assert self.shortlist is not None
        own = constraints.list_tokens(self.codecs.target)
        return [self.shortlist.candidates(prompt, count, own) for prompt in prompts]

    def _may_renumber(self, constraints: DecodingConstraints) -> bool:
        """Whether search may number the candidates of a sentence from 0, which is faster.

        Constraints compare tokens with words of the vocabulary, and the special tokens must not change.
        """
        assert self.shortlist is not None
        marks = [self.codecs.begin_id, self.codecs.end_id, *self.codecs.excluded_ids]
        return constraints == DecodingConstraints() and all(map(self.shortlist.keeps, marks))


def _follow(paths: Sequence[Sequence[int]], steps: Sequence[Tensor]) -> list[Tensor]:
    """For each path, the values of its row at each step: [tokens, source]."""
    return [torch.stack([steps[t][row] for t, row in enumerate(path)]) for path in paths]
