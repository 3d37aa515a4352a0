"""A smoothing: Witten-Bell, where a context with many different continuations is relied on less."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from throughtime.ngram.counts import Floats, Ints, NgramCounts
from throughtime.ngram.smoothing import Interpolation, count_predicted, divide, uniform


@dataclass(frozen=True)
class WittenBell:
    """P(w | c) = (n(c, w) + t(c) P(w | c shortened)) / (n(c) + t(c)); t(c) different words follow c."""

    name: ClassVar[str] = "witten-bell"

    def fit(self, counts: NgramCounts) -> Interpolation:
        """Divide the counts after each context; t(c) / (n(c) + t(c)) is left for the shorter one."""
        return Interpolation.collect(self._estimate(counts))

    def _estimate(self, counts: NgramCounts) -> Iterator[tuple[Floats, Floats]]:
        single = count_predicted(counts)
        types = max(int(np.count_nonzero(single)), 1)
        yield (single + types * uniform(counts)) / (single.sum() + types), np.empty(0)
        for n in range(2, counts.order + 1):
            yield divide(counts, n, counts.levels[n - 1].count, self._share)

    @staticmethod
    def _share(count: Ints, context: Ints) -> tuple[Floats, Floats]:
        """Return own of n-grams, and the weights of their contexts: NaN (0 / 0) where nothing follows."""
        different = np.bincount(context, count > 0)
        total = np.bincount(context, count) + different
        return count / total[context], different / total
