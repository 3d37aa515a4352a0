"""One update of the weights: loss, gradients, clipping, optimiser and averages, on one device.

An update sums the losses of its batches, divides by their count, back-propagates, clips and steps. If the
loss or its gradient is NaN or infinite, it changes nothing, and halves the rate of all updates after it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from throughtime.data.batching.batches import Batch, Batches
from throughtime.fit import optimizers
from throughtime.fit.config import TrainingConfig
from throughtime.fit.objective import Carried, Loss, Objective
from throughtime.fit.processes import Processes
from throughtime.fit.tally import Tally
from throughtime.fit.timing import Clock
from throughtime.layers.devices import autocast, choose_precision, matmul_precision, trim_memory
from throughtime.models.weights import load_weights, named_weights

LARGE = 128 * 2**20
"""Bytes of weights above which an update takes so long that returning memory costs nothing in comparison."""


class PreparedBatch(NamedTuple):
    """A batch on its way to the model, and the position of the batches after it."""

    batch: Batch
    position: dict[str, Any]


class Learner:
    """Updates the weights of a model; epochs, schedules and files are left to the trainer."""

    warm_up = 2
    """Number of updates that are slower than those after them."""

    def __init__(self, objective: Objective, config: TrainingConfig, processes: Processes) -> None:
        self._model, self._clip, self._processes = objective.model, config.clip, processes
        self._nonmono = config.nonmono if config.optimizer == "nt-asgd" else None
        self._parameters = [weight for weight in objective.model.parameters() if weight.requires_grad]
        self.device = self._parameters[0].device
        self.precision = choose_precision(config.precision, self.device)
        self._optimizer = self._build_optimizer(config)
        kind = "uniform" if config.optimizer == "nt-asgd" else config.average
        self.averaging = optimizers.Averaging(self._parameters, kind, config.ema_decay)
        self.tally = Tally(self.device, config.clip)
        self.clock = Clock()
        self._loss = _loss_module(objective, processes)
        self._carried: Carried = ()
        size = sum(weight.numel() * weight.element_size() for weight in self._parameters)
        self._trim_memory = build_memory_trimmer(size, self.device)

    def _build_optimizer(self, config: TrainingConfig) -> Optimizer:
        sparse = self._processes.world_size == 1 and optimizers.supports_sparse_rows(config, self.device)
        optimizers.use_sparse_rows(self._model, sparse)
        return optimizers.build_optimizer(config, self._parameters, sparse=sparse)

    def computing(self) -> contextlib.AbstractContextManager[object]:
        """Return a context for updates, in which products have the precision of the run."""
        return matmul_precision(self.precision)

    def prepare(self, batches: Batches[Any, Any]) -> Iterator[PreparedBatch]:
        """Yield the rest of the current epoch, ready for updates."""
        for batch in batches:
            yield PreparedBatch(batch, batches.state())

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the updates to come."""
        optimizers.set_rate(self._optimizer, rate * float(self.tally.rate_factor))

    def update(self, batches: Sequence[Batch], count: int) -> None:
        """Take one step of the optimiser, on batches with `count` targets over all processes."""
        self._carried = self._learn_batches(batches, count)
        self.averaging.update(self.tally.stepped)
        self.tally.count(count)
        self._trim_memory()

    def _learn_batches(self, batches: Sequence[Batch], count: int) -> Carried:
        """Learn from batches of the host; return what they pass to the next update."""
        if self.device.type != "cpu":
            batches = [batch.to(self.device, non_blocking=True) for batch in batches]
        # DistributedDataParallel gives the mean of the processes' gradients; the loss is a sum over them.
        return self._learn(batches, self._carried, count, self._processes.world_size / count)

    def _learn(
        self, batches: Sequence[Batch], carried: Carried, targets: int | Tensor, share: float | Tensor
    ) -> Carried:
        """Run forward, backward, clip and step, on batches on the device, without waiting for it.

        `targets` is their number, and `share` what their gradients are multiplied by.
        """
        self._optimizer.zero_grad(set_to_none=True)
        before = carried
        totals: list[Tensor] = []
        for number, batch in enumerate(batches):
            with _exchange(self._loss, last=number == len(batches) - 1):
                total, carried = self._back_propagate(batch, carried, share)
            totals.append(total)
        finite = self._step(functools.reduce(torch.add, totals), targets)
        return self._pass_on(finite, carried, before)

    def _back_propagate(
        self, batch: Batch, carried: Carried, share: float | Tensor
    ) -> tuple[Tensor, Carried]:
        """Add the gradients of one batch, times `share`; return its loss, and what it passes on."""
        with autocast(self.device, self.precision):
            loss, carried = self._loss(batch, carried)
        whole = loss.total if loss.penalty is None else loss.total + loss.penalty
        whole.backward(share.to(whole) if isinstance(share, Tensor) else whole.new_full((), share))
        return loss.total.detach(), carried

    def _step(self, total: Tensor, targets: int | Tensor) -> Tensor:
        """Clip, step and count an update with this loss, or skip it. Return whether it is finite."""
        norm = optimizers.clip_gradients(self._parameters, self._clip)
        finite = self._processes.all_agree(torch.isfinite(total) & torch.isfinite(norm))
        self._step_if(finite)
        self.tally.add(total, norm, targets, finite)
        return finite

    def _step_if(self, finite: Tensor) -> None:
        """Take a step of the optimiser, or change neither the weights nor its state."""
        if finite:
            self._optimizer.step()

    def _pass_on(self, finite: Tensor, reached: Carried, before: Carried) -> Carried:
        """Return what an update passes on: after a skipped one what it was given itself, or zeros."""
        return reached if finite else state_before(reached, before)

    def meet(self) -> None:
        """Share with the other processes what is measured in the first one alone; all call this together."""

    def average_if_stalled(self, scores: Sequence[float]) -> bool:
        """Average the weights from now on if NT-ASGD asks for it; return whether this begins now."""
        if self._nonmono is None or self.averaging.active:
            return False
        begins = optimizers.first_trigger(scores, self._nonmono) is not None
        if begins:
            self.averaging.begin()
        return begins

    def is_finite(self) -> bool:
        """Whether all weights are finite. This waits for the device."""
        largest = torch.stack(torch._foreach_norm([*self._parameters], float("inf")))
        return bool(largest.isfinite().all())

    def tensors(self) -> dict[str, Tensor]:
        """Return all that the next update depends on, for a checkpoint. All processes must call this."""
        carried = self._processes.gather_state(self._carried)
        return {
            **{f"model.{name}": weight for name, weight in named_weights(self._model).items()},
            **optimizers.optimizer_tensors(self._optimizer),
            **self.averaging.tensors(),
            **{f"carried.{number}": tensor for number, tensor in enumerate(carried)},
        }

    def restore(self, tensors: Mapping[str, Tensor], where: str) -> None:
        """Restore what `tensors` gave; `where` names the checkpoint."""
        weights = {
            name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")
        }
        load_weights(self._model, weights, where)
        optimizers.restore_optimizer(self._optimizer, tensors)
        self.averaging.restore(tensors)
        carried = itertools.takewhile(tensors.__contains__, map("carried.{}".format, itertools.count()))
        self._carried = tuple(self._processes.own_rows(tensors[name]).to(self.device) for name in carried)


def state_before(reached: Carried, before: Carried) -> Carried:
    """Return the state before an update in the shapes of the one that it reached; zeros where they differ."""
    return tuple(
        old if number < len(before) and (old := before[number]).shape == new.shape else torch.zeros_like(new)
        for number, new in enumerate(reached)
    )


class _LossModule(nn.Module):
    """The loss as a module, as DistributedDataParallel needs it; a process may have no rows."""

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.model, self._objective = objective.model, objective

    def forward(self, batch: Batch, carried: Carried) -> tuple[Loss, Carried]:
        """Return the loss, and what the batch passes to the next."""
        if batch.rows:
            return self._objective.loss(batch, carried)
        # A process without rows still takes part in the sum of gradients, with a zero for one weight;
        # weights that no process uses have no gradient, as with one process.
        return Loss(next(self.model.parameters()).sum() * 0), carried


def _loss_module(objective: Objective, processes: Processes) -> nn.Module:
    """Return the loss as a module; several processes exchange its gradients."""
    module = _LossModule(objective)
    if processes.world_size == 1:
        return module
    # torch's C++ warns in every process, past Python's filters, if the first batch happens to use all
    # weights. A weight that is never used prevents this.
    module.unused = nn.Parameter(next(objective.model.parameters()).new_zeros(1))
    # Not all weights have gradients: a learned initial state has none where the state is carried over.
    return DistributedDataParallel(module, find_unused_parameters=True)


def _exchange(module: nn.Module, last: bool) -> contextlib.AbstractContextManager[object]:
    """Return a context in which gradients are exchanged only with the last batch of an update."""
    if isinstance(module, DistributedDataParallel) and not last:
        return module.no_sync()
    return contextlib.nullcontext()


def build_memory_trimmer(weights: int, device: torch.device) -> Callable[[], object]:
    """Return a function to call after each update, which returns freed memory to the system.

    `weights` is the size of the model in bytes. The C library keeps freed pieces below 32 MB, in an order
    that differs between updates, so that a large model grows by a tenth over a few hundred updates. The
    function does nothing without glibc, and for small models, which had better reuse their memory.
    """
    return trim_memory if device.type == "cpu" and weights >= LARGE else lambda: None
