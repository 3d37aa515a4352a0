"""Numbers that compare predictions with what is right; no model is needed here, and no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from throughtime.lazy import import_lazily

if TYPE_CHECKING:
    from throughtime.metrics.bleu import corpus_bleu as corpus_bleu
    from throughtime.metrics.measures import Likelihood as Likelihood
    from throughtime.metrics.sentence_bleu import notes_bleu as notes_bleu

__all__, __getattr__, __dir__ = import_lazily(
    __name__, {"bleu": "corpus_bleu", "measures": "Likelihood", "sentence_bleu": "notes_bleu"}
)
