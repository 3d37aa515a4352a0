"""Where the time goes: how much of it is spent outside the model."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Clock:
    """Wall time against time inside the model; on a GPU the latter is read from events, without waiting."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._began = time.perf_counter()
        self._before = self._inside = 0.0
        self._events: deque[tuple[torch.cuda.Event, torch.cuda.Event]] = deque()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """The block belongs to the model: forward, backward, update."""
        if self._device.type != "cuda":
            began = time.perf_counter()
            yield
            self._inside += time.perf_counter() - began
            return
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        yield
        end.record()
        self._events.append((start, end))

    def unfinished(self) -> int:
        """Number of updates that the device has not finished yet; does not wait for it."""
        while self._events and self._events[0][1].query():
            start, end = self._events.popleft()
            self._inside += start.elapsed_time(end) / 1000
        return len(self._events)

    def lap(self) -> tuple[float, float]:
        """Seconds since the last lap, and the share of them that was spent outside the model."""
        seconds, inside = self.state()
        outside = max(0.0, 1 - inside / seconds) if seconds else 0.0
        self.restore([0.0, 0.0])
        return seconds, outside

    def state(self) -> list[float]:
        """Seconds since the last lap, and those of them inside the model: what a checkpoint keeps."""
        if self._events:
            self._events[-1][1].synchronize()
            self.unfinished()
        return [self._before + time.perf_counter() - self._began, self._inside]

    def restore(self, state: list[float]) -> None:
        """Go on from such a state; time begins to count now."""
        self._before, self._inside = state
        self._began, self._events = time.perf_counter(), deque()
