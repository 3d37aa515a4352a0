"""A measure: how often the first word is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from throughtime.metrics.measures import Measure


def first_word(predictions: Sequence[str], references: Sequence[str]) -> Mapping[str, float]:
    """The share of first words that agree."""
    pairs = zip(predictions, references, strict=True)
    right = sum(one.split()[:1] == other.split()[:1] for one, other in pairs)
    return {"first_word": right / len(references)}


FIRST_WORD = Measure(first_word)
