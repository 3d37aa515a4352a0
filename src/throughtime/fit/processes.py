"""The processes that train one model together, and the signals that stop them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, distributed

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Processes:
    """This process among those that train one model; a single one unless started by torchrun."""

    rank: int = 0
    world_size: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes the files and reports progress."""
        return self.rank == 0

    def sum(self, values: list[float], device: torch.device) -> list[float]:
        """Add each number over all processes."""
        if self.world_size == 1:
            return values
        total = torch.tensor(values, dtype=torch.float64, device=device)
        distributed.all_reduce(total)
        return total.tolist()

    def all_agree(self, flag: Tensor) -> Tensor:
        """Whether a flag on the device is true in all processes, without waiting for the device."""
        if self.world_size == 1:
            return flag
        agreed = flag.to(torch.int32)
        distributed.all_reduce(agreed, distributed.ReduceOp.MIN)
        return agreed > 0

    def share(self, value: Any) -> Any:
        """Return the value of the first process, in all of them; it is pickled on the way."""
        if self.world_size == 1:
            return value
        values = [value]
        distributed.broadcast_object_list(values)
        return values[0]

    def gather_state(self, state: tuple[Tensor, ...]) -> list[Tensor]:
        """Gather the rows of each part of a state in the order of the whole batch, on the CPU.

        Row i belongs to rank i mod n; where there are fewer rows than processes, the last ones have none.
        """
        if self.world_size == 1:
            return list(state)
        states: list[list[Tensor]] = [[]] * self.world_size
        distributed.all_gather_object(states, [tensor.cpu() for tensor in state])
        gathered = []
        for tensors in zip(*filter(None, states), strict=True):
            whole = tensors[0].new_empty(sum(map(len, tensors)), *tensors[0].shape[1:])
            for rank, rows in enumerate(tensors):
                whole[rank :: self.world_size] = rows
            gathered.append(whole)
        return gathered

    def own_rows(self, rows: Tensor) -> Tensor:
        """Return the rows of this process out of those of the whole batch."""
        return rows[self.rank :: self.world_size].clone()

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.world_size > 1:
            distributed.barrier()


@contextmanager
def join_processes(device: torch.device) -> Iterator[Processes]:
    """Join the processes that torchrun started, for the length of the block; alone without torchrun."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        yield Processes()
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)  # which NCCL exchanges objects through
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Processes(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()


class Meetings:
    """When the processes agree on decisions that depend on each one's clock: about once a second.

    To agree, they must wait for the device, so they do it only after the number of updates that take about a
    second. A single process decides after every update.
    """

    SECONDS = 1.0
    MAX_UPDATES = 100  # maximum between two meetings, as updates may become slower

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._last = self._next = 0
        self._held = 0.0

    def due(self, step: int) -> bool:
        """Whether the processes meet after this update; the same for all of them."""
        return self._processes.world_size == 1 or step >= self._next

    def hold(self, step: int, now: float, flags: Sequence[bool], device: torch.device) -> list[bool]:
        """For each flag, whether any process has set it; `now` is the time of this process."""
        if self._processes.world_size == 1:
            return list(flags)
        since = now - self._held if self._last else 0.0
        *counts, seconds = self._processes.sum([*map(float, flags), since], device)
        pace = seconds / self._processes.world_size / max(step - self._last, 1)
        updates = self.SECONDS / pace if pace else 1.0
        self._last, self._next = step, step + int(min(max(updates, 1.0), self.MAX_UPDATES))
        self._held = now
        return [count > 0 for count in counts]


class Interrupts:
    """Whether Ctrl-C or SIGTERM asked to stop."""

    asked = False


@contextmanager
def listen_for_interrupts() -> Iterator[Interrupts]:
    """Inside the block the first Ctrl-C or SIGTERM only sets `asked`; a second acts at once, as always."""
    interrupts = Interrupts()
    before: dict[signal.Signals, Any] = {}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(number: int, frame: FrameType | None) -> None:
        interrupts.asked = True
        restore()

    if threading.current_thread() is threading.main_thread():  # no other may listen
        for number in SIGNALS:
            before[number] = signal.signal(number, ask)
    try:
        yield interrupts
    finally:
        restore()
