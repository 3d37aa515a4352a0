"""Ids and series to batches: seeded, resumable at any batch, dealt to any number of processes."""

from throughtime.data.batching.batches import Batch, Batches, random_offset, real_positions
from throughtime.data.batching.buckets import Buckets, RaggedIds
from throughtime.data.batching.pairs import PairBatch, PairBatches, Specials, Truncated, pad_or_truncate
from throughtime.data.batching.series import SeriesBatch, SeriesBatches, SeriesWindows, split_by_time, windows
from throughtime.data.batching.text import (
    LanguageBatch,
    OverlappingWindows,
    RandomWindows,
    SequentialPartition,
)

__all__ = [
    "Batch",
    "Batches",
    "Buckets",
    "LanguageBatch",
    "OverlappingWindows",
    "PairBatch",
    "PairBatches",
    "RaggedIds",
    "RandomWindows",
    "SequentialPartition",
    "SeriesBatch",
    "SeriesBatches",
    "SeriesWindows",
    "Specials",
    "Truncated",
    "pad_or_truncate",
    "random_offset",
    "real_positions",
    "split_by_time",
    "windows",
]
