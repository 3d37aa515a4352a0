"""The ways of cutting one long text into batches that need nothing but their sizes, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from throughtime.data.batching.language import RandomWindows
from throughtime.data.batching.partition import SequentialPartition
from throughtime.data.batching.position import Batches
from throughtime.data.batching.stream import LanguageBatch

SAMPLINGS: Mapping[str, Callable[..., Batches[Any, LanguageBatch]]] = {
    "random": RandomWindows,
    "sequential": SequentialPartition,
    "rotated": partial(SequentialPartition, rotate=True),
}
