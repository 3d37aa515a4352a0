"""Corpora that come with the package: sentence pairs from a grammar of our own, a story, two noisy series."""

from __future__ import annotations

from throughtime.data.embedded.corpus import LANGUAGE_PAIRS, all_pairs, pairs, words
from throughtime.data.embedded.series import SERIES, series
from throughtime.data.embedded.split import SPLITS
from throughtime.data.embedded.story import english, story

__all__ = ["LANGUAGE_PAIRS", "SERIES", "SPLITS", "all_pairs", "english", "pairs", "series", "story", "words"]
