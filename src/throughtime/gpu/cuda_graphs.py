"""Updates on a GPU, replayed from CUDA graphs for shapes that recur.

A graph holds all that an update launches, so that the host starts it with one call. What differs between two
updates of a shape lies in tensors: the batch, its number of targets, the learning rate and the random seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from throughtime.data.batching.batches import Batch
from throughtime.errors import first_line
from throughtime.fit.objective import Carried
from throughtime.gpu.recording import (
    FAILURES,
    release_generator,
    released_if_it_fails,
    without_collection,
)

Step = Callable[[Batch, Carried], Carried]
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
    carried: Carried


class CudaGraphs:
    """Runs a step, replayed from a CUDA graph if its shape recurs; if recording fails, without a graph.

    All graphs share one pool of memory: each update is done before the next one begins, so that the pool is
    about as large as the largest of them. `variant` returns whatever else a step depends on, besides tensors.
    `rehearse` does what a step does except for changing anything, so that its kernels are compiled.
    """

    def __init__(
        self,
        step: Step,
        say: Callable[[str], None],
        variant: Callable[[], Hashable] = lambda: None,
        rehearse: Callable[[Batch], None] = lambda batch: None,
    ) -> None:
        self._step, self._say, self._variant, self._rehearse = step, say, variant, rehearse
        self._expected: list[Batch] = []
        self._failed = False
        self._seen: Counter[Hashable] = Counter()
        self._recordings: dict[Hashable, _Recording] = {}
        self._pool: Any = None

    def __len__(self) -> int:
        """The number of recorded shapes."""
        return len(self._recordings)

    def __call__(self, batch: Batch, carried: Carried) -> Carried:
        """Run one step; the batch is packed, and may still be in pinned memory."""
        if self._failed:
            return self._step(batch, carried)
        key = _key(batch, carried, self._variant())
        if (recording := self._recordings.get(key)) is None:
            early = self._seen[key] < SEEN_BEFORE or self._seen.total() < WARM_UP
            self._seen[key] += 1
            if early or len(self) >= MAX_GRAPHS or not self._record(key, batch, carried):
                reached = self._step(batch, carried)
                if self._seen.total() >= WARM_UP and not reached:
                    self._record_expected()
                return reached
            recording = self._recordings[key]
        return self._replay(recording, batch, carried)

    def expect(self, batches: Iterable[Batch]) -> None:
        """Record updates of these shapes as soon as the first updates have run, if they pass on no state.

        An update that is not recorded takes as much memory as a recording, beside the pool. So all shapes are
        rehearsed before the first is recorded; and the largest comes first, as the others then fit into its
        memory.
        """
        self._expected = sorted(batches, key=lambda batch: -_count_bytes(batch))

    def _record_expected(self) -> None:
        expected = {_key(batch, (), self._variant()): batch for batch in self._expected}
        self._expected = []
        for key, batch in expected.items():
            if self._seen[key] < SEEN_BEFORE:
                self._rehearse(batch)
                self._seen[key] += 1
        for key, batch in expected.items():
            if key not in self._recordings and not (len(self) < MAX_GRAPHS and self._record(key, batch, ())):
                return

    def _record(self, key: Hashable, batch: Batch, carried: Carried) -> bool:
        # What the updates before have left unused: the pool needs as much, and cannot take it over.
        torch.cuda.empty_cache()
        still = batch.to("cuda", non_blocking=True)
        entering = tuple(part.clone() for part in carried)
        graph = torch.cuda.CUDAGraph()
        try:
            # Local to this thread: another one of the program may use the GPU meanwhile.
            stream, mode = torch.cuda.current_stream(), "thread_local"
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            recording = torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode=mode)
            with released_if_it_fails(self._pool), without_collection(), recording:
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
        memory = still.memory
        assert memory is not None
        self._recordings[key] = _Recording(graph, memory, passed_state)
        return True

    def _replay(self, recording: _Recording, batch: Batch, carried: Carried) -> Carried:
        assert batch.memory is not None
        recording.memory.copy_(batch.memory, non_blocking=True)
        pairs = zip(recording.carried, carried, strict=True) if carried else ()
        for kept, new in pairs:
            if kept is not new:
                kept.copy_(new)
        recording.graph.replay()
        return recording.carried


def _count_bytes(batch: Batch) -> int:
    assert batch.memory is not None
    return batch.memory.nbytes


def _key(batch: Batch, carried: Carried, variant: Hashable) -> Hashable:
    """Return what a recording depends on: every shape, and all values that are not tensors.

    Not the count of the batch, which a loss does not read: the learner divides by it.
    """
    shapes = batch.describe_tensors(), tuple((tuple(part.shape), part.dtype) for part in carried)
    plain = tuple(
        (name, value)
        for name, value in vars(batch).items()
        if name != "count" and name[0] != "_" and not isinstance(value, Tensor)
    )
    return shapes, plain, variant
