"""Updates of the weights on a GPU: recorded in CUDA graphs, and without ever waiting for the device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from throughtime.accelerate import adopt_times, export_times
from throughtime.data.batching.batch import Header
from throughtime.data.batching.batches import Batch, Batches
from throughtime.data.batching.packing import PaddedShapes
from throughtime.fit import optimizers
from throughtime.fit.config import TrainingConfig
from throughtime.fit.learner import Learner, PreparedBatch, state_before
from throughtime.fit.objective import Carried, Objective
from throughtime.fit.processes import Processes
from throughtime.gpu import tally as tally_kernel
from throughtime.gpu.choice import expecting_graphs
from throughtime.gpu.clock import DeviceClock
from throughtime.gpu.cuda_graphs import MAX_SHAPES, WARM_UP, CudaGraphs
from throughtime.gpu.tally import RecordedTally

SAMPLED_BATCHES = 512
"""Maximum number of batches whose shapes are examined; collating them takes a tenth of a second."""


def find_learner(
    objective: Objective,
    config: TrainingConfig,
    processes: Processes,
    batches: Batches[Any, Any],
    say: Callable[[str], None],
) -> Learner | None:
    """Return what updates a model on a GPU; see `throughtime.accelerate.find_learner`."""
    if next(objective.model.parameters()).device.type != "cuda":
        return None
    learner = RecordedLearner(objective, config, processes, say)
    learner.prepare_graphs(batches)
    return learner


class RecordedLearner(Learner):
    """Updates the weights of a model on a GPU, from recordings unless `capture` is off.

    An update that is recorded is alone in its process, has one batch and a loss with fixed shapes. Its count
    of targets and its rate travel with the batch.
    """

    warm_up = WARM_UP + 1
    tally: RecordedTally

    def __init__(
        self, objective: Objective, config: TrainingConfig, processes: Processes, say: Callable[[str], None]
    ) -> None:
        super().__init__(objective, config, processes)
        self.tally = RecordedTally(self.device, config.clip)
        self.clock = DeviceClock(self.device)
        self.cuda_graphs: CudaGraphs | None = None
        self.shapes: PaddedShapes | None = None
        one_by_one = processes.world_size == 1 and config.accumulate == 1
        if config.capture and objective.fixed_shapes and self.device.type == "cuda" and one_by_one:
            self.cuda_graphs = CudaGraphs(
                self._learn_packed, say, lambda: getattr(objective, "variant", None), self._rehearse
            )
        self._rate = config.lr
        self._header: Header | None = None  # of the batch that is learned now

    def _build_optimizer(self, config: TrainingConfig) -> Optimizer:
        optimizers.use_sparse_rows(self._model, False)
        return build_optimizer(config, self._parameters, self.device)

    def prepare_graphs(self, batches: Batches[Any, Any]) -> None:
        """Choose the shapes to which batches are padded, and let updates of them be recorded."""
        if self.cuda_graphs is None:
            return
        sampled = batches.sample(SAMPLED_BATCHES)
        self.shapes = PaddedShapes.choose(sampled, MAX_SHAPES)  # None if the shapes of batches are fixed
        self.cuda_graphs.expect(select_batches(sampled, self.shapes, MAX_SHAPES))

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """Run updates in the precision of the run, on a stream that can be recorded."""
        with super().computing(), own_stream(self.device):
            yield

    def prepare(self, batches: Batches[Any, Any]) -> Iterator[PreparedBatch]:
        """Yield the rest of the current epoch, padded and packed in pinned memory: each moves in one copy.

        They are prepared while the GPU computes the updates before. A separate thread would not be faster:
        the two threads would wait for Python's lock at each of their calls, which takes longer than preparing
        a batch.
        """
        for batch in batches.pack_epoch(self.shapes, pin=True):
            yield PreparedBatch(batch, batches.state())

    def meet(self) -> None:
        """Take over the times of kernels, which only the first process measures."""
        if self._processes.world_size > 1:
            adopt_times(self._processes.share(export_times() or {}))

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the updates to come."""
        self._rate = rate  # for recorded updates, it moves to the device with the batch
        if self.cuda_graphs is None:
            write_rate(self._optimizer, rate, self.tally.rate_factor)

    def _learn_batches(self, batches: Sequence[Batch], count: int) -> Carried:
        with expecting_graphs():  # also without graphs, so that `capture` changes results by rounding only
            if self.cuda_graphs is None:
                return super()._learn_batches(batches, count)
            (batch,) = batches
            batch.write_header(count, self._rate)
            return self.cuda_graphs(batch, self._carried)

    def _learn_packed(self, batch: Batch, carried: Carried) -> Carried:
        """Take a step with the count and the rate that are in the batch, so that it can be recorded."""
        batch = batch.to(self.device, non_blocking=True)
        self._header = batch.header
        try:
            return self._learn([batch], carried, self._header.targets, self._header.share)
        finally:
            self._header = None

    def _step(self, total: Tensor, targets: int | Tensor) -> Tensor:
        header = self._header
        if header is None:
            return super()._step(total, targets)
        if not self._has_kernels():
            write_rate(self._optimizer, header.rate, self.tally.rate_factor)
            return super()._step(total, targets)
        norms = gradient_norms(self._parameters)
        (group,) = self._optimizer.param_groups
        end = self.tally.add_at_once(total, norms, header.targets, header.rate, group["lr"])
        if self._clip is not None:
            scale_gradients(self._parameters, end.clipping)
        step_unless(self._optimizer, end.stopped)
        return end.finite

    def _step_if(self, finite: Tensor) -> None:
        step_unless(self._optimizer, (~finite).float())

    def _pass_on(self, finite: Tensor, reached: Carried, before: Carried) -> Carried:
        pairs = zip(reached, state_before(reached, before), strict=True)
        return tuple(torch.where(finite, new, old) for new, old in pairs)

    def _rehearse(self, batch: Batch) -> None:
        """Run what an update of this shape runs, but change no weight."""
        self._optimizer.zero_grad(set_to_none=True)
        self._back_propagate(batch.to(self.device), (), 1.0)
        self._optimizer.zero_grad(set_to_none=True)

    def _has_kernels(self) -> bool:
        return self.device.type == "cuda" and tally_kernel.is_available(self.device.index)


def select_batches(batches: Iterable[Batch], shapes: PaddedShapes | None, most: int) -> list[Batch]:
    """Return one batch of each shape that occurs, padded to `shapes` and packed; at most `most`."""
    selected: dict[object, Batch] = {}
    for batch in batches:
        sizes = None if shapes is None else shapes.find(batch)
        shape: object = tuple((sizes or {}).values()) or tuple(
            tensor.shape for tensor in batch.tensors().values()
        )
        if shape not in selected and len(selected) < most:
            selected[shape] = batch.pack(sizes)
    return [*selected.values()]


@contextlib.contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Use a separate stream on a GPU, as recording CUDA graphs needs; it runs in order with the outer one."""
    if device.type != "cuda":
        yield
        return
    outer, inner = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    inner.wait_stream(outer)
    with torch.cuda.stream(inner):
        yield
    outer.wait_stream(inner)


def build_optimizer(
    config: TrainingConfig, parameters: Sequence[torch.nn.Parameter], device: torch.device
) -> Optimizer:
    """Build the configured optimiser with a rate on the device, so that a CUDA graph sees it change.

    Record a step only after a first one, which creates the state of the optimiser.
    """
    options: dict[str, Any] = {"lr": torch.tensor(config.lr, dtype=torch.float32, device=device)}
    if optimizers.OPTIMIZERS[config.optimizer] is not SGD:
        options["capturable"] = device.type == "cuda"
    optimizer = optimizers.build_optimizer(config, parameters, **options)
    create_momentum(optimizer)
    return optimizer


def create_momentum(optimizer: Optimizer) -> None:
    """Let SGD begin with a momentum of zero, which gives the same first step as none.

    Otherwise torch takes unset memory for it in the first step, and leaves it unset if that is skipped.
    """
    for group in optimizer.param_groups if isinstance(optimizer, SGD) else ():
        for parameter in group["params"] if group["momentum"] else ():
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


def write_rate(optimizer: Optimizer, rate: float | Tensor, factor: Tensor) -> None:
    """Change the learning rate to `rate * factor`, without waiting for the device."""
    for group in optimizer.param_groups:
        torch.mul(factor, rate, out=group["lr"])


def step_unless(optimizer: Optimizer, stopped: Tensor) -> None:
    """Take a fused step, which does nothing if the number `stopped` on the device is 1; otherwise it is 0."""
    # The attribute that torch's gradient scaler sets.
    optimizer.found_inf = stopped  # type: ignore[attr-defined]
    optimizer.step()


@torch.no_grad()
def gradient_norms(parameters: Iterable[Tensor]) -> Tensor:
    """Return the norm of the gradient of each parameter that has one, [N]."""
    return torch.stack(torch._foreach_norm(_gradients(parameters)))


@torch.no_grad()
def scale_gradients(parameters: Iterable[Tensor], factor: Tensor) -> None:
    """Multiply all gradients by a number on the device."""
    torch._foreach_mul_(_gradients(parameters), factor)


def _gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]
