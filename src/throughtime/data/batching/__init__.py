"""Ids and series to batches: seeded, resumable at any batch, dealt to any number of processes."""

from throughtime.data.batching.batch import Batch, real_positions
from throughtime.data.batching.buckets import Buckets
from throughtime.data.batching.draws import random_offset
from throughtime.data.batching.language import OverlappingWindows, RandomWindows
from throughtime.data.batching.pairs import PairBatch, PairBatches, Specials, Truncated, pad_or_truncate
from throughtime.data.batching.partition import SequentialPartition
from throughtime.data.batching.position import Batches
from throughtime.data.batching.ragged import RaggedIds
from throughtime.data.batching.stream import LanguageBatch
from throughtime.data.batching.windows import (
    SeriesBatch,
    SeriesBatches,
    SeriesWindows,
    split_by_time,
    windows,
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
