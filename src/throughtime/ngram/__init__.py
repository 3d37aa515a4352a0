"""Language models from counts of n-grams, and what can be built on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from throughtime.lazy import import_lazily

if TYPE_CHECKING:
    from throughtime.ngram.counts import NgramCounts as NgramCounts
    from throughtime.ngram.markov import MarkovChain as MarkovChain
    from throughtime.ngram.model import NgramModel as NgramModel

__all__, __getattr__, __dir__ = import_lazily(
    __name__, {"counts": "NgramCounts", "markov": "MarkovChain", "model": "NgramModel"}
)
