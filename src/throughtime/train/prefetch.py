"""Batches on their way to the model; for a GPU they are prepared ahead of it."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch

from throughtime.data.batching.batches import Batch, Batches
from throughtime.data.batching.shapes import PaddedShapes

DEPTH = 8
"""Number of batches prepared ahead of the model."""


class PreparedBatch(NamedTuple):
    """A batch on its way to the model, and the position of the batches after it."""

    batch: Batch
    position: dict[str, Any]


def prefetch(
    batches: Batches[Any, Any], device: torch.device, shapes: PaddedShapes | None = None
) -> Iterator[PreparedBatch]:
    """Yield the rest of the current epoch; for a GPU, a thread prepares batches ahead in pinned memory.

    There batches are padded to `shapes`, if they are given, and packed, so that each moves in one copy.
    """
    if device.type != "cuda":
        for batch in batches:
            yield PreparedBatch(batch, batches.state())
        return
    source = iter(batches)

    def prepare() -> PreparedBatch | None:
        batch = next(source, None)
        if batch is None:
            return None
        padded = batch if shapes is None else shapes.pad(batch)
        return PreparedBatch(padded.pack(pin=True), batches.state())

    pool = ThreadPoolExecutor(max_workers=1)
    try:
        ahead = deque(pool.submit(prepare) for _ in range(DEPTH))
        while (one := ahead.popleft().result()) is not None:
            ahead.append(pool.submit(prepare))
            yield one  # the learner copies it, in the order of its stream
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Use a separate stream on a GPU, as recording CUDA graphs needs; it runs in order with the outer one."""
    if device.type != "cuda":
        yield
        return
    outer, inner = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    inner.wait_stream(outer)
    with torch.cuda.stream(inner):
        yield
    outer.wait_stream(inner)
