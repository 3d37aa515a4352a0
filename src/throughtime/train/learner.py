"""One update of the weights: loss, gradients, clipping, optimiser and averages, on one device.

An update sums the losses of its batches, divides by their count, back-propagates, clips and steps. If the
loss or its gradient is NaN or infinite, it changes nothing, and halves the rate of all updates after it.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from throughtime.data.batching.batches import Batch, Batches
from throughtime.data.batching.shapes import PaddedShapes
from throughtime.layers.devices import autocast, choose_precision, trim_memory
from throughtime.models.weights import load_weights, named_weights
from throughtime.train import optimizers
from throughtime.train.config import TrainingConfig
from throughtime.train.objective import Loss, Objective, State
from throughtime.train.processes import Processes

if TYPE_CHECKING:
    from throughtime.train.cuda_graphs import CudaGraphs

SAMPLED_BATCHES = 512
"""Batches whose shapes are looked at; so many are collated in a tenth of a second."""
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
            from throughtime.train.cuda_graphs import CudaGraphs

            # On the device, so that a recorded update finds there by what to divide.
            targets = self._targets = torch.ones((), dtype=torch.int64, device=self.device)
            self.cuda_graphs = CudaGraphs(
                lambda batch, carried: self._learn([batch], carried, targets),
                say,
                lambda: getattr(objective, "variant", None),
            )
        self._carried: State = ()
        size = sum(weight.numel() * weight.element_size() for weight in self._parameters)
        self._trim_memory = build_memory_trimmer(size, self.device)

    def choose_shapes(self, batches: Batches[Any, Any]) -> PaddedShapes | None:
        """Return the shapes to which batches are padded, so that their updates recur in CUDA graphs."""
        if self.cuda_graphs is None:
            return None
        from throughtime.train.cuda_graphs import MAX_SHAPES

        return PaddedShapes.choose(batches.sample(SAMPLED_BATCHES), MAX_SHAPES)

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the updates to come."""
        optimizers.set_rate(self._optimizer, rate, self.tally.rate_factor)

    def update(self, batches: Sequence[Batch], count: int) -> None:
        """Take one step of the optimiser, on batches with `count` targets over all processes."""
        if self.cuda_graphs is not None:
            self._targets.fill_(count)
            (batch,) = batches
            self._carried = self.cuda_graphs(batch, self._carried)
        else:
            self._carried = self._learn(batches, self._carried, count)
        self.averaging.update(self.tally.stepped)
        self.tally.count(count)
        self._trim_memory()

    def _learn(self, batches: Sequence[Batch], carried: State, count: int | Tensor) -> State:
        """Run forward, backward, clip and step, without waiting for the device."""
        self._optimizer.zero_grad(set_to_none=True)
        before = carried
        total = torch.zeros((), device=self.device)
        # DistributedDataParallel gives the mean of the processes' gradients; the loss is a sum over them.
        share = self._processes.world_size / count
        for number, batch in enumerate(batches):
            if self.device.type == "cuda":
                batch = batch.to(self.device, non_blocking=True)
            with _exchange(self._loss, last=number == len(batches) - 1):
                with autocast(self.device, self.precision):
                    loss, carried = self._loss(batch, carried)
                (share * (loss.total if loss.penalty is None else loss.total + loss.penalty)).backward()
            total += loss.total.detach()
        norm = optimizers.clip_gradients(self._parameters, self._clip)
        finite = self._processes.all_agree(torch.isfinite(total) & torch.isfinite(norm))
        optimizers.step_if_finite(self._optimizer, finite, wait=self.device.type != "cuda")
        self.tally.add(total, norm, count, finite)
        return _finite_state(finite, carried, before)

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


class Lap(NamedTuple):
    """What was measured since the last report."""

    total: float
    targets: int
    gradient_norm: float  # mean over the updates, before clipping
    clipped: float  # share of updates whose gradient was clipped
    skipped: int  # number of updates that were skipped, which are not counted in the others


class Tally:
    """Sums losses and gradient norms on the device, and counts the updates that were skipped.

    Losses are summed since the last report and since the epoch began. `add` never waits for the device.
    """

    rate_factor: Tensor
    """The factor on the learning rate: each skipped update halves it."""
    stepped: Tensor
    """Whether the last update changed the weights."""

    def __init__(self, device: torch.device, clip: float | None = None) -> None:
        self._clip = clip
        self._totals = torch.zeros(2, dtype=torch.float64, device=device)  # since the last lap, in the epoch
        self._targets = [0, 0]
        self._gradients = torch.zeros(2, dtype=torch.float64, device=device)  # sum of norms, clipped updates
        self._lap_updates = 0
        self._updates = torch.zeros((), dtype=torch.int64, device=device)
        self._last_skip = torch.full((), -1, dtype=torch.int64, device=device)
        # Skipped updates of the run and since the last lap; their targets since the last lap, in the epoch.
        self._skipped = torch.zeros(4, dtype=torch.int64, device=device)
        self.rate_factor = torch.ones((), device=device)
        self.stepped = torch.ones((), dtype=torch.bool, device=device)

    def add(self, total: Tensor, norm: Tensor, targets: int | Tensor, finite: Tensor) -> None:
        """Add the loss of one update and the norm of its gradient. May be recorded in a CUDA graph.

        `targets` is the number of targets over all processes. If not `finite`, the update is skipped.
        """
        self._totals += torch.where(finite, total, 0.0)
        self._gradients[0] += torch.where(finite, norm, 0.0)
        if self._clip is not None:
            self._gradients[1] += finite & (norm > self._clip)
        self._last_skip.copy_(torch.where(finite, self._last_skip, self._updates))
        self._skipped[:2] += ~finite
        self._skipped[2:] += targets * ~finite
        self.rate_factor.copy_(torch.where(finite, self.rate_factor, self.rate_factor / 2))
        self.stepped.copy_(finite)
        self._updates += 1

    def count(self, targets: int) -> None:
        """Count the update, and its number of targets over all processes."""
        self._targets = [before + targets for before in self._targets]
        self._lap_updates += 1

    @property
    def skips(self) -> int:
        """The number of skipped updates. This waits for the device."""
        return int(self._skipped[0])

    @property
    def last_skip(self) -> int:
        """The number of the last skipped update, counted from 0 since training began or was resumed."""
        return int(self._last_skip)

    def forget_skips(self) -> None:
        """Count skipped updates from 0 again, and give up the lower rate."""
        self._skipped[0] = 0
        self.rate_factor.fill_(1.0)

    @property
    def pending(self) -> bool:
        """Whether there was an update since the last lap."""
        return self._lap_updates > 0

    def lap(self, processes: Processes) -> Lap:
        """Return what was measured since the last lap, and begin the next."""
        (total,) = processes.sum([float(self._totals[0])], self._totals.device)
        # All processes have the same gradients: these need not be summed over them.
        _, skipped, skipped_targets, _ = self._skipped.tolist()
        updates = max(self._lap_updates - skipped, 1)
        norm, clipped = (value / updates for value in self._gradients.tolist())
        lap = Lap(total, self._targets[0] - skipped_targets, norm, clipped, skipped)
        self._totals[0], self._targets[0] = 0, 0
        self._skipped[1:3] = 0
        self._gradients.zero_()
        self._lap_updates = 0
        return lap

    def end_epoch(self, processes: Processes) -> tuple[float, int]:
        """Return the sum and the targets of the epoch, and begin the next."""
        (total,) = processes.sum([float(self._totals[1])], self._totals.device)
        targets = self._targets[1] - int(self._skipped[3])
        self._totals.zero_()
        self._skipped[1:] = 0
        self._targets = [0, 0]
        return total, targets

    def state(self, processes: Processes) -> list[float]:
        """For a checkpoint: sum and targets of the epoch and of the lap; norms, clipped updates, updates.

        Then follow the skipped updates of the run and of the lap.
        """
        lap, epoch = processes.sum(self._totals.tolist(), self._totals.device)
        gradients = [*self._gradients.tolist(), self._lap_updates]
        skips, lap_skips, lap_skipped, epoch_skipped = self._skipped.tolist()
        targets = self._targets[1] - epoch_skipped, self._targets[0] - lap_skipped
        return [epoch, targets[0], lap, targets[1], *gradients, skips, lap_skips]

    def restore(self, state: list[float], processes: Processes) -> None:
        """Resume an epoch that was interrupted."""
        epoch, epoch_targets, lap, lap_targets, norms, clipped, updates, skips, lap_skips = state
        self._totals[0], self._totals[1] = lap / processes.world_size, epoch / processes.world_size
        self._targets = [int(lap_targets), int(epoch_targets)]
        self._gradients[0], self._gradients[1] = norms, clipped
        self._lap_updates = int(updates)
        self._skipped[:2] = torch.tensor([int(skips), int(lap_skips)])
        self.rate_factor.fill_(0.5**skips)


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
