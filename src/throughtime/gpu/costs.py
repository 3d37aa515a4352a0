"""The time that a call takes on a GPU in our kernels; `torch_costs` has that of torch's.

A call of ours takes one launch per layer and pass, in which the blocks exchange the state once per step,
and a few large products. Its time follows from the numbers of steps, exchanges, bytes, operations and
launches. The coefficients were fitted on an H200; `CostRates` are the few that differ between machines (see
`calibration`). Only an H200 was measured: on other GPUs the model is an estimate.

A call is predicted twice: *called*, where Python launches every operation and the host may be the slower
one, and *replayed* from a CUDA graph, where only the GPU counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from throughtime.gpu.elements import ElementKind, round_up_units
from throughtime.gpu.persistent_plan import Form, KernelTask
from throughtime.gpu.persistent_spans import arrange
from throughtime.gpu.weight_gradients import count_tiles, is_joined


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
class CostRates:
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


DEFAULTS = CostRates(
    exchange=1.0,
    traffic=1.0,
    product=1.0,
    product32=1.0,
    memory=1.0,
    launch=1.25,
    host=500.0,
    host_layer=100.0,
    torch_latency=1.0,
    torch_traffic=1.0,
    torch_small=1.0,
    torch_host=1160.0,
    torch_host_step=46.0,
)
"""The constants of an H200."""


class TimedCall(NamedTuple):
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
FILL_RATE, WEIGHT_RATE = 1.42e6, 2.88e6
"""Bytes per microsecond of what is filled, copied and summed over all steps, and of copied weights."""
REPLAY, FORWARD_LAUNCHES, GRADIENT_LAUNCHES, BACKWARD_LAUNCHES, JOINED_LAUNCHES = 8.3, 3.9, 3.0, 11.5, 8.0
"""Times of a small kernel that a call takes, and each layer beside its recurrence, bytes and operations; what
a backward pass takes for all gradients that are computed together (`weight_gradients`), and each layer if its
products are not or are among them."""
JOINED_SHARE = {ElementKind.FLOAT: 1.0, ElementKind.TF32: 0.45, ElementKind.BF16: 0.28, ElementKind.F16: 0.28}
"""The speed of the products that are, as a share of the others' speed."""
FORWARD_HOST = 0.2
"""Share of the host's time that a call without a backward pass takes."""


def predict_ours(call: TimedCall, gpu: Gpu, rates: CostRates) -> Times | None:
    """Return the times of our kernels; None if they do not fit."""
    width, device = round_up_units(call.hidden), rates.launch * REPLAY
    for backward in (False, True)[: 1 + call.trains]:
        task = KernelTask(call.form, call.kind, width, call.batch, backward, call.directions)
        arrangement = arrange(task, call.layers, call.steps, gpu.multiprocessors, gpu.shared)
        if arrangement is None:
            return None
        device += arrangement.estimate(task, call.layers, call.steps, rates.exchange, rates.traffic)
        if not backward:
            device += call.layers * rates.launch * FORWARD_LAUNCHES
    entering, recurrent = call.count_operations(width)
    operations = (3 * entering + recurrent) if call.trains else entering
    if call.trains:
        joined = _joins(call, width, gpu)
        each = JOINED_LAUNCHES if joined else BACKWARD_LAUNCHES
        device += rates.launch * (GRADIENT_LAUNCHES + call.layers * each)
        operations += (1 / JOINED_SHARE[call.kind] - 1) * (entering + recurrent) * joined
    device += scale_product(rates, call.kind) * operations + rates.memory * _time_bytes(call, width)
    host = (rates.host + rates.host_layer * (call.cells - 1)) * (1.0 if call.trains else FORWARD_HOST)
    return Times(max(host, device), device)


def _joins(call: TimedCall, width: int, gpu: Gpu) -> bool:
    """Whether the gradients of weights are one launch, going by those of the recurrent ones."""
    tiles = call.directions * count_tiles(call.form.gates * width, width)
    return is_joined(call.kind, call.steps * call.batch, tiles, gpu.multiprocessors)


def _time_bytes(call: TimedCall, width: int) -> float:
    """Return the microseconds of all bytes that are filled and copied, and of weights that products read."""
    rows, padded = call.steps * call.batch, width > call.hidden
    filled = 1 + (2 * call.form.slots if call.trains else 0) + (2 * (1 + call.trains) if padded else 0)
    into, hidden = (operations / (2e-6 * rows) for operations in call.count_operations(width))
    joined = padded or call.directions > 1  # the weights of both directions become one matrix
    weights = into * (1 + 2 * joined) + hidden * 2 * padded
    if call.trains:
        weights += into * (2 + 2 * joined) + hidden * (3 + 2 * padded)
    size = call.kind.size
    return size * (call.cells * rows * width * filled / FILL_RATE + weights / WEIGHT_RATE)


def scale_product(rates: CostRates, kind: ElementKind) -> float:
    """Return the microseconds of a million operations."""
    if kind >= ElementKind.BF16:
        return rates.product / HALF_RATE
    return rates.product32 / (TF32_RATE if kind is ElementKind.TF32 else FLOAT_RATE)
