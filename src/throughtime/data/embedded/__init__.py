"""Corpora that come with the package: sentence pairs from a grammar of our own, and two noisy series."""

from __future__ import annotations

from throughtime.data.embedded.corpus import LANGUAGE_PAIRS, all_pairs, pairs, words
from throughtime.data.embedded.series import SERIES, series
from throughtime.data.embedded.split import SPLITS

__all__ = ["LANGUAGE_PAIRS", "SERIES", "SPLITS", "all_pairs", "pairs", "series", "words"]
