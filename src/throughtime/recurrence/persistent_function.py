"""A persistent recurrence as one differentiable function: products in the large around two launches."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from throughtime.recurrence import costs
from throughtime.recurrence.first_order import first_order
from throughtime.recurrence.kernels import driver
from throughtime.recurrence.moves import Moves
from throughtime.recurrence.persistent_plan import Form, Kind, Plan, Task, best

POINTER = ctypes.c_void_p
FILES = ("primitives.cuh", "elements.cuh", "product.cuh")
FORWARD = "projected weight weight_n bias states memory memories extra last last_memory lengths".split()
BACKWARD = (
    "gates states memory memories extra weight weight_n outputs last last_memory sums initial initial_memory "
    "lengths carry".split()
)
AS_IT_IS = contextlib.nullcontext()


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
        steps, batch, given = x.shape
        inputs = widened(given)  # rows that begin on no such boundary are multiplied at half the speed
        moves = Moves(x.element_size(), settings.device)
        rows = moves.wide(x.reshape(steps * batch, given), given, inputs)
        into_gates = moves.wide_gates(weight_ih, size, width, inputs)
        recurrent = moves.wide_gates(weight_hh, size, width, width)
        shift = moves.wide(bias, size, width)
        shift_n = None if bias_hn is None else moves.wide(bias_hn, size, width)
        one = batch * width * moves.element  # bytes of one state
        states = moves.wide(initial, size, width, x.new_empty(steps + 1, batch, width))
        moves.void(states.data_ptr() + one, steps * one)
        memories = extra = last_memory = None
        if initial_memory is not None:
            memories = x.new_empty(steps + 1 if settings.keeps else 1, batch, width)
            moves.wide(initial_memory, size, width, memories)
            last_memory = x.new_empty(batch, width)
        if form is Form.GRU_BEFORE:
            extra = x.new_empty(steps, batch, width)
            moves.void(extra.data_ptr(), steps * one)
        elif form is Form.GRU_AFTER and settings.keeps:
            extra = x.new_empty(steps, batch, width)
        last = x.new_empty(batch, width)
        moves.launch()
        with _precision(settings.kind):
            projected = linear(rows, into_gates, shift)
        second = recurrent.data_ptr() + 2 * width * width * moves.element if form is Form.GRU_BEFORE else None
        kept = None if memories is None else memories.data_ptr() + one
        places = (projected, recurrent, second, shift_n, states, memories, kept, extra, last, last_memory)
        numbers = (steps, batch, 0, settings.keeps)
        settings.launch(batch, _Forward(*numbers, *map(_address, (*places, lengths))))
        if settings.keeps:
            ctx.save_for_backward(
                rows, into_gates, recurrent, projected, states, memories, extra, lengths, carry
            )
            ctx.settings, ctx.given = settings, given
            ctx.set_materialize_grads(False)
        outputs = states[1:]
        if size < width:
            outputs, last = moves.tight(outputs, size, width), moves.tight(last, size, width)
            last_memory = None if last_memory is None else moves.tight(last_memory, size, width)
            moves.launch()
        return outputs, last, last_memory

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """One launch for the gradients of all sums; each weight takes its share of them in one product."""
        settings: Settings = ctx.settings
        rows, into_gates, recurrent, gates, states, memories, extra, lengths, carry = ctx.saved_tensors
        form, size, steps = settings.form, settings.size, len(states) - 1
        _, batch, width = states.shape
        moves = Moves(states.element_size(), settings.device)
        one = batch * width * moves.element
        outputs, last, last_memory = (
            None if part is None else moves.wide(part, size, width) for part in gradients
        )
        outputs = states.new_zeros(steps, batch, width) if outputs is None else outputs
        slots = form.slots
        sums = states.new_empty(steps * batch, slots * width)
        moves.void(sums.data_ptr(), slots * steps * one)
        weight = _turned(moves, recurrent, form, width)
        initial = states.new_empty(1 if memories is None else 2, batch, width)
        moves.launch()
        second = weight.data_ptr() + 2 * width * width * moves.element if form is Form.GRU_BEFORE else None
        kept, initial_memory = (
            (None, None) if memories is None else (memories.data_ptr() + one, initial.data_ptr() + one)
        )
        tensors = (gates, states, memories, kept, extra, weight, second)
        into = (outputs, last, last_memory, sums, initial, initial_memory, lengths, carry)
        settings.launch(batch, _Backward(steps, batch, 0, *map(_address, (*tensors, *into))))
        return _gradients(ctx, moves, rows, into_gates, states, extra, sums, initial)


def _gradients(
    ctx: Any,
    moves: Moves,
    rows: Tensor,
    into_gates: Tensor,
    states: Tensor,
    product: Tensor | None,
    sums: Tensor,
    initial: Tensor,
) -> tuple[Tensor | None, ...]:
    """What the gradients of all sums say of the input, the weights and the initial state."""
    settings: Settings = ctx.settings
    form, size, width, given, inputs = settings.form, settings.size, states.shape[2], ctx.given, rows.shape[1]
    after = form is Form.GRU_AFTER
    fed = sums.narrow(1, width, 3 * width) if after else sums
    before, turned = states[:-1].view(-1, width), fed.t()
    with _precision(settings.kind):
        into_x = fed.mm(into_gates) if ctx.needs_input_grad[0] else None
        into_ih = turned.mm(rows)
        if form is Form.GRU_BEFORE:
            assert product is not None
            into_hh = sums.new_empty(3 * width, width)
            torch.mm(turned[: 2 * width], before, out=into_hh[: 2 * width])
            torch.mm(turned[2 * width :], product.view(-1, width), out=into_hh[2 * width :])
        else:
            into_hh = (sums.narrow(1, 0, 3 * width).t() if after else turned).mm(before)
    into_bias, into_bias_hn = sums.sum(0), None
    if after:
        into_bias_hn, into_bias = into_bias[:width], into_bias[width:]
    at_first = [initial[i] if wanted else None for i, wanted in enumerate(ctx.needs_input_grad[5:7])]
    if given < inputs:
        into_x = None if into_x is None else moves.tight(into_x, given, inputs)
    if size < width or given < inputs:
        into_ih = moves.tight_gates(into_ih, size, width, given)
    if size < width or after:
        into_hh = moves.tight_gates(into_hh, size, width, size, first=int(after))  # from q, r, z to r, z, n
    if size < width:
        into_bias = moves.tight(into_bias, size, width)
        into_bias_hn = None if into_bias_hn is None else moves.tight(into_bias_hn, size, width)
        at_first = [None if part is None else moves.tight(part, size, width) for part in at_first]
    moves.launch()
    if into_x is not None:
        into_x = into_x.view(-1, states.shape[1], given)
    return into_x, into_ih, into_hh, into_bias, into_bias_hn, *at_first, None, None, None


def widened(size: int) -> int:
    """So many units that a row of them begins on a boundary of 16 bytes.

    >>> widened(650)
    656
    """
    return -(-size // 8) * 8


def _turned(moves: Moves, recurrent: Tensor, form: Form, width: int) -> Tensor:
    """The recurrent weights transposed, in the order in which the kernel leaves the gradients of sums."""
    rows, before_n = len(recurrent), 2 * width
    turned = recurrent.new_empty(rows * width)
    at = turned.data_ptr()
    if form is Form.GRU_AFTER:  # from r, z, n to q, r, z
        moves.turned(at, recurrent, before_n, rows, rows)
        moves.turned(at + width * moves.element, recurrent, 0, before_n, rows)
    elif form is Form.GRU_BEFORE:  # r and z, and n for itself
        moves.turned(at, recurrent, 0, before_n, before_n)
        moves.turned(at + before_n * width * moves.element, recurrent, before_n, rows, width)
    else:
        moves.turned(at, recurrent, 0, rows, rows)
    return turned


def _address(place: Tensor | int | None) -> int | None:
    return place if place is None or isinstance(place, int) else place.data_ptr()


def _precision(kind: Kind) -> contextlib.AbstractContextManager[None]:
    """Multiply in the large as in the recurrence."""
    if kind > Kind.TF32 or torch.backends.cuda.matmul.allow_tf32 == (kind is Kind.TF32):
        return AS_IT_IS
    return _changed(kind is Kind.TF32)


@contextlib.contextmanager
def _changed(allow_tf32: bool) -> Iterator[None]:
    torch.backends.cuda.matmul.allow_tf32 = allow_tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = not allow_tf32
