"""A smoothing: half the relative frequencies, half the shorter context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from throughtime.ngram.counts import NgramCounts
from throughtime.ngram.smoothing import Interpolation, RelativeFrequency, uniform


@dataclass(frozen=True)
class Half:
    """P(w | c) = (n(c, w) / n(c) + P(w | c shortened)) / 2."""

    name: ClassVar[str] = "half"

    def fit(self, counts: NgramCounts) -> Interpolation:
        """Divide, and halve."""
        plain = RelativeFrequency().fit(counts)
        own = (plain.own[0], *(one / 2 for one in plain.own[1:]))
        back = (plain.back[0], *(np.where(np.isnan(one), np.nan, 0.5) for one in plain.back[1:]))
        return Interpolation((plain.base + uniform(counts)) / 2, own, back, shortened_to_nothing=False)
