"""Numbers that judge a model; they know no model."""

from throughtime.metrics.bleu import CorpusBleu, CorpusScore, corpus_bleu, corpus_chrf, corpus_ter
from throughtime.metrics.likelihood import Likelihood
from throughtime.metrics.sentence_bleu import ngram_precision, notes_bleu, notes_bleu_steps

__all__ = [
    "CorpusBleu",
    "CorpusScore",
    "Likelihood",
    "corpus_bleu",
    "corpus_chrf",
    "corpus_ter",
    "ngram_precision",
    "notes_bleu",
    "notes_bleu_steps",
]
