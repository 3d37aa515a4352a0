"""Record work on a GPU in a CUDA graph, so that it can be done again with one launch."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import torch

from throughtime.errors import ThroughtimeError

FAILURES = (RuntimeError, ThroughtimeError)
"""What torch and the driver raise where something cannot be recorded."""


class Recording:
    """Work that was recorded; what it refers to stays alive as long as the recording."""

    def __init__(self, graph: torch.cuda.CUDAGraph, work: Callable[[], None]) -> None:
        self._graph, self._work = graph, work

    def __call__(self) -> None:
        """Do it again."""
        self._graph.replay()


def record(work: Callable[[], None], stream: Any, pool: Any) -> Callable[[], None]:
    """Record what this function does on the GPU, without doing it; it draws no random numbers.

    Everything that it reads and writes must stay where it is. Memory that it allocates comes from `pool`.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream), torch.no_grad(), without_collection(), _spare_generator():
        # Local to this thread: others may allocate memory meanwhile.
        graph.capture_begin(pool, capture_error_mode="thread_local")
        try:
            work()
        finally:
            graph.capture_end()
    return Recording(graph, work)


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Collect no garbage inside this block: to free a graph or an event of a GPU would spoil a recording."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextlib.contextmanager
def _spare_generator() -> Iterator[None]:
    """Let the GPU's generator have another state inside this block.

    A recording that fails spoils the state of the generator, from which other recordings may draw.
    """
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    own = generator.graphsafe_get_state()
    generator.graphsafe_set_state(torch.Generator(generator.device))
    try:
        yield
    finally:
        generator.graphsafe_set_state(own)


def release_generator() -> None:
    """Give the GPU's generator a new state with the same seed.

    torch leaves the old one marked as recording when a recording cannot be ended, and then refuses to draw
    from it. Graphs that were recorded before keep on drawing from the old one.
    """
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    fresh = torch.Generator(generator.device).manual_seed(generator.initial_seed())
    generator.graphsafe_set_state(fresh)
