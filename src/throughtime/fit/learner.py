"""One update of the weights: loss, gradients, clipping, optimiser and averages, on one device.

An update sums the losses of its batches, divides by their count, back-propagates, clips and steps. If the
loss or its gradient is NaN or infinite, it changes nothing, and halves the rate of all updates after it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from throughtime.accelerate import expect_graphs
from throughtime.data.batching.batch import Header
from throughtime.data.batching.batches import Batch, Batches
from throughtime.data.batching.shapes import PaddedShapes
from throughtime.fit import optimizers
from throughtime.fit.config import TrainingConfig
from throughtime.fit.objective import Loss, Objective, State
from throughtime.fit.processes import Processes
from throughtime.fit.tally import Tally
from throughtime.gpu import tally as tally_kernel
from throughtime.layers.devices import autocast, choose_precision, trim_memory
from throughtime.models.weights import load_weights, named_weights

if TYPE_CHECKING:
    from throughtime.fit.cuda_graphs import CudaGraphs

SAMPLED_BATCHES = 512
"""Maximum number of batches whose shapes are examined; collating them takes a tenth of a second."""
LARGE = 128 * 2**20
"""Bytes of weights above which an update takes so long that returning memory costs nothing in comparison."""


class Learner:
    """Updates the weights of a model; epochs, schedules and files are left to the trainer."""

    def __init__(
        self, objective: Objective, config: TrainingConfig, processes: Processes, say: Callable[[str], None]
    ) -> None:
        self._model, self._clip, self._processes = objective.model, config.clip, processes
        self._parameters = [weight for weight in objective.model.parameters() if weight.requires_grad]
        self.device = self._parameters[0].device
        self.precision = choose_precision(config.precision, self.device)
        alone = processes.world_size == 1
        rows = alone and optimizers.supports_sparse_rows(config, self.device)
        optimizers.use_sparse_rows(objective.model, rows)
        self._optimizer = optimizers.build_optimizer(config, self._parameters, self.device, sparse=rows)
        kind = "uniform" if config.optimizer == "nt-asgd" else config.average
        self.averaging = optimizers.Averaging(self._parameters, kind, config.ema_decay)
        self.tally = Tally(self.device, config.clip)
        self._loss = _loss_module(objective, processes)
        self.cuda_graphs: CudaGraphs | None = None
        one_by_one = alone and config.accumulate == 1
        if config.capture and objective.fixed_shapes and self.device.type == "cuda" and one_by_one:
            from throughtime.fit.cuda_graphs import CudaGraphs

            self.cuda_graphs = CudaGraphs(
                self._learn_packed, say, lambda: getattr(objective, "variant", None), self._rehearse
            )
            self._rate = config.lr
        self._carried: State = ()
        size = sum(weight.numel() * weight.element_size() for weight in self._parameters)
        self._trim_memory = build_memory_trimmer(size, self.device)

    def prepare_graphs(self, batches: Batches[Any, Any]) -> PaddedShapes | None:
        """Choose the shapes to which batches are padded, and let updates of them be recorded; return them.

        None if updates are not recorded, or if the shapes of batches are fixed.
        """
        if self.cuda_graphs is None:
            return None
        from throughtime.fit.cuda_graphs import MAX_SHAPES

        sampled = batches.sample(SAMPLED_BATCHES)
        shapes = PaddedShapes.choose(sampled, MAX_SHAPES)
        self.cuda_graphs.expect(select_batches(sampled, shapes, MAX_SHAPES))
        return shapes

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the updates to come."""
        if self.cuda_graphs is not None:
            self._rate = rate  # it moves to the device with the batch
            return
        optimizers.set_rate(self._optimizer, rate, self.tally.rate_factor)

    def update(self, batches: Sequence[Batch], count: int) -> None:
        """Take one step of the optimiser, on batches with `count` targets over all processes."""
        # Also where nothing is recorded, so that `capture` changes results by rounding only.
        with expect_graphs() or contextlib.nullcontext():
            if self.cuda_graphs is not None:
                (batch,) = batches
                batch.write_header(count, self._rate)
                self._carried = self.cuda_graphs(batch, self._carried)
            else:
                if self.device.type == "cuda":
                    batches = [batch.to(self.device, non_blocking=True) for batch in batches]
                self._carried = self._learn(batches, self._carried, count)
        self.averaging.update(self.tally.stepped)
        self.tally.count(count)
        self._trim_memory()

    def _learn_packed(self, batch: Batch, carried: State) -> State:
        """Take a step with the count and the rate that are in the batch, so that it can be recorded."""
        batch = batch.to(self.device, non_blocking=True)
        return self._learn([batch], carried, batch.header)

    def _learn(self, batches: Sequence[Batch], carried: State, given: int | Header) -> State:
        """Run forward, backward, clip and step, on batches on the device, without waiting for it.

        `given` is the number of targets; or all that an update needs, the rate included, on the device.
        """
        self._optimizer.zero_grad(set_to_none=True)
        before = carried
        totals: list[Tensor] = []
        # DistributedDataParallel gives the mean of the processes' gradients; the loss is a sum over them.
        share = given.share if isinstance(given, Header) else self._processes.world_size / given
        for number, batch in enumerate(batches):
            with _exchange(self._loss, last=number == len(batches) - 1):
                total, carried = self._back_propagate(batch, carried, share)
            totals.append(total)
        total = functools.reduce(torch.add, totals)
        if isinstance(given, Header) and self._has_kernels():
            finite = self._step_at_once(total, given)
        else:
            finite = self._step(total, given)
        return _finite_state(finite, carried, before)

    def _step(self, total: Tensor, given: int | Header) -> Tensor:
        """Clip, step and count an update with this loss, or skip it. Return whether it is finite."""
        if isinstance(given, Header):
            optimizers.set_rate(self._optimizer, given.rate, self.tally.rate_factor)
        norm = optimizers.clip_gradients(self._parameters, self._clip)
        finite = self._processes.all_agree(torch.isfinite(total) & torch.isfinite(norm))
        optimizers.step_if_finite(self._optimizer, finite, wait=self.device.type != "cuda")
        self.tally.add(total, norm, given.targets if isinstance(given, Header) else given, finite)
        return finite

    def _step_at_once(self, total: Tensor, given: Header) -> Tensor:
        """Do the same on an NVIDIA GPU, where one kernel does most of it."""
        norms = optimizers.gradient_norms(self._parameters)
        (group,) = self._optimizer.param_groups
        end = self.tally.add_at_once(total, norms, given.targets, given.rate, group["lr"])
        if self._clip is not None:
            optimizers.scale_gradients(self._parameters, end.clipping)
        optimizers.step_unless(self._optimizer, end.stopped)
        return end.finite

    def _back_propagate(self, batch: Batch, carried: State, share: float | Tensor) -> tuple[Tensor, State]:
        """Add the gradients of one batch, times `share`; return its loss, and what it passes on."""
        with autocast(self.device, self.precision):
            loss, carried = self._loss(batch, carried)
        whole = loss.total if loss.penalty is None else loss.total + loss.penalty
        whole.backward(share.to(whole) if isinstance(share, Tensor) else whole.new_full((), share))
        return loss.total.detach(), carried

    def _rehearse(self, batch: Batch) -> None:
        """Run what an update of this shape runs, but change no weight."""
        self._optimizer.zero_grad(set_to_none=True)
        self._back_propagate(batch.to(self.device), (), 1.0)
        self._optimizer.zero_grad(set_to_none=True)

    def _has_kernels(self) -> bool:
        return self.device.type == "cuda" and tally_kernel.is_available(self.device.index)

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
            **{f"carried.{number}": part for number, part in enumerate(carried)},
        }

    def restore(self, tensors: Mapping[str, Tensor], where: str) -> None:
        """Restore what `tensors` gave; `where` names the checkpoint."""
        own = {
            name.removeprefix("model."): part for name, part in tensors.items() if name.startswith("model.")
        }
        load_weights(self._model, own, where)
        optimizers.restore_optimizer(self._optimizer, tensors)
        self.averaging.restore(tensors)
        carried = itertools.takewhile(tensors.__contains__, map("carried.{}".format, itertools.count()))
        self._carried = tuple(self._processes.own_rows(tensors[name]).to(self.device) for name in carried)


def select_batches(batches: Iterable[Batch], shapes: PaddedShapes | None, most: int) -> list[Batch]:
    """Return one batch of each shape that occurs, padded to `shapes` and packed; at most `most`."""
    found: dict[object, Batch] = {}
    for batch in batches:
        sizes = None if shapes is None else shapes.find(batch)
        shape: object = tuple((sizes or {}).values()) or tuple(one.shape for one in batch.tensors().values())
        if shape not in found and len(found) < most:
            found[shape] = batch.pack(sizes)
    return [*found.values()]


def _finite_state(finite: Tensor, reached: State, before: State) -> State:
    """Return what an update passes on: after a skipped one what it was given itself, or zeros."""
    if finite.device.type != "cuda" and finite:
        return reached
    kept = [
        old if number < len(before) and (old := before[number]).shape == new.shape else torch.zeros_like(new)
        for number, new in enumerate(reached)
    ]
    return tuple(torch.where(finite, new, old) for new, old in zip(reached, kept, strict=True))


class _LossModule(nn.Module):
    """The loss as a module, as DistributedDataParallel needs it; a process may have no rows."""

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.model, self._objective = objective.model, objective

    def forward(self, batch: Batch, carried: State) -> tuple[Loss, State]:
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
