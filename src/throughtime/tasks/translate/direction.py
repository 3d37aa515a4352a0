"""Warn about pairs whose source and target are swapped, before a translator is trained on them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from throughtime.data.splits import language_of
from throughtime.ngram.detection import are_swapped
from throughtime.text.languages import language_name

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

LOOKED_AT = 4_000
"""Number of pairs read from the beginning of the training data; sorted files start with short sentences."""
CHOSEN = 400
"""Number of these pairs that are examined, evenly spaced."""


def swapped_sides(dataset: Dataset, source: str | None, target: str | None) -> tuple[str, ...]:
    """A warning if the sources look like the target language and the targets like the source language."""
    if not source or not target:
        return ()
    bad = dataset.bad  # reading pairs replaces this count of skipped records, which is shown later
    pairs = list(itertools.islice(dataset.pairs("train"), LOOKED_AT))
    dataset.bad = bad
    pairs = pairs[:: max(1, len(pairs) // CHOSEN)]
    if not are_swapped([pair.source for pair in pairs], [pair.target for pair in pairs], source, target):
        return ()
    files = {language_of(path.name): path.name for path in dataset.files("train")}
    sides = [f"{side} ({files.get(code, code)})" for side, code in (("source", source), ("target", target))]
    return (
        f"{dataset.name}: the {sides[0]} looks like {language_name(target)}, and the {sides[1]} like "
        f"{language_name(source)}: are source and target swapped?",
    )
