"""Steps of fixed shape, recorded once in a CUDA graph and replayed: no launch waits for the host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from throughtime.data.batching import Batch
from throughtime.train.task import State

Step = Callable[[Batch, State, int], State]
"""Train on a batch of so many targets, entered with what the last one handed on; what this one hands on."""

SEEN_BEFORE = 3
"""Real steps of a shape before it is recorded: optimisers and libraries allocate in their first ones."""
MOST_GRAPHS = 8
"""Each graph keeps its tensors; where shapes go on changing, the rest run as they come."""


@dataclass
class _Recording:
    graph: torch.cuda.CUDAGraph
    batch: Batch
    carried: State


class Captured:
    """A step that replays itself where it can. On a CPU, and where capture fails, it is the step as it is."""

    def __init__(self, step: Step, enabled: bool, say: Callable[[str], None]) -> None:
        self._step, self._enabled, self._say = step, enabled, say
        self._seen: Counter[Hashable] = Counter()
        self._recordings: dict[Hashable, _Recording] = {}
        self._pool: Any = None

    @property
    def graphs(self) -> int:
        """How many shapes are replayed."""
        return len(self._recordings)

    def __call__(self, batch: Batch, carried: State, count: int) -> State:
        """One step, recorded or not."""
        if not self._enabled:
            return self._step(batch, carried, count)
        key = _key(batch, carried, count)
        if key not in self._recordings:
            self._seen[key] += 1
            if self._seen[key] <= SEEN_BEFORE or len(self._recordings) >= MOST_GRAPHS:
                return self._step(batch, carried, count)
            if not self._record(key, batch, carried, count):
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
            self._enabled = False
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
