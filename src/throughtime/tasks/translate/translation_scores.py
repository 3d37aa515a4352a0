"""Translations beside references: BLEU and chrF, and how often a beam misses the model's best sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from throughtime.errors import InputError
from throughtime.metrics.bleu import (
    BleuSums,
    CorpusBleu,
    CorpusScore,
    choose_tokenizer,
    corpus_bleu,
    corpus_chrf,
)
from throughtime.runtime.search import batches_by_length
from throughtime.search.beam import Beam
from throughtime.search.exact import BUDGET, ExactResult, exact
from throughtime.search.exhaustive import SearchErrors
from throughtime.search.exhaustive import search_errors as compared
from throughtime.search.generate import Finished
from throughtime.tasks.translate.translation import SentenceTranslator

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset


class SentencePairs(NamedTuple):
    """The sentences of a split and their translations by people."""

    sources: list[str]
    references: list[str]

    @classmethod
    def of(cls, dataset: Dataset, split: str) -> SentencePairs:
        """Those of a data set."""
        pairs = list(dataset.pairs(split))
        if not pairs:
            raise InputError(f"{dataset.name}, split {split}", "holds no pair to translate")
        return cls([pair.source for pair in pairs], [pair.target for pair in pairs])


@dataclass(frozen=True)
class Judged:
    """The scores of some translations."""

    bleu: CorpusBleu
    chrf: CorpusScore

    def values(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "bleu": self.bleu.value,
            "bleu_precisions": list(self.bleu.precisions),
            "brevity_penalty": self.bleu.brevity_penalty,
            "chrf": self.chrf.value,
            "bleu_signature": self.bleu.signature,
            "chrf_signature": self.chrf.signature,
        }


@dataclass(frozen=True)
class Judge:
    """How translations into a language are judged; see `corpus_bleu` for the options."""

    language: str | None = None
    tokenize: str | None = None
    lowercase: bool = False

    def judged(self, translations: Sequence[str], pairs: SentencePairs) -> Judged:
        """The scores of translations of these pairs."""
        bleu = corpus_bleu(
            translations,
            pairs.references,
            tokenize=self.tokenize,
            lowercase=self.lowercase,
            language=self.language,
        )
        chrf = corpus_chrf(translations, pairs.references, lowercase=self.lowercase)
        return Judged(bleu, chrf)

    def settled(self, references: Sequence[str]) -> Judge:
        """The same judge with its tokenizer chosen from all references, for scoring them in parts."""
        return replace(self, tokenize=self.tokenize or choose_tokenizer(self.language, references))

    def sums(self, translations: Sequence[str], references: Sequence[str]) -> BleuSums:
        """The sums that BLEU is computed from, for translations that are scored in parts."""
        return BleuSums.of(
            translations,
            references,
            tokenize=self.tokenize,
            lowercase=self.lowercase,
            language=self.language,
        )


def search_errors(
    translator: SentenceTranslator, sources: Sequence[str], num_beams: int, budget: int = BUDGET
) -> SearchErrors:
    """How often a beam at alpha 0 lies below the most likely sentence, which exact search finds.

    A sentence that takes more than `budget` expansions stays undecided.
    """
    end_id = translator.codecs.end_id
    prompts = [translator.codecs.prompt(text) for text in sources]
    # Both searches may say <unk>: else the beam would be blamed for what it was forbidden.
    found = translator.searched(
        prompts, lambda most: Beam(end_id, num_beams, length_penalty=0.0, max_length=most), unknown=True
    )
    beams = [one.results[0] for one in found]
    return compared(beams, most_likely(translator, prompts, beams, budget))


def most_likely(
    translator: SentenceTranslator,
    prompts: Sequence[Sequence[int]],
    first: Sequence[Finished],
    budget: int = BUDGET,
) -> list[ExactResult]:
    """The model's most likely sentence for each source, given one to beat for each."""
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
