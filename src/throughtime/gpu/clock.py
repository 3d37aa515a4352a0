"""The clock of a training on a GPU: its time inside the model comes from events."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from throughtime.fit.timing import Clock


class DeviceClock(Clock):
    """Measures wall time, and the time in which the device computes updates.

    Recording and reading events takes the host as long as all the rest of a small update. Updates that follow
    each other without a pause of the device therefore need only their ends, and are measured together.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device
        # Start and end of each update that is not known to be finished; no start without a pause before it.
        self._events: deque[tuple[torch.cuda.Event | None, torch.cuda.Event]] = deque()
        # Start and end of finished updates without a pause between them, not yet added to `_inside`.
        self._finished: tuple[torch.cuda.Event, torch.cuda.Event] | None = None
        self._unused: list[torch.cuda.Event] = []  # creating them takes time
        self._stream: torch.cuda.Stream | None = None

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Count the time of the block as inside the model: forward, backward, update."""
        paused = not self._events or self._events[-1][1].query()
        start = self._record_event() if paused else None
        yield
        self._events.append((start, self._record_event()))

    def _record_event(self) -> torch.cuda.Event:
        # torch.cuda.current_stream builds an object at each call, which takes longer than to record an event.
        current = torch._C._cuda_getCurrentRawStream(self._device.index)
        if self._stream is None or self._stream.cuda_stream != current:
            self._stream = torch.cuda.current_stream(self._device)
        event = self._unused.pop() if self._unused else torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event

    def count_unfinished(self) -> int:
        """Return the number of updates that the device has not finished, without waiting for it."""
        while self._events and self._events[0][1].query():
            start, end = self._events.popleft()
            if start is not None:
                self._add_finished()
                self._finished = start, end
            else:
                assert self._finished is not None
                first, last = self._finished
                self._unused.append(last)
                self._finished = first, end
        return len(self._events)

    def _add_finished(self) -> None:
        if self._finished is not None:
            start, end = self._finished
            self._inside += start.elapsed_time(end) / 1000
            self._unused += self._finished
            self._finished = None

    def state(self) -> list[float]:
        """Return the seconds since the last lap and those inside the model, for a checkpoint."""
        if self._events:
            self._events[-1][1].synchronize()
            self.count_unfinished()
        self._add_finished()
        return super().state()

    def restore(self, state: list[float]) -> None:
        """Continue from such a state; time counts from now on."""
        super().restore(state)
        self._events, self._finished = deque(), None
