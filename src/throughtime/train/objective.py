"""A task's loss as a module, which is what DistributedDataParallel wraps, and how processes share it."""

from __future__ import annotations

import contextlib
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from throughtime.data.batching import Batch
from throughtime.train.processes import Processes
from throughtime.train.task import Loss, State, Task


class Objective(nn.Module):
    """The loss of the rows at hand, of which there may be none."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.model, self._task = task.model, task

    def forward(self, batch: Batch, carried: State) -> tuple[Loss, State]:
        """The loss, and what the batch hands on."""
        if batch.rows:
            return self._task.loss(batch, carried)
        # A process without a row in a small batch still takes part in the sum of gradients, with zeros. It
        # needs one weight for that; what no process uses stays without a gradient, as it does in one.
        return Loss(next(self.model.parameters()).sum() * 0), carried


def objective_of(task: Task, processes: Processes) -> nn.Module:
    """The objective, its gradients exchanged where there are several processes."""
    if processes.world_size == 1:
        return Objective(task)
    objective = Objective(task)
    # torch's C++ warns in every process, past Python's filters, where the first batch happens to use all
    # weights. Here is one that none uses: what comes of it is nothing but the silence.
    objective.unused = nn.Parameter(next(task.model.parameters()).new_zeros(1))
    # A learned first state has no gradient where the state is carried over, for one; a process without rows
    # uses one weight only.
    return DistributedDataParallel(objective, find_unused_parameters=True)


def exchange(objective: nn.Module, last: bool) -> contextlib.AbstractContextManager[Any]:
    """Processes add up their gradients once an update, with its last batch."""
    if isinstance(objective, DistributedDataParallel) and not last:
        return objective.no_sync()
    return contextlib.nullcontext()
