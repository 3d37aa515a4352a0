"""Record the work of a function on a GPU in a CUDA graph, to replay it with one launch."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import torch

from throughtime.errors import ThroughtimeError

FAILURES = (RuntimeError, ThroughtimeError)
"""The errors that torch and the driver raise if work cannot be recorded."""


class Recording:
    """Recorded work; everything that it refers to stays alive as long as the recording."""

    def __init__(self, graph: torch.cuda.CUDAGraph, work: Callable[[], None]) -> None:
        self._graph, self._work = graph, work

    def __call__(self) -> None:
        """Replay the work."""
        self._graph.replay()


def record(work: Callable[[], None], stream: Any, pool: Any) -> Callable[[], None]:
    """Record what a function does on the GPU, without running it; it must not draw random numbers.

    The tensors that it reads and writes must keep their addresses. Its allocations come from `pool`.
    """
    graph = torch.cuda.CUDAGraph()
    with (
        torch.cuda.stream(stream),
        torch.no_grad(),
        without_collection(),
        _spare_generator(),
        released_if_it_fails(pool),  # torch begins to use the pool before it begins to record
    ):
        # Local to this thread: others may allocate memory meanwhile.
        graph.capture_begin(pool, capture_error_mode="thread_local")
        try:
            work()
        finally:
            graph.capture_end()
    return Recording(graph, work)


@contextlib.contextmanager
def released_if_it_fails(pool: Any) -> Iterator[None]:
    """End the use of a pool of memory if a recording inside this block fails.

    torch leaves a pool in use when a recording cannot be ended, and then never uses memory again that another
    stream has used. Even so, nothing else can be recorded with this pool: take another one.
    """
    try:
        yield
    except BaseException:
        _end_use(pool)
        raise


def _end_use(pool: Any) -> None:
    with contextlib.suppress(RuntimeError):  # torch has ended it already
        torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool)


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Disable garbage collection inside this block: freeing a CUDA graph or event breaks a recording."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextlib.contextmanager
def _spare_generator() -> Iterator[None]:
    """Replace the state of the GPU's random generator inside this block.

    A recording that fails makes this state unusable, and other recordings may draw from the original one.
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
