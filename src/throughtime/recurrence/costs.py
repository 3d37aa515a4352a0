"""The time that a call takes on a GPU, in our kernels and in torch's: a model, by which `auto` chooses.

A call of ours takes one launch per layer and pass, in which the blocks exchange the state once per step,
and a few large products. torch's cuDNN launches several kernels per step, except for small layers, which it
too runs in one launch. The times follow from the numbers of steps, exchanges, bytes, operations and launches;
the coefficients below were fitted on an H200, and `Rates` are the few that differ between machines (see
`calibration`).

A call is predicted twice: *called*, where Python launches every operation and the host may be the slower
one, and *replayed* from a CUDA graph, where only the GPU counts. Ours is chosen only if it is faster both
ways. The choice therefore does not depend on whether a graph is being recorded: a training run computes the
same before and after its updates are recorded.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from throughtime.cells.base import Cell
from throughtime.kernels.elements import ElementKind, round_up_units
from throughtime.recurrence.persistent_plan import (
    Form,
    KernelTask,
    best,
    estimate_start,
    estimate_step,
)

MARGIN = 1.08
"""How many times as fast ours must be predicted to be: predictions are off by about a tenth."""


class Gpu(NamedTuple):
    """The properties of a GPU that the model uses."""

    capability: tuple[int, int]
    multiprocessors: int
    shared: int  # bytes of shared memory that a block may have
    clock: float  # MHz
    memory: float  # bytes per microsecond
    l2: int  # bytes


H200 = Gpu((9, 0), 132, 232448, clock=1980.0, memory=4.9e6, l2=60 << 20)


@dataclass(frozen=True)
class Rates:
    """The constants of a machine. Times are in microseconds; the others are relative to an H200."""

    exchange: float  # latencies inside our kernels
    traffic: float  # bytes and products inside our kernels
    product: float  # products over all steps in bf16 and float16
    product32: float  # the same in tf32
    memory: float  # bytes of memory
    launch: float  # time of a small kernel, replayed
    host: float  # time in which the host launches one of our layers and its backward pass
    host_layer: float  # and every further layer
    torch_latency: float  # latencies of torch's kernels
    torch_traffic: float  # bytes and products inside torch's kernels
    torch_small: float  # torch's single launch for small layers
    torch_host: float  # time in which the host launches one layer of torch's and its backward pass
    torch_host_step: float  # and every step of it


DEFAULTS = Rates(
    exchange=1.0,
    traffic=1.0,
    product=1.0,
    product32=1.0,
    memory=1.0,
    launch=2.4,
    host=1150.0,
    host_layer=455.0,
    torch_latency=1.0,
    torch_traffic=1.0,
    torch_small=1.0,
    torch_host=1350.0,
    torch_host_step=39.0,
)
"""Those of an H200."""


class Call(NamedTuple):
    """What a prediction depends on."""

    form: Form
    kind: ElementKind
    steps: int
    batch: int
    hidden: int
    inputs: int
    layers: int = 1
    directions: int = 1
    trains: bool = True
    ragged: bool = False

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.layers * self.directions

    def count_operations(self, hidden: int) -> tuple[float, float]:
        """Return the operations, in millions, of the products with all inputs, and with all states.

        `hidden` is the number of units with padding.
        """
        above = hidden * self.directions
        widths = self.directions * (self.inputs + (self.layers - 1) * above)
        per_input = 2e-6 * self.steps * self.batch * self.form.gates * hidden
        return per_input * widths, per_input * self.cells * hidden


class Times(NamedTuple):
    """Predicted microseconds."""

    called: float
    replayed: float


HALF_RATE, TF32_RATE, FLOAT_RATE = 450.0, 150.0, 50.0
"""Millions of operations per microsecond of a product over all steps."""
MEMORY_RATE = 3.0e6
"""Bytes per microsecond of copies and sums."""
FORWARD_LAUNCHES, BACKWARD_LAUNCHES = 2, 5
"""Small kernels of a layer beside the recurrence: products, copies, sums."""
FORWARD_HOST = 0.2
"""Share of the host's time that a call without a backward pass takes."""


def predict_ours(call: Call, gpu: Gpu, rates: Rates) -> Times | None:
    """Return the times of our kernels, which run one layer after the other; None if they do not fit."""
    width, size = round_up_units(call.hidden), call.kind.size
    layer = 0.0
    for backward in (False, True)[: 1 + call.trains]:
        launches = _time_launches(
            call, KernelTask(call.form, call.kind, width, call.batch, backward), gpu, rates
        )
        if launches is None:
            return None
        layer += launches + rates.launch * (BACKWARD_LAUNCHES if backward else FORWARD_LAUNCHES)
        filled = call.steps * call.batch * width * size * (2 * call.form.slots if backward else 1)
        weights = 2 * call.form.gates * width * width * size
        layer += call.directions * rates.memory * (filled + weights) / MEMORY_RATE
    entering, recurrent = call.count_operations(width)
    operations = (3 * entering + recurrent) if call.trains else entering
    device = call.layers * layer + _scale_product(rates, call.kind) * operations
    host = (rates.host + rates.host_layer * (call.cells - 1)) * (1.0 if call.trains else FORWARD_HOST)
    return Times(max(host, device), device)


def _time_launches(call: Call, task: KernelTask, gpu: Gpu, rates: Rates) -> float | None:
    """Return the microseconds of a pass of a layer: both directions side by side, or one after the other."""
    found = []
    for beside in (1, 2)[: call.directions]:
        plan = best(task, gpu.multiprocessors // beside, gpu.shared)
        if plan is not None:
            step = estimate_step(task, plan)
            time = call.steps * (rates.exchange * step.latency + rates.traffic * step.traffic)
            found.append(call.directions // beside * (time + rates.traffic * estimate_start(task, plan)))
    return min(found, default=None)


def _scale_product(rates: Rates, kind: ElementKind) -> float:
    """Return the microseconds of a million operations."""
    if kind >= ElementKind.BF16:
        return rates.product / HALF_RATE
    return rates.product32 / (TF32_RATE if kind is ElementKind.TF32 else FLOAT_RATE)


class StepTerms(NamedTuple):
    """Coefficients of a step of cuDNN's that launches its kernels one by one, forward or backward."""

    launches: float  # microseconds
    length: float  # of each thousand bytes of the inner dimension
    weights: float  # of each million bytes of weights
    operations: float  # relative to the products over all steps


class SmallTerms(NamedTuple):
    """Coefficients of a step of cuDNN's single launch for small layers."""

    step: float  # microseconds
    weights: float  # of each thousand bytes of weights
    operations: float  # of each million


FORWARD, BACKWARD = StepTerms(3.72, 0.445, 0.312, 1.11), StepTerms(3.91, 0.854, 0.633, 1.19)
SMALL_FORWARD, SMALL_BACKWARD = SmallTerms(0.36, 0.01, 0.21), SmallTerms(0.39, 0.01, 0.09)
TORCH_CALL, TORCH_CELL = (3.2, 5.9), (8.5, 15.3)
"""Microseconds of a call and of each cell, beside its steps: forward, backward."""
SINGLE = 1.84
"""How many times as long bytes take in float32 as in half the size."""
UNALIGNED, UNALIGNED_PRODUCT = 1.3, 2.0
"""How many times as long steps and products take if rows do not begin on a boundary of 16 bytes."""
NEXT_LAYER, OTHER_DIRECTION = 0.27, 0.68
"""Share of a layer's latency that another layer adds, which runs beside it some steps behind, and that the
other direction adds."""
SMALL_HOST, FORWARD_TORCH_HOST, CELL_HOST = 0.75, 0.35, 0.37
"""Shares of the host's time: small layers, calls without a backward pass, every further cell."""
RAGGED_HOST = 7000.0
"""Microseconds in which the host packs a ragged batch: it waits for the lengths and sorts the rows."""
FORWARD_SMALL, BACKWARD_SMALL = {True: 384, False: 192}, {True: 256, False: 128}
"""The most units of a plain network, and of others, for which torch asks cuDNN for the single launch."""


def predict_torch(call: Call, rates: Rates) -> Times:
    """Return the times of torch's kernels, in which layers and directions run side by side."""
    aligned = call.hidden * call.kind.size % 16 == 0
    slower = 1.0 if aligned else UNALIGNED_PRODUCT
    product = _scale_product(rates, call.kind) * slower
    entering, recurrent = call.count_operations(call.hidden)
    device, single = product * entering, True
    for backward in (False, True)[: 1 + call.trains]:
        device += rates.torch_latency * (TORCH_CALL[backward] + TORCH_CELL[backward] * call.cells)
        if _is_small(call, backward):
            device += rates.torch_small * call.steps * call.cells * _time_small_step(call, backward)
        else:
            single = False
            device += call.steps * _time_step(call, rates, BACKWARD if backward else FORWARD, product)
    if call.trains:
        device += product * (2 * entering + recurrent)
    share = (SMALL_HOST if single else 1.0) * (1.0 if call.trains else FORWARD_TORCH_HOST)
    host = share * rates.torch_host * (1 + CELL_HOST * (call.cells - 1))
    if not single:
        steps = rates.torch_host_step * call.steps * call.cells
        host += steps if call.trains else FORWARD_TORCH_HOST * steps
    host += RAGGED_HOST if call.ragged else 0.0
    return Times(max(host, device), device)


def _is_small(call: Call, backward: bool) -> bool:
    """Whether torch asks for the single launch, and cuDNN has one: not in bf16, nor for ragged batches."""
    most = (BACKWARD_SMALL if backward else FORWARD_SMALL)[call.form <= Form.RELU]
    return call.kind is not ElementKind.BF16 and not call.ragged and call.hidden <= most


def _time_small_step(call: Call, backward: bool) -> float:
    terms = SMALL_BACKWARD if backward else SMALL_FORWARD
    weights = call.form.gates * call.hidden**2
    return (
        terms.step
        + terms.weights * weights * call.kind.size / 1e3
        + terms.operations * 2e-6 * call.batch * weights
    )


def _time_step(call: Call, rates: Rates, terms: StepTerms, product: float) -> float:
    """Return the microseconds of a step of all cells."""
    aligned = call.hidden * call.kind.size % 16 == 0
    single = SINGLE if call.kind <= ElementKind.TF32 else 1.0
    row, weights = call.hidden * call.kind.size, call.form.gates * call.hidden**2
    latency = terms.launches * (1.0 if aligned else UNALIGNED) + terms.length * single * row / 1e3
    beside = (1 + NEXT_LAYER * (call.layers - 1)) * (1 + OTHER_DIRECTION * (call.directions - 1))
    traffic = rates.torch_traffic * terms.weights * single * weights * call.kind.size / 1e6
    traffic += terms.operations * product * 2e-6 * call.batch * weights
    return rates.torch_latency * latency * beside + traffic * call.cells


LOOP_LAUNCHES, LOOP_HOST = 12.0, 150.0
"""Kernels per step of the loops in Python, and microseconds of the host in which it launches them."""


def predict_loop(call: Call, rates: Rates) -> Times:
    """Return the times of the backends that launch every operation of every step from Python."""
    steps = call.steps * call.cells * (3 if call.trains else 1)
    device = steps * LOOP_LAUNCHES * rates.launch
    return Times(max(device, steps * LOOP_HOST), device)


def is_faster(
    cell: Cell,
    x: Tensor,
    lengths: Tensor | None,
    carry: Tensor | None,
    trains: bool,
    layers: int = 1,
    directions: int = 1,
) -> bool:
    """Return whether our kernels are predicted to be faster than what else could run this call."""
    from throughtime.recurrence import calibration, native
    from throughtime.recurrence.persistent import find_form, find_kind

    form, kind = find_form(cell), find_kind(x)
    if form is None or kind is None:
        return True  # minGRU and minLSTM take one launch each way, where others take several per step
    steps, batch, inputs = x.shape
    call = Call(
        form, kind, steps, batch, cell.hidden_size, inputs, layers, directions, trains, lengths is not None
    )
    loops = native.BACKEND.refuses(cell, x, lengths, carry) is not None
    device = x.get_device()
    return _compare(call, calibration.find_gpu(device), calibration.get_rates(device), loops)


@functools.lru_cache(maxsize=4096)
def _compare(call: Call, gpu: Gpu, rates: Rates, loops: bool) -> bool:
    return wins(
        predict_ours(call, gpu, rates), predict_loop(call, rates) if loops else predict_torch(call, rates)
    )


def wins(ours: Times | None, others: Times) -> bool:
    """Return whether ours is predicted to be faster both ways, by more than predictions are off."""
    return ours is not None and all(MARGIN * own < other for own, other in zip(ours, others, strict=True))
