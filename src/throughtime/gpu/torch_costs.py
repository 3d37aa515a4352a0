"""The time that a call takes on a GPU in torch's kernels, or in a loop in Python.

torch's cuDNN launches several kernels per step, so that each step takes the latency of the launches, and
the host may be slower still. It runs the layers of a stack side by side, each some steps behind the one
below. For small layers, and for some in float16, all steps are one launch; torch decides for which by rules
(in RNN.cpp) that are repeated here. The coefficients were fitted to 227 calls on an H200, with a median error
of a sixth; those of small layers to 15 others, with a standard deviation of 10 % over 10 more.
"""

from __future__ import annotations

from typing import NamedTuple

from throughtime.gpu.costs import CostRates, Gpu, TimedCall, Times, scale_product
from throughtime.gpu.elements import ElementKind
from throughtime.gpu.persistent_plan import Form


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
    weights: float = 0.0  # of each thousand bytes of weights


FORWARD, BACKWARD = StepTerms(3.6, 0.37, 0.06, 1.0, 1.6), StepTerms(4.6, 1.45, 0.11, 1.43, 0.71)
SMALL_FORWARD, SMALL_BACKWARD = SingleTerms(0.216, 0.074, 0.0021), SingleTerms(0.564, 0.109, 0.0056)
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
SINGLE_HOST, CELL_HOST, FORWARD_TORCH_HOST, FORWARD_STEP_HOST = 0.72, 0.39, 0.2, 0.3
"""Shares of the host's time: where all steps are one launch, of every further cell, and of calls and steps
without a backward pass."""
RAGGED_HOST = 7000.0
"""Microseconds in which the host packs a ragged batch: it waits for the lengths and sorts the rows."""
FORWARD_SMALL, BACKWARD_SMALL = {True: 384, False: 192}, {True: 256, False: 128}
"""Maximum number of units for which torch asks cuDNN for a single launch: plain networks, and others."""


def predict_torch(call: TimedCall, gpu: Gpu, rates: CostRates) -> Times:
    """Return the times of torch's kernels, in which layers and directions run side by side."""
    aligned = call.hidden * call.kind.size % 16 == 0
    product = scale_product(rates, call.kind) * (1.0 if aligned else UNALIGNED_PRODUCT)
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


def is_small(call: TimedCall, backward: bool) -> bool:
    """Whether torch asks cuDNN for its launch for small layers, and cuDNN has one: it has none in bf16."""
    most = (BACKWARD_SMALL if backward else FORWARD_SMALL)[call.form <= Form.RELU]
    return call.kind is not ElementKind.BF16 and not call.ragged and call.hidden <= most


def is_static(call: TimedCall, gpu: Gpu) -> bool:
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


def _time_single_step(call: TimedCall, terms: SingleTerms) -> float:
    return terms.step + terms.operations * 2e-6 * call.batch * call.form.gates * call.hidden**2


def _time_small_step(call: TimedCall, terms: SingleTerms) -> float:
    weights = call.form.gates * call.hidden**2 * call.kind.size / 1e3
    over = OVERFLOW * max(0.0, weights - RESIDENT) * -(-call.batch // 16)
    return _time_single_step(call, terms) + terms.weights * weights + over


def _time_step(call: TimedCall, rates: CostRates, terms: StepTerms, product: float) -> float:
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


def predict_loop(call: TimedCall, rates: CostRates) -> Times:
    """Return the times of the backends that launch every operation of every step from Python."""
    steps = call.steps * call.cells * (3 if call.trains else 1)
    device = steps * LOOP_LAUNCHES * rates.launch
    return Times(max(device, steps * LOOP_HOST), device)
