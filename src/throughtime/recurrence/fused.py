"""The fused backend: plain and gated recurrent networks as single differentiable functions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from throughtime.cells.base import Cell, State
from throughtime.cells.elman import RNN
from throughtime.cells.gru import GRU
from throughtime.recurrence import layout as memory
from throughtime.recurrence.backend import Result, first_order
from throughtime.recurrence.fused_gru import ResetAfter, ResetBefore
from throughtime.recurrence.layout import InputGradients, Layout


class Fused:
    """What torch does badly on a CPU, in as few calls a step as the equations allow.

    torch's own loop forms a product and an addition for each weight's gradient at every step. Here the
    gradients of all gates are kept and each weight's gradient is one product at the end. Padding costs
    nothing: rows are sorted by length, and each step works on those that still live.
    """

    name = "fused"

    def refuses(self, cell: Cell, x: Tensor, lengths: Tensor | None, carry: Tensor | None) -> str | None:
        """It knows the plain network with tanh or relu, and the GRU in both forms."""
        if type(cell) is GRU:
            return None
        if type(cell) is not RNN:
            return "it knows the equations of RNN and GRU only"
        if cell.activation not in ("tanh", "relu"):
            return "of the activations it knows tanh and relu only"
        return None

    def run(
        self, cell: Cell, x: Tensor, state: State, lengths: Tensor | None, carry: Tensor | None
    ) -> Result:
        """All steps in one differentiable function."""
        steps, batch = x.shape[:2]
        layout = Layout.dense(steps, batch) if lengths is None else Layout.ragged(lengths, steps)
        carry = None if carry is None else carry.to(x.dtype)
        w = cell.weights()
        shared = (x, state[0], w["weight_ih"], w["weight_hh"], w["bias"])
        if isinstance(cell, RNN):
            outputs, last = Elman.apply(*shared, cell.activation == "relu", layout, carry)  # type: ignore[no-untyped-call]
        elif "bias_hn" in w:
            outputs, last = ResetAfter.apply(*shared, w["bias_hn"], layout, carry)  # type: ignore[no-untyped-call]
        else:
            outputs, last = ResetBefore.apply(*shared, layout, carry)  # type: ignore[no-untyped-call]
        return Result(outputs, (last,))


class Elman(torch.autograd.Function):
    """h = phi(x_h + W_hh h), where phi is tanh or relu: the slope of either is known from its value."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        initial: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias: Tensor,
        rectified: bool,
        layout: Layout,
        carry: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """The outputs [T, B, H] and the last state [B, H]."""
        entering = layout.enter(x)
        states = layout.states(initial)
        sums = torch.addmm(bias, entering, weight_ih.t())
        weight = weight_hh.t().contiguous()
        for a, h, following in zip(
            layout.blocks(sums), layout.entered(states), layout.left(states), strict=True
        ):
            a.addmm_(h, weight)
            if rectified:
                torch.clamp_min(a, 0.0, out=following)
            else:
                torch.tanh(a, out=following)
        ctx.save_for_backward(entering, states, weight_ih, weight_hh)
        ctx.rectified, ctx.layout, ctx.carry = rectified, layout, carry
        return layout.outputs(states), layout.last(states)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """From the last step to the first; what stays are the gradients of all sums."""
        layout: Layout = ctx.layout
        entering, states, weight_ih, weight_hh = ctx.saved_tensors
        flowing = layout.gradients(*gradients)
        apart = layout.apart(flowing, ctx.carry)
        sums = memory.scratch((layout.rows, states.shape[1]), like=states)
        steps = zip(
            layout.blocks(sums),
            layout.left(_slopes(states, ctx.rectified)),
            layout.entered(flowing),
            layout.left(flowing),
            layout.factors(ctx.carry),
            strict=True,
        )
        for a, slope, before, after, factor in reversed(list(steps)):
            torch.mul(after, slope, out=a)
            if factor is None:
                before.addmm_(a, weight_hh)
            else:
                before.addcmul_(torch.mm(a, weight_hh, out=apart[: len(a)]), factor)
        layout.bury(sums)
        into_input = InputGradients(layout, entering, weight_ih, ctx.needs_input_grad[0])
        into_input.add(sums)
        into_weight = sums.t() @ states[: layout.rows]
        x, weight_ih, bias = into_input.result()
        return x, layout.initial_gradient(flowing), weight_ih, into_weight, bias, None, None, None


def _slopes(states: Tensor, rectified: bool) -> Tensor:
    """d(state) / d(its sum)."""
    if rectified:
        return (states > 0).to(states.dtype)
    return torch.addcmul(states.new_ones(()), states, states, value=-1)
