"""Batches on their way to the model; for a GPU they are prepared while it computes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from throughtime.data.batching.batches import Batch, Batches
from throughtime.data.batching.shapes import PaddedShapes


class PreparedBatch(NamedTuple):
    """A batch on its way to the model, and the position of the batches after it."""

    batch: Batch
    position: dict[str, Any]


def prefetch(
    batches: Batches[Any, Any], device: torch.device, shapes: PaddedShapes | None = None
) -> Iterator[PreparedBatch]:
    """Yield the rest of the current epoch; for a GPU in pinned memory, from which the learner copies it.

    For a GPU, batches are padded to `shapes`, if they are given, and packed, so that each moves in one copy,
    while the GPU computes the updates before. A separate thread would not be faster: the two threads would
    wait for Python's lock at each of their calls, which takes longer than preparing a batch.
    """
    for batch in batches.pack_epoch(shapes, pin=True) if device.type == "cuda" else batches:
        yield PreparedBatch(batch, batches.state())


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
