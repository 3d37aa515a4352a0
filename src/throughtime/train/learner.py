"""A model that learns, update by update: its weights, their optimiser and their averages, on one device.

An update is: sum the losses of its batches, divide by their count, go back through time, clip, step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from throughtime.data.batching import Batch
from throughtime.models.weights import load_weights, named_weights
from throughtime.train import optimizers
from throughtime.train.averaging import Averaging
from throughtime.train.clipping import clip_
from throughtime.train.config import TrainingConfig
from throughtime.train.cuda_graphs import Captured
from throughtime.train.devices import autocast, precision_of
from throughtime.train.malloc_trim import giving_back
from throughtime.train.objective import exchange, objective_of
from throughtime.train.processes import Processes
from throughtime.train.tally import Tally
from throughtime.train.task import State, Task


class Learner:
    """Changes the weights of a task's model. Of epochs, schedules and files it knows nothing."""

    def __init__(
        self, task: Task, config: TrainingConfig, processes: Processes, say: Callable[[str], None]
    ) -> None:
        self._model, self._clip, self._processes = task.model, config.clip, processes
        self._parameters = [weight for weight in task.model.parameters() if weight.requires_grad]
        self.device = self._parameters[0].device
        self.precision = precision_of(config.precision, self.device)
        alone = processes.world_size == 1
        rows = alone and optimizers.takes_rows(
            config.optimizer, momentum=config.momentum, weight_decay=config.weight_decay, device=self.device
        )
        optimizers.give_rows(task.model, rows)
        self._optimizer = optimizers.build(
            config.optimizer,
            self._parameters,
            lr=config.lr,
            momentum=config.momentum,
            betas=config.betas,
            weight_decay=config.weight_decay,
            device=self.device,
            sparse=rows,
        )
        kind = "uniform" if config.optimizer == "nt-asgd" else config.average
        self.averaging = Averaging(self._parameters, kind, config.ema_decay)
        self.tally = Tally(self.device)
        self._objective = objective_of(task, processes)
        capture = config.capture and task.fixed_shapes and self.device.type == "cuda"
        self.captured = Captured(
            lambda batch, carried, count: self._learn([batch], carried, count), capture and alone, say
        )
        self._carried: State = ()
        size = sum(weight.numel() * weight.element_size() for weight in self._parameters)
        self._give_memory_back = giving_back(size, self.device)

    def set_rate(self, rate: float) -> None:
        """The learning rate of the updates to come."""
        optimizers.set_rate(self._optimizer, rate)

    def update(self, batches: Sequence[Batch], count: int) -> None:
        """One step of the optimiser, by batches with so many targets over all processes."""
        if len(batches) == 1:
            self._carried = self.captured(batches[0], self._carried, count)
        else:
            self._carried = self._learn(batches, self._carried, count)
        self.averaging.update()
        self.tally.count(count)
        self._give_memory_back()

    def _learn(self, batches: Sequence[Batch], carried: State, count: int) -> State:
        """Forward, back through time, clip, step. Nothing in here waits for the device."""
        self._optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self.device)
        # DistributedDataParallel gives the mean of the processes' gradients; the loss is a sum over them.
        share = self._processes.world_size / count
        for number, batch in enumerate(batches):
            with exchange(self._objective, last=number == len(batches) - 1):
                with autocast(self.device, self.precision):
                    loss, carried = self._objective(batch, carried)
                (share * (loss.total if loss.penalty is None else loss.total + loss.penalty)).backward()
            total += loss.total.detach()
        norm = clip_(self._parameters, self._clip) if self._clip is not None else total
        self._optimizer.step()
        self.tally.add(total, norm)
        return carried

    def finite(self) -> bool:
        """Whether all weights are numbers still. This waits for the device."""
        largest = torch.stack(torch._foreach_norm([*self._parameters], float("inf")))
        return bool(largest.isfinite().all())

    def tensors(self) -> dict[str, Tensor]:
        """All that the next update depends on, for a checkpoint. All processes have to ask at once."""
        carried = self._processes.gathered_state(self._carried, self.device)
        return {
            **{f"model.{name}": weight for name, weight in named_weights(self._model).items()},
            **optimizers.tensors(self._optimizer),
            **self.averaging.tensors(),
            **{f"carried.{number}": part for number, part in enumerate(carried)},
        }

    def restore(self, tensors: Mapping[str, Tensor], where: str) -> None:
        """Go on from what `tensors` gave and `where` holds."""
        own = {
            name.removeprefix("model."): part for name, part in tensors.items() if name.startswith("model.")
        }
        load_weights(self._model, own, where)
        optimizers.restore(self._optimizer, tensors)
        self.averaging.restore(tensors)
        carried = itertools.takewhile(tensors.__contains__, map("carried.{}".format, itertools.count()))
        self._carried = tuple(self._processes.own_rows(tensors[name]).to(self.device) for name in carried)
