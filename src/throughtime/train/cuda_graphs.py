"""Updates on a GPU, replayed from CUDA graphs for shapes that recur.

A graph holds all that an update launches, so that the host starts it with one call. What differs between two
updates of a shape lies in tensors: the batch, its number of targets, the learning rate and the random seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from throughtime.data.batching.batches import Batch
from throughtime.errors import first_line
from throughtime.kernels.recording import FAILURES, release_generator, without_collection
from throughtime.train.objective import State

Step = Callable[[Batch, State], State]
"""Train on a batch, wherever it is, from the state of the batch before; returns the new state."""

WARM_UP = 3
"""Updates before the first recording: optimisers and libraries allocate memory in their first ones."""
SEEN_BEFORE = 1
"""Updates of a shape before it is recorded: its kernels are compiled and chosen in the first one."""
MAX_SHAPES = 24
"""Maximum number of shapes to which batches of texts are padded: on Multi30k they add 6 % of positions, 12
shapes would add 11 %."""
MAX_GRAPHS = 32
"""Maximum number of recorded shapes; others run without a graph."""


@dataclass
class _Recording:
    graph: torch.cuda.CUDAGraph
    memory: Tensor  # of the batch, which is packed
    carried: State


class CudaGraphs:
    """Runs a step, replayed from a CUDA graph if its shape recurs; if recording fails, without a graph.

    All graphs share one pool of memory: each update is done before the next one begins, so that the pool is
    about as large as the largest of them. `variant` returns whatever else a step depends on, besides tensors.
    """

    def __init__(
        self, step: Step, say: Callable[[str], None], variant: Callable[[], Hashable] = lambda: None
    ) -> None:
        self._step, self._say, self._variant = step, say, variant
        self._failed = False
        self._seen: Counter[Hashable] = Counter()
        self._recordings: dict[Hashable, _Recording] = {}
        self._pool: Any = None

    def __len__(self) -> int:
        """The number of recorded shapes."""
        return len(self._recordings)

    def __call__(self, batch: Batch, carried: State) -> State:
        """Run one step; the batch may still be in pinned memory."""
        if self._failed:
            return self._step(batch, carried)
        key = _key(batch, carried, self._variant())
        if key not in self._recordings:
            early = self._seen[key] < SEEN_BEFORE or self._seen.total() < WARM_UP
            self._seen[key] += 1
            if early or len(self) >= MAX_GRAPHS or not self._record(key, batch, carried):
                return self._step(batch, carried)
        return self._replay(self._recordings[key], batch, carried)

    def _record(self, key: Hashable, batch: Batch, carried: State) -> bool:
        still = batch.to("cuda", non_blocking=True).pack()
        entering = tuple(part.clone() for part in carried)
        graph = torch.cuda.CUDAGraph()
        try:
            # Local to this thread: another one of the program may use the GPU meanwhile.
            stream, mode = torch.cuda.current_stream(), "thread_local"
            recording = torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode=mode)
            with without_collection(), recording:
                reached_state = self._step(still, entering)
                passed_state = entering if len(entering) == len(reached_state) else reached_state
                for kept, reached in zip(passed_state, reached_state, strict=True):
                    if kept is not reached:
                        kept.copy_(reached)
        except BaseException as error:
            # Recording executes nothing, so the weights have not changed. The other graphs are dropped, too:
            # they draw from the old state of the generator.
            self._failed = True
            self._recordings.clear()
            release_generator()
            if not isinstance(error, FAILURES):
                raise
            self._say(f"The step cannot be recorded in a CUDA graph ({first_line(error)}).")
            return False
        self._pool = self._pool or graph.pool()
        memory = still.memory
        assert memory is not None
        self._recordings[key] = _Recording(graph, memory, passed_state)
        return True

    def _replay(self, recording: _Recording, batch: Batch, carried: State) -> State:
        if (given := batch.memory) is None:
            given = batch.pack().memory
        assert given is not None
        recording.memory.copy_(given, non_blocking=True)
        pairs = zip(recording.carried, carried, strict=True) if carried else ()
        for kept, new in pairs:
            if kept is not new:
                kept.copy_(new)
        recording.graph.replay()
        return recording.carried


def _key(batch: Batch, carried: State, variant: Hashable) -> Hashable:
    """Return what a recording depends on: every shape, and all values that are not tensors.

    Not the count of the batch, which a loss does not read: the learner divides by it.
    """
    tensors = batch.tensors()
    apart = {*tensors, "count"}
    plain = tuple((name, value) for name, value in vars(batch).items() if name not in apart)
    shapes = tuple((tuple(tensor.shape), tensor.dtype) for tensor in (*tensors.values(), *carried))
    return shapes, plain, variant
