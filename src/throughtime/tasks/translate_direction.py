"""Pairs whose sides are the wrong way round, pointed out before a translator is trained on them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from throughtime.data.splits import language_of
from throughtime.ngram.direction import are_swapped
from throughtime.ngram.languages import name_of

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

LOOKED_AT = 4_000
"""Pairs at the beginning of the training data; a file in the order of length begins with its shortest."""
CHOSEN = 400


def swapped_sides(dataset: Dataset, source: str | None, target: str | None) -> tuple[str, ...]:
    """One sentence where the sources look like the target language and the targets like the source's."""
    if not source or not target:
        return ()
    bad = dataset.bad  # what was skipped is told after a whole reading, which this one is not
    pairs = list(itertools.islice(dataset.pairs("train"), LOOKED_AT))
    dataset.bad = bad
    pairs = pairs[:: max(1, len(pairs) // CHOSEN)]
    if not are_swapped([pair.source for pair in pairs], [pair.target for pair in pairs], source, target):
        return ()
    files = {language_of(path.name): path.name for path in dataset.files("train")}
    sides = [f"{side} ({files.get(code, code)})" for side, code in (("source", source), ("target", target))]
    return (
        f"{dataset.name}: the {sides[0]} looks like {name_of(target)}, and the {sides[1]} like "
        f"{name_of(source)}: are source and target swapped?",
    )
