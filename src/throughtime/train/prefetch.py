"""Batches prepared ahead of the model, each with the position that follows it."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from throughtime.data.batching import Batch, Batches

DEPTH = 8


class Prepared(NamedTuple):
    """A batch on its device, and where its batches stand once it is done."""

    batch: Batch
    position: dict[str, Any]


def prepared(batches: Batches[Any, Any], device: torch.device) -> Iterator[Prepared]:
    """The rest of the current epoch. For a GPU a thread goes ahead and fills pinned memory."""
    if device.type != "cuda":
        for batch in batches:
            yield Prepared(batch, batches.state())
        return
    held: queue.Queue[Prepared | BaseException | None] = queue.Queue(DEPTH)
    left = threading.Event()

    def hand_over(one: Prepared | BaseException | None) -> None:
        while not left.is_set():
            with contextlib.suppress(queue.Full):
                held.put(one, timeout=0.1)
                return

    def go_ahead() -> None:
        try:
            for batch in batches:
                hand_over(Prepared(batch.pinned(), batches.state()))
                if left.is_set():
                    return
            hand_over(None)
        except BaseException as error:
            hand_over(error)

    thread = threading.Thread(target=go_ahead, daemon=True)
    thread.start()
    try:
        while (one := held.get()) is not None:
            if isinstance(one, BaseException):
                raise one
            # Copied by the thread that computes, and so in the order of its stream.
            yield one._replace(batch=one.batch.to(device, non_blocking=True))
    finally:
        left.set()
        thread.join()
