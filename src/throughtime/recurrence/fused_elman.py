"""The plain recurrent network as one differentiable function: two calls a step, one product a weight."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from throughtime.recurrence import layout as memory
from throughtime.recurrence.first_order import first_order
from throughtime.recurrence.layout import InputGradients, Layout


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
