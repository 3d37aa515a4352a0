"""Corpora that come with the package: sentence pairs from a small grammar of our own, and two noisy series."""

from __future__ import annotations

from throughtime.data.embedded.corpus import LANGUAGE_PAIRS, SPLITS, all_pairs, pairs, words
from throughtime.data.embedded.series import SERIES, series

__all__ = ["LANGUAGE_PAIRS", "SERIES", "SPLITS", "all_pairs", "pairs", "series", "words"]
