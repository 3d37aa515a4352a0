"""Numbers that judge a model; they know no model."""

from throughtime.metrics.bleu import (
    CorpusScore,
    corpus_bleu,
    corpus_chrf,
    corpus_ter,
    ngram_precision,
    notes_bleu,
)
from throughtime.metrics.likelihood import Likelihood

__all__ = [
    "CorpusScore",
    "Likelihood",
    "corpus_bleu",
    "corpus_chrf",
    "corpus_ter",
    "ngram_precision",
    "notes_bleu",
]
