"""A smoothing: Witten-Bell, where a context with many different continuations is relied on less."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from throughtime.ngram.counts import NgramCounts
from throughtime.ngram.smoothing import Interpolation, count_predicted, uniform


@dataclass(frozen=True)
class WittenBell:
    """P(w | c) = (n(c, w) + t(c) P(w | c shortened)) / (n(c) + t(c)); t(c) different words follow c."""

    name: ClassVar[str] = "witten-bell"

    def fit(self, counts: NgramCounts) -> Interpolation:
        """Divide the counts after each context; t(c) / (n(c) + t(c)) is left for the shorter one."""
        single = count_predicted(counts)
        types = max(int(np.count_nonzero(single)), 1)
        base = (single + types * uniform(counts)) / (single.sum() + types)
        own, back = [np.empty(0)], [np.empty(0)]
        for shorter, level in itertools.pairwise(counts.levels):
            context, contexts = level.context, len(shorter.keys)
            different = np.bincount(context, level.count > 0, contexts)
            different = np.where(different > 0, different, np.nan)  # NaN: never continued
            total = np.bincount(context, level.count, contexts) + different
            own.append(level.count / total[context])
            back.append(different / total)
        return Interpolation(base, tuple(own), tuple(back), shortened_to_nothing=False)
