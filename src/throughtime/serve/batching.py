"""A thread for each model, with a queue that groups requests into batches."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from throughtime.interrupt import interruptible
from throughtime.serve.requests import RefusalError

Compute = Callable[[list[Any]], Sequence[Any]]
"""Returns one result for each item, in their order; interrupted once nobody waits for the results."""
PAUSE = 0.05
"""Seconds before a thread that failed outside of any computation goes on, so that it does not spin."""


class WorkerError(Exception):
    """What a request gets whose computation raised something that only ends threads, such as a panic."""


def as_failure(error: BaseException) -> Exception:
    """Return an error that a future can hand to the event loop without ending it.

    >>> as_failure(ValueError("no")), as_failure(SystemExit(3))
    (ValueError('no'), WorkerError('SystemExit: 3'))
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return WorkerError(f"{type(error).__name__}: {error}")


class Worker:
    """A thread with a queue. Entries have a `size`, and `left` is set when nobody waits for them."""

    def __init__(self, name: str, queue: int, kind: str) -> None:
        self.name, self.queue = name, queue
        self._queue: deque[Any] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._busy_since: float | None = None
        self._thread = threading.Thread(target=self._live, name=f"{kind} of {name}", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> float:
        """Seconds since the thread last came back to its queue; 0 while it waits there."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def alive(self) -> bool:
        """Whether the thread has not stopped, as it does in a shutdown."""
        return self._thread.is_alive()

    def _live(self) -> None:
        """Work until the queue is closed; what goes wrong between two computations ends neither."""
        while True:
            try:
                return self._work()
            except BaseException:
                self._busy_since = None
                with suppress(Exception):  # stderr may be closed
                    traceback.print_exc(file=sys.stderr)
                time.sleep(PAUSE)

    @property
    def waiting(self) -> int:
        """Number of items that are waited for and not begun."""
        with self._changed:
            return self._count_wanted()

    def close(self) -> None:
        """Finish the queue, accept nothing new, and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def put(self, entries: Sequence[Any]) -> None:
        """Add entries to the queue, or refuse them if it is full; an empty queue accepts any number."""
        with self._changed:
            if self._closing:
                raise RefusalError(503, "the server is shutting down", retry_after=5)
            waiting = self._count_wanted()
            if waiting and waiting + sum(entry.size for entry in entries) > self.queue:
                sentence = f"too many requests are waiting for {self.name}; try again soon"
                raise RefusalError(503, sentence, retry_after=1)
            self._queue.extend(entries)
            self._changed.notify()

    def _count_wanted(self) -> int:
        return sum(entry.size for entry in self._queue if not entry.left)

    def _work(self) -> None:
        raise NotImplementedError


@dataclass(eq=False)
class Job:
    """The items of one request. `left` is set when the client has disconnected or waited too long."""

    key: Hashable
    compute: Compute
    items: list[Any]
    future: Future[list[Any]] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)
    left: bool = False

    @property
    def size(self) -> int:
        """The number of items."""
        return len(self.items)


class Batcher(Worker):
    """Computes the items of jobs with equal keys together; a key names what is computed and its options.

    The first job of a batch waits at most `wait` seconds for others to join it, and not at all when it has
    waited that long behind another batch. Jobs of other keys keep their places in the queue.
    """

    def __init__(
        self,
        name: str,
        *,
        wait: float = 0.004,
        most: int = 64,
        queue: int = 256,
        observe: Callable[[int], None] = lambda items: None,
    ) -> None:
        self.wait, self.most, self.observe = wait, most, observe
        super().__init__(name, queue, "batches")

    def submit(self, key: Hashable, compute: Compute, items: Sequence[Any]) -> Job:
        """Add a job to the queue, or refuse it if the queue is full."""
        job = Job(key, compute, list(items))
        self.put([job])
        return job

    def _work(self) -> None:
        while chosen := self._next():
            batch = [job for job in chosen if job.future.set_running_or_notify_cancel()]
            if batch:
                self._answer(batch)
                self.observe(sum(job.size for job in batch))

    def _next(self) -> list[Job]:
        """Return the jobs to compute together; empty when the queue is closed and empty."""
        with self._changed:
            while True:
                self._queue = deque(job for job in self._queue if not job.left)
                if not self._queue:
                    if self._closing:
                        return []
                    self._changed.wait()
                    continue
                batch = self._take_alike()
                rest = batch[0].since + self.wait - time.monotonic()
                if rest <= 0 or self._closing or sum(job.size for job in batch) >= self.most:
                    chosen = set(map(id, batch))
                    self._queue = deque(job for job in self._queue if id(job) not in chosen)
                    return batch
                self._changed.wait(rest)

    def _take_alike(self) -> list[Job]:
        """Return the first job and those after it that can be computed together with it."""
        first, *others = self._queue
        batch, items = [first], first.size
        for job in others:
            if job.key == first.key and items + job.size <= self.most:
                batch.append(job)
                items += job.size
        return batch

    def _answer(self, batch: list[Job]) -> None:
        items = [item for job in batch for item in job.items]
        self._busy_since = time.monotonic()
        try:
            with interruptible(lambda: all(job.left for job in batch)):
                results = list(batch[0].compute(items))
            self._busy_since = None
            if len(results) != len(items):
                raise RuntimeError(f"{self.name} gave {len(results)} results for {len(items)} items")
        except BaseException as error:  # a tokenizer's panic is no Exception, and must not end the thread
            self._busy_since = None
            if len(batch) == 1:
                batch[0].future.set_exception(as_failure(error))
                return
            # One bad item must not cost the others their answers.
            for job in batch:
                self._answer([job])
            return
        start = 0
        for job in batch:
            job.future.set_result(results[start : start + job.size])
            start += job.size
