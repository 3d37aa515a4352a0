"""The quality of a translator: BLEU, chrF, likelihood, and how often beam search misses the best sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.records import Pair
from throughtime.errors import InputError
from throughtime.layers.devices import matmul_precision
from throughtime.metrics.bleu import (
    BleuSums,
    CorpusBleu,
    CorpusScore,
    choose_tokenizer,
    corpus_bleu,
    corpus_chrf,
)
from throughtime.metrics.measures import compute_measures
from throughtime.results import Evaluation, Scored
from throughtime.runtime.search import batches_by_length
from throughtime.search.beam import Beam
from throughtime.search.exact import BUDGET, ExactResult, exact
from throughtime.search.exhaustive import SearchErrors
from throughtime.search.exhaustive import search_errors as compare_results
from throughtime.search.generate import Finished
from throughtime.tasks.description import refuse_options
from throughtime.tasks.objective import likelihood, surprisals
from throughtime.tasks.translate.training import batch_to_score
from throughtime.tasks.translate.translation import SentenceTranslator, combine_translators
from throughtime.text.texts import format_count

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.metrics.measures import Likelihood
    from throughtime.results import Progress
    from throughtime.tasks.translate.model import Translator

SCORING_BATCH = 64
OPTIONS = frozenset(
    "num_beams length_penalty shortlist tokenize lowercase search_errors measures others".split()
)


class SentencePairs(NamedTuple):
    """Source sentences and their reference translations."""

    sources: list[str]
    references: list[str]

    @classmethod
    def of(cls, dataset: Dataset, split: str) -> SentencePairs:
        """Read the pairs of a split."""
        pairs = list(dataset.pairs(split))
        if not pairs:
            raise InputError(f"{dataset.name}, split {split}", "holds no pair to translate")
        return cls([pair.source for pair in pairs], [pair.target for pair in pairs])


class TranslationScores(NamedTuple):
    """The corpus scores of some translations."""

    bleu: CorpusBleu
    chrf: CorpusScore

    def to_dict(self) -> dict[str, Any]:
        """Return the values by name, ready for JSON."""
        return {
            "bleu": self.bleu.value,
            "bleu_precisions": list(self.bleu.precisions),
            "brevity_penalty": self.bleu.brevity_penalty,
            "chrf": self.chrf.value,
            "bleu_signature": self.bleu.signature,
            "chrf_signature": self.chrf.signature,
        }


@dataclass(frozen=True)
class TranslationScorer:
    """How to compare translations into a language with references; see `corpus_bleu` for the options."""

    language: str | None = None
    tokenize: str | None = None
    lowercase: bool = False

    def score(self, translations: Sequence[str], references: Sequence[str]) -> TranslationScores:
        """Score translations against one reference each."""
        return TranslationScores(
            corpus_bleu(translations, references, **vars(self)),
            corpus_chrf(translations, references, lowercase=self.lowercase),
        )

    def choose_tokenizer_for(self, references: Sequence[str]) -> TranslationScorer:
        """Choose the tokenizer from all references, so that parts of them can be scored separately."""
        return replace(self, tokenize=self.tokenize or choose_tokenizer(self.language, references))

    def sums(self, translations: Sequence[str], references: Sequence[str]) -> BleuSums:
        """Return the counts that BLEU is computed from; those of several parts can be added."""
        return BleuSums.of(translations, references, **vars(self))


def evaluate_translator(
    translator: Translator, dataset: Dataset, split: str, *, progress: Progress | None, **options: Any
) -> Evaluation:
    """Measure BLEU, chrF and perplexity on a split; with `others`, of all models as an ensemble."""
    refuse_options(options, OPTIONS, "is for language models, and this model translates")
    pairs, others = SentencePairs.of(dataset, split), options.get("others") or ()
    if others and options.get("search_errors"):
        raise InputError("search_errors", "needs a single model; leave out others")
    beams, alpha = options.get("num_beams"), options.get("length_penalty")
    together = combine_translators([translator, *others])
    shortlist = together.choose_shortlist(options.get("shortlist"))
    answers = together.translate(
        pairs.sources, num_beams=beams, length_penalty=alpha, shortlist=shortlist, progress=progress
    )
    translations = [answer.text for answer in answers]
    scorer = translator.scorer(options.get("tokenize"), bool(options.get("lowercase")))
    scores = scorer.score(translations, pairs.references)
    measures = compute_measures(
        options.get("measures") or (), translator.task, translations, pairs.references
    )
    values = {**scores.to_dict(), **measures, "sentences": len(answers)}
    signature = build_signature(translator, beams, alpha, shortlist)
    text = f"BLEU {scores.bleu.value:.2f}, chrF {scores.chrf.value:.2f}"
    text += "".join(f", {name} {value:.4g}" for name, value in measures.items())
    signatures = "\n".join(f"{score.name}|{score.signature}" for score in scores)
    sentences = format_count(len(answers), "sentence")
    if others:
        signature.append(f"models:{1 + len(others)}")
        text = f"{text}, {1 + len(others)} models together over {sentences}\n{signatures}"
        return Evaluation(values, "|".join(signature), text)
    likely = translator.likelihood(dataset, split)
    values |= {"loss": likely.cross_entropy, "perplexity": likely.perplexity, "tokens": likely.tokens}
    text = (
        f"{text}, perplexity {likely.perplexity:.3f} per target token\n"
        f"over {sentences}, {format_count(likely.tokens, 'target token')}\n{signatures}"
    )
    if options.get("search_errors"):
        # In float32: rounding to bf16 would make the likelihoods of the same sentence differ.
        exactly = SentenceTranslator(translator.model, translator.codecs, translator.generation)
        errors = search_errors(exactly, pairs.sources, beams or translator.generation.num_beams)
        values["search_errors"] = errors._asdict()
        text += (
            "\nAt alpha 0 the beam misses the model's most likely sentence in "
            f"{errors.errors:,} of {format_count(errors.resolved, 'sentence')}; "
            f"{errors.unresolved:,} are undecided"
        )
    return Evaluation(values, "|".join(signature), text)


def build_signature(
    translator: Translator,
    num_beams: int | None = None,
    length_penalty: float | None = None,
    shortlist: int = 0,
) -> list[str]:
    """Return how a translator reads, writes and searches, as parts of the signature of an evaluation."""
    config, generation = translator.config, translator.generation
    alpha = generation.length_penalty if length_penalty is None else length_penalty
    return [
        *([f"source:{config.source}", f"target:{config.target}"] if config.source else []),
        f"tokens:{config.tokens}",
        f"vocabulary:{translator.codecs.hash}",
        f"device:{translator.device.type}",
        "precision:float32",
        f"beams:{num_beams or generation.num_beams}",
        f"alpha:{alpha:g}",
        f"searched:{translator.search_precision}",
        *([f"shortlist:{shortlist}"] if shortlist else []),
    ]


def score_pairs(translator: Translator, pairs: tuple[str, str] | Sequence[tuple[str, str]]) -> list[Scored]:
    """Return the log-probability of each target token given the source, one answer per pair."""
    if isinstance(pairs, str):
        raise InputError("texts", "is one text; a translator scores pairs (source, target)")
    if isinstance(pairs, Pair) or (isinstance(pairs, tuple) and [*map(type, pairs)] == [str, str]):
        pairs = [Pair(*pairs)]
    for number, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or [*map(type, pair)] != [str, str]:
            raise InputError(
                f"texts[{number}]", f"is {pair!r:.60}, expected a pair (source, target) of texts"
            )
    if not pairs:
        return []
    codecs, model = translator.codecs, translator.model.eval()
    source, target = (
        RaggedIds.of(codec.encode(pair[side]) for pair in pairs) for side, codec in enumerate(codecs)
    )
    scored: dict[int, Scored] = {}
    with torch.no_grad(), matmul_precision("float32"):
        for batch in batch_to_score(codecs, (source, target), SCORING_BATCH):
            nats = surprisals(model, batch.to(translator.device)).cpu()
            for column, number in enumerate(batch.indices.tolist()):
                length = int(batch.target_lengths[column])
                tokens = codecs.target.vocabulary.tokens(batch.labels[:length, column].tolist())
                log_probs = tuple((-nats[:length, column]).tolist())
                scored[number] = Scored(pairs[number][1], tuple(tokens), log_probs)
    return [scored[number] for number in range(len(pairs))]


def compute_likelihood(translator: Translator, dataset: Dataset, split: str) -> Likelihood:
    """Return the likelihood of the references of a split."""
    ids = translator.ids(dataset, split)
    if not len(ids[0]):
        raise InputError(f"{dataset.name}, split {split}", "holds no pair to score")
    batches = batch_to_score(translator.codecs, ids, SCORING_BATCH)
    with matmul_precision("float32"):
        return likelihood(translator.model.eval(), batches)


def search_errors(
    translator: SentenceTranslator, sources: Sequence[str], num_beams: int, budget: int = BUDGET
) -> SearchErrors:
    """Count the sentences in which a beam at alpha 0 misses the most likely one, found by exact search.

    A sentence that takes more than `budget` expansions stays undecided.
    """
    end_id = translator.codecs.end_id
    prompts = [translator.codecs.prompt(text) for text in sources]
    # Both searches may write <unk>: otherwise it would count as an error that the beam may not.
    searched = translator.run_search(
        prompts, Beam(end_id, num_beams, length_penalty=0.0, max_length=1), allow_unknown=True
    )
    beams = [part.results[0] for part in searched]
    return compare_results(beams, find_most_likely(translator, prompts, beams, budget))


def find_most_likely(
    translator: SentenceTranslator,
    prompts: Sequence[Sequence[int]],
    first: Sequence[Finished],
    budget: int = BUDGET,
) -> list[ExactResult]:
    """Search for the most likely sentence for each source, beginning with a known one in `first`."""
    optima: dict[int, ExactResult] = {}
    for most, batch in batches_by_length(prompts):
        results = exact(
            translator.step_model,
            [prompts[number] for number in batch],
            translator.codecs.end_id,
            max_new_tokens=most,
            budget=budget,
            first=[first[number] for number in batch],
        )
        optima.update(zip(batch, results, strict=True))
    return [optima[number] for number in range(len(prompts))]
