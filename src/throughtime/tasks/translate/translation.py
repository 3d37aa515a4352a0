"""Translation by search: texts in, translations with scores and alignments out, under constraints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from throughtime.errors import InputError, check_whole
from throughtime.layers.attention import keep_scores
from throughtime.layers.devices import matmul_precision
from throughtime.models.search_models import Candidates, output_device, restrict_model, to_vocabulary
from throughtime.results import Progress, Translation
from throughtime.runtime.search import batches_by_length
from throughtime.runtime.shortlist import Shortlist, choose_count
from throughtime.search.constraints import no_token
from throughtime.search.ensemble import Ensemble
from throughtime.search.generate import Finished, Moment, StepModel, Strategy, generate
from throughtime.search.strategies import build_strategy, set_max_length, strategy_options
from throughtime.search.trace import AttentionTrace
from throughtime.tasks.texts import DecodingConstraints
from throughtime.tasks.translate import TranslateOptions
from throughtime.tasks.translate.config import Generation
from throughtime.tasks.translate.runner import TextTranslator, TranslateParts
from throughtime.text.input_warnings import InputWarnings, ReadsTexts
from throughtime.text.parallel import Codecs
from throughtime.text.subword import SUBWORDS

MAX_SENTENCES, MAX_ROWS = 128, 2_048
"""Limits of one batch: sentences, and hypotheses of all its sentences together."""
NO_CONSTRAINTS = DecodingConstraints()
RULES = ("prefix", "forbid", "require", "no_repeat_ngram", "min_length")
"""The options of `translate` that are constraints, in the order of `DecodingConstraints`."""


class SearchedPart(NamedTuple):
    """The results of a search for one part of a text, best first."""

    results: list[Finished]
    attention: list[Tensor]  # [tokens, source] for each result; empty if the model has none or none was kept
    scores: list[Tensor]  # of the attention before its softmax; empty as above, or of several models


class TranslatedPart(NamedTuple):
    """A part of a text, what the search found for it, and the translations made of that."""

    source: str
    prompt: list[int]
    searched: SearchedPart
    translations: list[Translation]


class SentenceTranslator(TextTranslator, ReadsTexts):
    """Translates with a step model and the codecs of both languages."""

    def __init__(
        self, model: StepModel, codecs: Codecs, generation: Generation, shortlist: Shortlist | None = None
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
        """Whether the model has attention."""
        return bool(getattr(self.step_model, "attends", False))

    @property
    def max_source_tokens(self) -> int:
        """The number of tokens above which a text is translated sentence by sentence."""
        return self.generation.max_source_tokens

    def _choose_translation(
        self,
        options: TranslateOptions,
        search_options: dict[str, Any],
        progress: Progress | None,
        watch: Callable[[TranslatedPart], None] | None,
    ) -> TranslateParts:
        values: Mapping[str, object] = options
        constraints, search = self.constrain(*(values[name] for name in RULES)), options["search"]
        align, copy_unknown = options["align"], options["copy_unknown"]
        if copy_unknown:
            self._check_copying()
        if isinstance(search, str):
            search_options |= {name: values[name] for name in ("num_beams", "length_penalty")}
            search = self.build_search(search, options["num_return_sequences"], **search_options)
        shortlist = self.choose_shortlist(options["shortlist"])
        # At the beginning of a sentence a required word may bring the space before it.
        strip = constraints != NO_CONSTRAINTS
        describe = partial(self._describe_results, align=align, copy_unknown=copy_unknown, strip=strip)

        def translate_parts(parts: list[str]) -> list[list[Translation]]:
            prompts = [self.codecs.prompt(part) for part in parts]
            searched = self.run_search(
                prompts,
                search,
                max_length=options["max_length"],
                constraints=constraints,
                allow_unknown=copy_unknown,
                keep_attention=align or copy_unknown or watch is not None,
                keep_attention_scores=watch is not None,
                progress=progress,
                shortlist=shortlist,
            )
            translations = list(map(describe, parts, searched))
            if watch is not None:
                for part in zip(parts, prompts, searched, translations, strict=True):
                    watch(TranslatedPart(*part))
            return translations

        return translate_parts

    def _describe_results(
        self, part: str, searched: SearchedPart, *, align: bool, copy_unknown: bool, strip: bool
    ) -> list[Translation]:
        """Turn the results for a part of a text into translations, by their attention if that was kept."""
        target, translations = self.codecs.target, []
        for rank, result in enumerate(searched.results):
            text, alignment = target.decode(result.tokens), None
            if searched.attention:
                weights = searched.attention[rank].cpu().numpy()
                words = self.codecs.source.tokenizer.tokenize(part)
                tokens = target.vocabulary.tokens(result.tokens)
                if copy_unknown:
                    for position, number in enumerate(result.tokens):
                        if number == target.vocabulary.unk_id:
                            row, token = weights[position : position + 1], tokens[position]
                            tokens[position] = self.codecs.align_words(row, words, [token]).best(0)
                    text = target.tokenizer.detokenize(tokens)
                alignment = self.codecs.align_words(weights, words, tokens) if align else None
            text = text.strip() if strip else text
            translations.append(Translation(text, result.score, result.log_prob, result.ended, alignment))
        return translations

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

    def build_search(self, name: str, num_return_sequences: int = 1, **options: Any) -> Strategy:
        """Build the named strategy with its options; the model's defaults replace those that are None.

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
        # Each batch of sentences sets its own maximum length.
        return build_strategy(name, self.codecs.end_id, max_length=1, **options)

    def constrain(self, *rules: Any) -> DecodingConstraints:
        """Check the rules of a search, in the order of `DecodingConstraints`, with the vocabulary."""
        constraints = DecodingConstraints(*rules)
        constraints.check(self.codecs.target)
        return constraints

    @torch.inference_mode()
    def run_search(
        self,
        prompts: Sequence[Sequence[int]],
        search: Strategy,
        *,
        max_length: int | None = None,
        constraints: DecodingConstraints = NO_CONSTRAINTS,
        allow_unknown: bool = False,
        keep_attention: bool = False,
        keep_attention_scores: bool = False,
        progress: Progress | None = None,
        watch: Callable[[Moment], None] | None = None,
        model: StepModel | None = None,
        shortlist: int = 0,
    ) -> list[SearchedPart]:
        """Search for translations of source ids in batches of similar length; returns them in input order.

        `model` is run in place of `step_model`. With a `shortlist`, results have only this number of
        candidates for each source token, the most frequent tokens, and those that constraints ask for.
        """
        searched: dict[int, SearchedPart] = {}
        codec, end_id = self.codecs.target, self.codecs.end_id
        # Prefix and required words come on top of the length that follows from the source.
        extra = constraints.count_tokens(codec) if max_length is None else 0
        # Memory grows with the number of hypotheses.
        sentences = max(1, min(MAX_SENTENCES, MAX_ROWS // getattr(search, "num_beams", 1)))
        excluded = [] if allow_unknown else [no_token(token) for token in self.codecs.excluded_ids]
        with matmul_precision("float32"), keep_scores(keep_attention_scores) as latest:
            for usual, batch in batches_by_length(prompts, max_length, sentences):
                most = usual + extra
                chosen = [prompts[number] for number in batch]
                restricted, renumber = model or self.step_model, False
                lists: Candidates = ()
                if shortlist and self.shortlist is not None:
                    needed = constraints.list_tokens(codec)
                    lists = [self.shortlist.candidates(prompt, shortlist, needed) for prompt in chosen]
                    renumber = watch is None and self._may_renumber(self.shortlist, constraints)
                    restricted = restrict_model(restricted, lists, renumber=renumber)
                trace = AttentionTrace(latest, watch) if keep_attention else None
                set_max_length(search, most)
                results = generate(
                    restricted,
                    chosen,
                    search,
                    max_new_tokens=most,
                    constraints=[*excluded, *constraints.build(len(batch), codec, end_id, most)],
                    watch=trace or watch,
                )
                if renumber:
                    results = to_vocabulary(results, lists)
                for number, best in zip(batch, results, strict=True):
                    searched[number] = SearchedPart(best, *(trace.follow(best) if trace else ([], [])))
                if progress is not None:
                    progress(len(searched), len(prompts))
        return [searched[number] for number in range(len(prompts))]

    def _may_renumber(self, shortlist: Shortlist, constraints: DecodingConstraints) -> bool:
        """Return whether search may number the candidates of a sentence from 0, which is faster.

        Constraints compare tokens with words of the vocabulary, and the special tokens must not change.
        """
        marks = [self.codecs.begin_id, self.codecs.end_id, *self.codecs.excluded_ids]
        return constraints == NO_CONSTRAINTS and all(map(shortlist.keeps, marks))


def combine_translators(translators: Sequence[SentenceTranslator]) -> SentenceTranslator:
    """Combine models with the same vocabularies into an ensemble that averages their probabilities."""
    first, *others = translators
    if not others:
        return first
    if any(other.codecs.hash != first.codecs.hash for other in others):
        raise InputError(
            "others", "must have the same vocabularies as the first model: train them with init_from"
        )
    ensemble = Ensemble([translator.step_model for translator in translators])
    return SentenceTranslator(ensemble, first.codecs, first.generation, first.shortlist)
