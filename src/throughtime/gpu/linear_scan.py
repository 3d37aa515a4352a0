"""The linear backend: minGRU and minLSTM on an NVIDIA GPU, in one pass over memory each way."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from throughtime.cells.base import Cell, State
from throughtime.gpu.elements import KINDS, ElementKind
from throughtime.gpu.persistent_plan import LANES
from throughtime.recurrence.backend import Result, first_order

if TYPE_CHECKING:
    from throughtime.gpu import driver

CELLS = {"mingru": 0, "minlstm": 1}
PARTS = (2, 3)
"""Numbers that each cell takes in for one of its state."""
FILES = ("primitives.cuh", "elements.cuh", "linear.cu")
CHANNELS = 64
"""Units of one row that a block takes through time."""
TENSORS = "projected initial outputs last lengths d_outputs d_last d_projected d_initial carry".split()


class _Linear(ctypes.Structure):
    _fields_ = [(name, ctypes.c_longlong) for name in ("steps", "batch", "size")] + [
        (name, ctypes.c_void_p) for name in TENSORS
    ]


class ScanSettings(NamedTuple):
    """All arguments that are not tensors. Pairs are for the forward and the backward pass."""

    cell: int
    kind: ElementKind
    device: int
    warps: tuple[int, int] = (16, 16)
    steps: tuple[int, int] = (8, 8)  # that a warp takes at a time, fewer where shared memory is short
    stages: int = 3  # tiles of all warps' steps that are on their way, likewise

    def launch(self, backward: bool, arguments: _Linear) -> None:
        """Run the kernel, forward or backward."""
        blocks = arguments.batch * -(-arguments.size // CHANNELS)
        _prepare_kernel(self, backward, bool(arguments.carry))(blocks, arguments)


@functools.cache
def _prepare_kernel(settings: ScanSettings, backward: bool, carried: bool) -> driver.LaunchKernel:
    """Return the kernel for these settings, with steps and stages that the GPU's shared memory holds."""
    from throughtime.gpu import driver

    warps, steps = settings.warps[backward], settings.steps[backward]
    sums = (2 * warps * 16 + 2 * 8) * LANES
    line = (PARTS[settings.cell] + 2 * backward) * warps * CHANNELS * settings.kind.size
    room = driver.limits(settings.device)[1] - sums
    while steps > 1 and 2 * steps * line > room:  # with less than two stages, each tile waits for its bytes
        steps //= 2
    stages = max(1, min(settings.stages, room // (steps * line)))
    constants = {
        "CELL": settings.cell,
        "KIND": int(settings.kind),
        "CARRY": int(carried),
        "WARPS": warps,
        "STEPS": steps,
        "STAGES": stages,
        "SHARED_BYTES": sums + stages * steps * line,
    }
    name = "linear_backward" if backward else "linear_forward"
    return driver.build(name, FILES, constants, settings.device)


class LinearScan:
    """minGRU and minLSTM from their projected inputs to their outputs: read once, written once.

    `associative` forms decays and drives as tensors of their own and goes over them several times. Here they
    live in registers only; the backward pass forms them again from the projected inputs.
    """

    name = "linear"

    def refuses(self, cell: Cell, x: Tensor, lengths: Tensor | None, carry: Tensor | None) -> str | None:
        """It needs an NVIDIA GPU, and minGRU or minLSTM."""
        if x.device.type != "cuda":
            return "it runs on NVIDIA GPUs only"
        if cell.equations not in CELLS:
            return "it knows the equations of minGRU and minLSTM only"
        if x.dtype not in KINDS:
            return f"it knows float32, bfloat16 and float16, not {x.dtype}"
        if cell.hidden_size % 2:
            return "it takes units in pairs, and their number is odd"
        if x.shape[1] * cell.hidden_size * PARTS[CELLS[cell.equations]] * x.dtype.itemsize >= 2**31:
            return "one step of the whole batch is larger than 2 GB"
        from throughtime.gpu import driver

        return driver.unavailable(x.get_device())

    def run(
        self, cell: Cell, x: Tensor, state: State, lengths: Tensor | None, carry: Tensor | None
    ) -> Result:
        """Run one product for the input, one launch, and for training one launch back."""
        outputs, last = Scan.apply(  # type: ignore[no-untyped-call]
            cell.project(x),
            state[0].to(torch.float32),
            None if lengths is None else lengths.to(torch.int32),
            None if carry is None else carry.to(torch.float32).contiguous(),
            ScanSettings(CELLS[cell.equations], KINDS[x.dtype], x.get_device()),
        )
        return Result(outputs, (last.to(x.dtype),))


BACKEND = LinearScan()


class Scan(torch.autograd.Function):
    """From projected inputs [T, B, P] and the first state [B, H] to the outputs and the last state."""

    @staticmethod
    def forward(
        ctx: Any,
        projected: Tensor,
        initial: Tensor,
        lengths: Tensor | None,
        carry: Tensor | None,
        settings: ScanSettings,
    ) -> tuple[Tensor, Tensor]:
        """Make one pass over the projected inputs."""
        projected, initial = projected.contiguous(), initial.contiguous()
        steps, (batch, size) = len(projected), initial.shape
        outputs = projected.new_empty(steps, batch, size)
        last = torch.empty_like(initial)
        addresses = _addresses(
            projected=projected, initial=initial, outputs=outputs, last=last, lengths=lengths
        )
        settings.launch(False, _Linear(steps, batch, size, *addresses))
        ctx.save_for_backward(projected, initial, outputs, lengths, carry)
        ctx.settings = settings
        return outputs, last

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        """Make one pass over inputs, outputs and what comes in, from the last step to the first."""
        projected, initial, outputs, lengths, carry = ctx.saved_tensors
        steps, batch, size = outputs.shape
        d_outputs, d_last = (gradient.contiguous() for gradient in gradients)
        d_projected, d_initial = torch.empty_like(projected), torch.empty_like(initial)
        addresses = _addresses(
            projected=projected,
            initial=initial,
            outputs=outputs,
            lengths=lengths,
            d_outputs=d_outputs,
            d_last=d_last,
            d_projected=d_projected,
            d_initial=d_initial,
            carry=carry,
        )
        ctx.settings.launch(True, _Linear(steps, batch, size, *addresses))
        return d_projected, d_initial, None, None, None


def _addresses(**tensors: Tensor | None) -> list[int | None]:
    """Return addresses in the order of the kernel's arguments; None for a tensor that is not given."""
    addresses = {name: tensor.data_ptr() for name, tensor in tensors.items() if tensor is not None}
    return [addresses.get(name) for name in TENSORS]
