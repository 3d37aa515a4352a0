"""A persistent recurrence as one differentiable function: products in the large around two launches."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from throughtime.recurrence import costs
from throughtime.recurrence.first_order import first_order
from throughtime.recurrence.kernels import driver
from throughtime.recurrence.persistent_plan import Form, Kind, Plan, Task, best

POINTER = ctypes.c_void_p
FILES = ("primitives.cuh", "elements.cuh", "product.cuh")
FORWARD = "projected weight weight_n bias states memory memories extra last last_memory lengths".split()
BACKWARD = (
    "gates states memory memories extra weight weight_n outputs last last_memory sums initial initial_memory "
    "lengths carry".split()
)


class _Forward(ctypes.Structure):
    _fields_ = [(name, ctypes.c_longlong) for name in ("steps", "batch", "pause", "keeps")] + [
        (name, POINTER) for name in FORWARD
    ]


class _Backward(ctypes.Structure):
    _fields_ = [(name, ctypes.c_longlong) for name in ("steps", "batch", "pause")] + [
        (name, POINTER) for name in BACKWARD
    ]


class Settings(NamedTuple):
    """All that is no tensor."""

    form: Form
    kind: Kind
    size: int  # hidden units
    device: int
    keeps: bool = True  # what a backward pass needs; the function cannot ask whether one will follow
    plans: tuple[Plan, Plan] | None = None  # forward and backward, in place of the best known

    def launch(self, batch: int, arguments: _Forward | _Backward) -> None:
        """Run the kernel these arguments are for."""
        kernel, blocks, arguments.pause = _prepared(self, batch, isinstance(arguments, _Backward))
        kernel(blocks, arguments)


@functools.cache
def _prepared(settings: Settings, batch: int, backward: bool) -> tuple[driver.Kernel, int, int]:
    """The kernel for these settings, how many blocks it wants, and how long they pause."""
    task = Task(settings.form, settings.kind, widened(settings.size), batch, backward)
    if settings.plans is not None:
        plan: Plan | None = settings.plans[backward]
    else:
        plan = costs.plan(settings.device, task) or best(task, *driver.limits(settings.device))
    assert plan is not None
    name = "backward" if backward else "forward"
    files, constants = (*FILES, f"{name}.cu"), plan.constants(task)
    kernel = driver.build(name, files, constants, settings.device, together=True)
    return kernel, plan.blocks(task), plan.pause


class Recurrence(torch.autograd.Function):
    """RNN, GRU or LSTM over all steps. Units are padded to a multiple of 8 with zeros."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias: Tensor,
        bias_hn: Tensor | None,
        initial: Tensor,
        initial_memory: Tensor | None,
        lengths: Tensor | None,
        carry: Tensor | None,
        settings: Settings,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The outputs [T, B, H], the last state [B, H] and an LSTM's last memory."""
        form, size, width = settings.form, settings.size, widened(settings.size)
        steps, batch = x.shape[:2]
        inputs = widened(x.shape[2])  # rows that begin on no such boundary are multiplied at half the speed
        rows = _wide(x.reshape(steps * batch, -1), inputs)
        into_gates = _by_gate(weight_ih, size, width, inputs)
        with _precision(settings.kind):
            projected = torch.addmm(_by_gate(bias[:, None], size, width, 1)[:, 0], rows, into_gates.t())
        recurrent = _by_gate(weight_hh, size, width, width)
        states = _void(x, steps + 1, batch, width)
        states[0] = _wide(initial, width)
        memory = None if initial_memory is None else _wide(initial_memory, width)
        memories = x.new_empty(steps, batch, width) if settings.keeps and form is Form.LSTM else None
        extra = None
        if form is Form.GRU_BEFORE:
            extra = _void(x, steps, batch, width)
        elif form is Form.GRU_AFTER and settings.keeps:
            extra = x.new_empty(steps, batch, width)
        last = x.new_empty(batch, width)
        last_memory = torch.empty_like(last) if form is Form.LSTM else None
        shifted = None if bias_hn is None else _wide(bias_hn, width)
        second = recurrent[2 * width :] if form is Form.GRU_BEFORE else None
        tensors = (projected, recurrent, second, shifted, states, memory, memories, extra, last, last_memory)
        numbers = (steps, batch, 0, settings.keeps)
        settings.launch(batch, _Forward(*numbers, *map(_address, (*tensors, lengths))))
        ctx.save_for_backward(
            rows, into_gates, recurrent, projected, states, memory, memories, extra, lengths, carry
        )
        ctx.settings, ctx.inputs = settings, x.shape[2]
        ctx.set_materialize_grads(False)
        return (
            states[1:, :, :size].contiguous(),
            last[:, :size].contiguous(),
            None if last_memory is None else last_memory[:, :size].contiguous(),
        )

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """One launch for the gradients of all sums; each weight takes its share of them in one product."""
        settings: Settings = ctx.settings
        rows, into_gates, recurrent, gates, states, memory, memories, extra, lengths, carry = (
            ctx.saved_tensors
        )
        form, size = settings.form, settings.size
        (batch, width), steps = states.shape[1:], len(states) - 1
        outputs, last, last_memory = (None if part is None else _wide(part, width) for part in gradients)
        outputs = states.new_zeros(steps, batch, width) if outputs is None else outputs
        sums = _void(states, steps, batch, form.slots * width)
        initial = states.new_empty(batch, width)
        initial_memory = torch.empty_like(initial) if form is Form.LSTM else None
        weight, second = _backwards(recurrent, form, width)
        tensors = (gates, states, memory, memories, extra, weight, second)
        into = (outputs, last, last_memory, sums, initial, initial_memory, lengths, carry)
        settings.launch(batch, _Backward(steps, batch, 0, *map(_address, (*tensors, *into))))
        flat = sums.view(steps * batch, -1)
        fed = flat[:, width:] if form is Form.GRU_AFTER else flat
        before = states[:-1].reshape(steps * batch, width)
        with _precision(settings.kind):
            into_x = fed @ into_gates if ctx.needs_input_grad[0] else None
            into_ih = fed.t() @ rows
            if form is Form.GRU_BEFORE:
                product = extra.view(steps * batch, width)
                into_hh = torch.cat([flat[:, : 2 * width].t() @ before, flat[:, 2 * width :].t() @ product])
            else:
                into_hh = flat[:, : form.gates * width].t() @ before
        if form is Form.GRU_AFTER:
            into_hh = into_hh.roll(-width, 0)  # from q, r, z to r, z, n
        return (
            None if into_x is None else into_x[:, : ctx.inputs].unflatten(0, (steps, batch)),
            _cropped(into_ih, size, width)[:, : ctx.inputs],
            _cropped(into_hh, size, width)[:, :size],
            _cropped(fed.sum(0), size, width),
            flat[:, :size].sum(0) if form is Form.GRU_AFTER else None,
            initial[:, :size],
            None if initial_memory is None else initial_memory[:, :size],
            None,
            None,
            None,
        )


def widened(size: int) -> int:
    """So many units that a row of them begins on a boundary of 16 bytes.

    >>> widened(650)
    656
    """
    return -(-size // 8) * 8


def _by_gate(weight: Tensor, size: int, width: int, columns: int) -> Tensor:
    """Each gate's rows, and all columns, padded with zeros: [G * size, C] -> [G * width, columns]."""
    if size == width and weight.shape[1] == columns:
        return _wide(weight, columns)
    gates = weight.unflatten(0, (-1, size))
    wide = weight.new_zeros(len(gates), width, columns)
    wide[:, :size, : weight.shape[1]] = gates
    return wide.flatten(0, 1)


def _cropped(gradient: Tensor, size: int, width: int) -> Tensor:
    """The way back."""
    return gradient if size == width else gradient.unflatten(0, (-1, width))[:, :size].flatten(0, 1)


def _wide(tensor: Tensor, width: int) -> Tensor:
    """The last dimension padded with zeros; where nothing is missing `pad` would copy all the same."""
    missing = width - tensor.shape[-1]
    wide = (pad(tensor, (0, missing)) if missing else tensor).contiguous()
    return wide.clone() if wide.data_ptr() % 16 else wide  # a part of some larger memory may begin anywhere


def _backwards(recurrent: Tensor, form: Form, width: int) -> tuple[Tensor, Tensor | None]:
    """The recurrent weights transposed, in the order in which the kernel leaves the gradients of sums."""
    if form is Form.GRU_AFTER:
        return recurrent.roll(width, 0).t().contiguous(), None
    if form is Form.GRU_BEFORE:
        return recurrent[: 2 * width].t().contiguous(), recurrent[2 * width :].t().contiguous()
    return recurrent.t().contiguous(), None


def _void(like: Tensor, *shape: int) -> Tensor:
    """Memory whose every word says that nothing has been written yet."""
    memory = like.new_empty(shape)
    memory.view(torch.int32).fill_(-1)
    return memory


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


@contextlib.contextmanager
def _precision(kind: Kind) -> Iterator[None]:
    """Multiply in the large as in the recurrence."""
    if kind > Kind.TF32 or not torch.cuda.is_available():
        yield
        return
    matmul = torch.backends.cuda.matmul
    before, matmul.allow_tf32 = matmul.allow_tf32, kind is Kind.TF32
    try:
        yield
    finally:
        matmul.allow_tf32 = before
