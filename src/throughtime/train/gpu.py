"""Training on a GPU: batches copied ahead of the model, steps of fixed shape replayed from CUDA graphs."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from throughtime.data.batching.batches import Batch, Batches
from throughtime.train.objective import State

Step = Callable[[Batch, State, int], State]
"""Train on a batch with this number of targets, from the state of the batch before; returns the new state."""

DEPTH = 8
"""Batches prepared ahead of the model."""
SEEN_BEFORE = 3
"""Real steps of a shape before it is recorded: optimisers and libraries allocate in their first ones."""
MOST_GRAPHS = 8
"""Each graph keeps its tensors; where shapes go on changing, the rest run as they come."""


class PreparedBatch(NamedTuple):
    """A batch on its device, and where its batches stand once it is done."""

    batch: Batch
    position: dict[str, Any]


def prefetch(batches: Batches[Any, Any], device: torch.device) -> Iterator[PreparedBatch]:
    """Yield the rest of the current epoch; for a GPU a thread goes ahead and fills pinned memory."""
    if device.type != "cuda":
        for batch in batches:
            yield PreparedBatch(batch, batches.state())
        return
    held: queue.Queue[PreparedBatch | BaseException | None] = queue.Queue(DEPTH)
    left = threading.Event()

    def hand_over(one: PreparedBatch | BaseException | None) -> None:
        while not left.is_set():
            with contextlib.suppress(queue.Full):
                held.put(one, timeout=0.1)
                return

    def go_ahead() -> None:
        try:
            for batch in batches:
                hand_over(PreparedBatch(batch.pinned(), batches.state()))
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


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Use a stream of its own on a GPU, as recording a CUDA graph needs; in order with the outer one."""
    if device.type != "cuda":
        yield
        return
    outer, inner = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    inner.wait_stream(outer)
    with torch.cuda.stream(inner):
        yield
    outer.wait_stream(inner)


@dataclass
class _Recording:
    graph: torch.cuda.CUDAGraph
    batch: Batch
    carried: State


class CudaGraphs:
    """A step on a GPU, replayed from a CUDA graph for shapes that recur; run as it is where capture fails."""

    def __init__(self, step: Step, say: Callable[[str], None]) -> None:
        self._step, self._say = step, say
        self._failed = False
        self._seen: Counter[Hashable] = Counter()
        self._recordings: dict[Hashable, _Recording] = {}
        self._pool: Any = None

    def __len__(self) -> int:
        """Number of shapes that are replayed."""
        return len(self._recordings)

    def __call__(self, batch: Batch, carried: State, count: int) -> State:
        """One step, recorded or not."""
        if self._failed:
            return self._step(batch, carried, count)
        key = _key(batch, carried, count)
        if key not in self._recordings:
            self._seen[key] += 1
            early = self._seen[key] <= SEEN_BEFORE or len(self) >= MOST_GRAPHS
            if early or not self._record(key, batch, carried, count):
                return self._step(batch, carried, count)
        return self._replay(self._recordings[key], batch, carried)

    def _record(self, key: Hashable, batch: Batch, carried: State, count: int) -> bool:
        own: dict[str, Any] = {name: tensor.clone() for name, tensor in batch.tensors().items()}
        still = replace(batch, **own)
        entering = tuple(part.clone() for part in carried)
        graph = torch.cuda.CUDAGraph()
        try:
            # Of this thread alone: the one that prepares batches goes on allocating pinned memory meanwhile.
            stream, mode = torch.cuda.current_stream(), "thread_local"
            with torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode=mode):
                leaving = self._step(still, entering, count)
                handed = entering if len(entering) == len(leaving) else leaving
                for kept, reached in zip(handed, leaving, strict=True):
                    if kept is not reached:
                        kept.copy_(reached)
        except RuntimeError as error:
            # Recording runs nothing, so the weights are as they were.
            self._failed = True
            self._say(f"The step cannot be recorded in a CUDA graph ({str(error).splitlines()[0]}).")
            return False
        self._pool = self._pool or graph.pool()
        self._recordings[key] = _Recording(graph, still, handed)
        return True

    def _replay(self, recording: _Recording, batch: Batch, carried: State) -> State:
        into = [*recording.batch.tensors().values(), *(recording.carried if carried else ())]
        given = [*batch.tensors().values(), *carried]
        moved = [(kept, new) for kept, new in zip(into, given, strict=True) if kept is not new]
        torch._foreach_copy_([kept for kept, _ in moved], [new for _, new in moved])
        recording.graph.replay()
        return recording.carried


def _key(batch: Batch, carried: State, count: int) -> Hashable:
    """What a recording depends on: every shape, and all that is no tensor."""
    tensors = batch.tensors()
    plain = tuple((name, value) for name, value in vars(batch).items() if name not in tensors)
    return tuple(_shape(tensor) for tensor in (*tensors.values(), *carried)), plain, count


def _shape(tensor: Tensor) -> Hashable:
    return tuple(tensor.shape), tensor.dtype
