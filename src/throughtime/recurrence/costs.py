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

MARGIN = 1.1
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
    launch=1.25,
    host=670.0,
    host_layer=200.0,
    torch_latency=1.0,
    torch_traffic=1.0,
    torch_small=1.0,
    torch_host=1160.0,
    torch_host_step=46.0,
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


HALF_RATE, TF32_RATE, FLOAT_RATE = 640.0, 195.0, 50.0
"""Millions of operations per microsecond of the products over all steps."""
MEMORY_RATE = 1.6e6
"""Bytes per microsecond of copies and sums."""
REPLAY, FORWARD_LAUNCHES, BACKWARD_LAUNCHES = 9.2, 3.4, 15.7
"""Times of a small kernel that a call takes, and each layer beside its recurrence, bytes and operations."""
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
        filled = call.steps * call.batch * width * (2 * call.form.slots if backward else 1)
        copied = 2 * call.form.gates * width * width if backward else 0
        if width > call.hidden:
            copied = 2 * copied + call.steps * call.batch * width
        layer += call.directions * rates.memory * size * (filled + copied) / MEMORY_RATE
    entering, recurrent = call.count_operations(width)
    operations = (3 * entering + recurrent) if call.trains else entering
    device = rates.launch * REPLAY + call.layers * layer + _scale_product(rates, call.kind) * operations
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
    single: float  # how many times as long launches and bytes take in float32


class SingleTerms(NamedTuple):
    """Coefficients of a step of cuDNN's that is a part of one launch for all steps."""

    step: float  # microseconds
    operations: float  # of each million


FORWARD, BACKWARD = StepTerms(3.6, 0.37, 0.06, 1.0, 1.6), StepTerms(4.6, 1.45, 0.11, 1.43, 0.71)
SMALL_FORWARD, SMALL_BACKWARD = SingleTerms(0.26, 0.17), SingleTerms(0.68, 0.25)
STATIC_FORWARD, STATIC_BACKWARD = SingleTerms(1.7, 0.011), SingleTerms(3.5, 0.025)
RESIDENT, OVERFLOW = 190.0, 0.025
"""Thousand bytes of weights that a small layer keeps on the chip, and the time of each further thousand, for
every 16 rows."""
TORCH_CALL, TORCH_CELL = (9.2, 5.2), (6.9, 14.9)
"""Microseconds of a call and of each cell, beside its steps: forward, backward."""
UNALIGNED, UNALIGNED_PRODUCT = 2.2, 2.9
"""How many times as long bytes and products take if rows do not begin on a boundary of 16 bytes."""
NEXT_LAYER, OTHER_DIRECTION = 0.66, 0.65
"""Share of a layer's latency that another layer adds, which runs beside it some steps behind, and that the
other direction adds."""
SINGLE_HOST, CELL_HOST, FORWARD_TORCH_HOST, FORWARD_STEP_HOST = 0.95, 0.39, 0.2, 0.3
"""Shares of the host's time: where all steps are one launch, of every further cell, and of calls and steps
without a backward pass."""
RAGGED_HOST = 7000.0
"""Microseconds in which the host packs a ragged batch: it waits for the lengths and sorts the rows."""
FORWARD_SMALL, BACKWARD_SMALL = {True: 384, False: 192}, {True: 256, False: 128}
"""The most units of a plain network, and of others, for which torch asks cuDNN for the single launch."""


def predict_torch(call: Call, gpu: Gpu, rates: Rates) -> Times:
    """Return the times of torch's kernels, in which layers and directions run side by side."""
    aligned = call.hidden * call.kind.size % 16 == 0
    product = _scale_product(rates, call.kind) * (1.0 if aligned else UNALIGNED_PRODUCT)
    entering, recurrent = call.count_operations(call.hidden)
    device, launches_steps = product * entering, False
    for backward in (False, True)[: 1 + call.trains]:
        device += rates.torch_latency * (TORCH_CALL[backward] + TORCH_CELL[backward] * call.cells)
        if is_small(call, backward):
            terms = SMALL_BACKWARD if backward else SMALL_FORWARD
            device += rates.torch_small * call.steps * call.cells * _time_small_step(call, terms)
        elif is_static(call, gpu):
            terms = STATIC_BACKWARD if backward else STATIC_FORWARD
            device += rates.torch_small * call.steps * _time_single_step(call, terms)
        else:
            launches_steps = True
            device += call.steps * _time_step(call, rates, BACKWARD if backward else FORWARD, product)
    if call.trains:
        device += product * (2 * entering + recurrent)
    share = (1.0 if launches_steps else SINGLE_HOST) * (1.0 if call.trains else FORWARD_TORCH_HOST)
    host = share * rates.torch_host * (1 + CELL_HOST * (call.cells - 1))
    if launches_steps:
        steps = rates.torch_host_step * call.steps * call.cells
        host += steps if call.trains else FORWARD_STEP_HOST * steps
    host += RAGGED_HOST if call.ragged else 0.0
    return Times(max(host, device), device)


def is_small(call: Call, backward: bool) -> bool:
    """Whether torch asks cuDNN for its launch for small layers, and cuDNN has one: it has none in bf16."""
    most = (BACKWARD_SMALL if backward else FORWARD_SMALL)[call.form <= Form.RELU]
    return call.kind is not ElementKind.BF16 and not call.ragged and call.hidden <= most


def is_static(call: Call, gpu: Gpu) -> bool:
    """Whether torch asks cuDNN to keep the weights on the chip, which it does in float16 only."""
    plain, few = call.form <= Form.RELU, call.batch <= 128 and call.batch % 8 == 0
    return (
        call.kind is ElementKind.F16
        and not call.ragged
        and call.cells == 1
        and call.hidden <= 1024
        and call.hidden % 128 == call.inputs % 128 == 0
        and (call.form is Form.LSTM or (plain and (call.batch < 96 or call.hidden < 896)))
        and few
        and gpu.multiprocessors >= 98
        and gpu.capability[1] != 6
    )


def _time_single_step(call: Call, terms: SingleTerms) -> float:
    return terms.step + terms.operations * 2e-6 * call.batch * call.form.gates * call.hidden**2


def _time_small_step(call: Call, terms: SingleTerms) -> float:
    over = max(0.0, call.form.gates * call.hidden**2 * call.kind.size / 1e3 - RESIDENT)
    return _time_single_step(call, terms) + OVERFLOW * over * -(-call.batch // 16)


def _time_step(call: Call, rates: Rates, terms: StepTerms, product: float) -> float:
    """Return the microseconds of a step of all cells."""
    slower = 1.0 if call.hidden * call.kind.size % 16 == 0 else UNALIGNED
    single = terms.single if call.kind <= ElementKind.TF32 else 1.0
    row, weights = call.hidden * call.kind.size, call.form.gates * call.hidden**2
    depth = row * (call.form.gates if terms is BACKWARD else 1)
    latency = single * (terms.launches + terms.length * slower * depth / 1e3)
    beside = (1 + NEXT_LAYER * (call.layers - 1)) * (1 + OTHER_DIRECTION * (call.directions - 1))
    traffic = rates.torch_traffic * terms.weights * slower * weights * call.kind.size / 1e6
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
        predict_ours(call, gpu, rates),
        predict_loop(call, rates) if loops else predict_torch(call, gpu, rates),
    )


def wins(ours: Times | None, others: Times) -> bool:
    """Return whether ours is predicted to be faster both ways, by more than predictions are off."""
    return ours is not None and all(MARGIN * own < other for own, other in zip(ours, others, strict=True))
