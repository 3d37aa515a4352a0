"""Record work on a GPU in a CUDA graph, so that it can be done again with one launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Recording:
    """Work that was recorded; what it refers to stays alive as long as the recording."""

    def __init__(self, graph: torch.cuda.CUDAGraph, work: Callable[[], None]) -> None:
        self._graph, self._work = graph, work

    def __call__(self) -> None:
        """Do it again."""
        self._graph.replay()


def record(work: Callable[[], None], stream: Any, pool: Any) -> Callable[[], None]:
    """Record what this function does on the GPU, without doing it.

    Everything that it reads and writes must stay where it is. Memory that it allocates comes from `pool`.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream), torch.no_grad():
        # Local to this thread: others may allocate memory meanwhile.
        graph.capture_begin(pool, capture_error_mode="thread_local")
        try:
            work()
        finally:
            _end(graph)
    return Recording(graph, work)


def _end(graph: torch.cuda.CUDAGraph) -> None:
    try:
        graph.capture_end()
    except RuntimeError:
        release_generator()
        raise


def release_generator() -> None:
    """Give the GPU's generator a new state with the same seed.

    torch leaves the old one marked as recording when a recording cannot be ended, and then refuses to draw
    from it. Graphs that were recorded before keep on drawing from the old one.
    """
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    fresh = torch.Generator(generator.device).manual_seed(generator.initial_seed())
    generator.graphsafe_set_state(fresh)
