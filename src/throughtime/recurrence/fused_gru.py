"""The gated recurrent unit as one differentiable function: few calls a step, one product for each weight.

Forward keeps the gates. Backward goes through the steps in parts whose gates fit the cache. Of each part it
first forms, for all its steps at once, the *slopes*: how each gate's sum depends on the state that its step
gives. The loop then only multiplies them by that state's gradient and passes it on; what it leaves behind
are the gradients of all sums, and each weight takes its share of them in one product.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from throughtime.recurrence import layout as memory
from throughtime.recurrence.backend import first_order
from throughtime.recurrence.layout import InputGradients, Layout

PART = 1024
"""Rows a part, at least. From 512 to 2,048 makes no difference; all at once cost 5 % at 64 x 64 x 512."""


class ResetAfter(torch.autograd.Function):
    """n = tanh(x_n + r q) with q = W_hn h + b_hn.

    The gates lie in the order q, r, z, n: the state feeds the first three, the input the last three, each of
    them one block for one product.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        initial: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias: Tensor,
        bias_hn: Tensor,
        layout: Layout,
        carry: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """The outputs [T, B, H] and the last state [B, H]."""
        size = weight_hh.shape[1]
        entering = layout.enter(x)
        states = layout.states(initial)
        gates = memory.scratch((layout.rows, 4 * size), like=x)
        torch.addmm(bias, entering, weight_ih.t(), out=gates[:, size:])
        gates[:, :size] = bias_hn
        weight = torch.cat([weight_hh[2 * size :].t(), weight_hh[: 2 * size].t()], dim=1)  # [H, 3H]: q, r, z
        for q_r_z, q, r_z, r, z, n, h, following in zip(
            layout.blocks(gates[:, : 3 * size]),
            layout.blocks(gates[:, :size]),
            layout.blocks(gates[:, size : 3 * size]),
            layout.blocks(gates[:, size : 2 * size]),
            layout.blocks(gates[:, 2 * size : 3 * size]),
            layout.blocks(gates[:, 3 * size :]),
            layout.entered(states),
            layout.left(states),
            strict=True,
        ):
            q_r_z.addmm_(h, weight)
            r_z.sigmoid_()
            n.addcmul_(r, q).tanh_()
            torch.lerp(n, h, z, out=following)
        ctx.save_for_backward(entering, gates, states, weight_ih, weight)
        ctx.layout, ctx.carry = layout, carry
        return layout.outputs(states), layout.last(states)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """From the last part to the first, and in each from the last step to the first."""
        layout: Layout = ctx.layout
        entering, gates, states, weight_ih, weight = ctx.saved_tensors
        size, backwards = weight.shape[0], weight.t()
        flowing = layout.gradients(*gradients)
        apart = layout.apart(flowing, ctx.carry)
        before, after, spread = layout.entered(flowing), layout.left(flowing), layout.left(flowing[:, None])
        kept, factors = layout.blocks(gates[:, 2 * size : 3 * size]), layout.factors(ctx.carry)
        into_input = InputGradients(layout, entering, weight_ih, ctx.needs_input_grad[0])
        into_weight, into_bias = weight.new_zeros(3 * size, size), weight.new_zeros(size)
        parts = layout.parts(PART)
        buffer = memory.scratch((max(part.extent for part in parts), 4 * size), like=gates)
        for part in reversed(parts):
            h, slopes = states[part.rows], buffer[: part.extent]
            _slopes_after(gates[part.rows], h, slopes)
            all_sums = layout.blocks(slopes.view(-1, 4, size), part)
            fed_sums = layout.blocks(slopes[:, : 3 * size], part)
            for at, t in part.backwards():
                all_sums[at].mul_(spread[t])
                factor = factors[t]
                into = before[t] if factor is None else apart[: len(before[t])].zero_()
                into.addmm_(fed_sums[at], backwards).addcmul_(after[t], kept[t])
                if factor is not None:
                    before[t].addcmul_(into, factor)
            layout.bury(slopes, part.rows.start)
            into_input.add(slopes[:, size:], part.rows.start)
            into_weight[: 2 * size].addmm_(slopes[:, size : 3 * size].t(), h)
            into_weight[2 * size :].addmm_(slopes[:, :size].t(), h)
            into_bias += slopes[:, :size].sum(0)
        x, weight_ih, bias = into_input.result()
        return x, layout.initial_gradient(flowing), weight_ih, into_weight, bias, into_bias, None, None


class ResetBefore(torch.autograd.Function):
    """n = tanh(x_n + W_hn p) with p = r h. The gates lie in the order r, z, n."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        initial: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias: Tensor,
        layout: Layout,
        carry: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """The outputs [T, B, H] and the last state [B, H]."""
        size = weight_hh.shape[1]
        entering = layout.enter(x)
        states = layout.states(initial)
        gates = memory.scratch((layout.rows, 3 * size), like=x)
        torch.addmm(bias, entering, weight_ih.t(), out=gates)
        products = layout.bury(memory.scratch((layout.rows, size), like=x))
        to_r_z, to_n = weight_hh[: 2 * size].t().contiguous(), weight_hh[2 * size :].t().contiguous()
        for r_z, r, z, n, p, h, following in zip(
            layout.blocks(gates[:, : 2 * size]),
            layout.blocks(gates[:, :size]),
            layout.blocks(gates[:, size : 2 * size]),
            layout.blocks(gates[:, 2 * size :]),
            layout.blocks(products),
            layout.entered(states),
            layout.left(states),
            strict=True,
        ):
            r_z.addmm_(h, to_r_z).sigmoid_()
            torch.mul(r, h, out=p)
            n.addmm_(p, to_n).tanh_()
            torch.lerp(n, h, z, out=following)
        ctx.save_for_backward(entering, gates, products, states, weight_ih, weight_hh)
        ctx.layout, ctx.carry = layout, carry
        return layout.outputs(states), layout.last(states)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """From the last part to the first, and in each from the last step to the first."""
        layout: Layout = ctx.layout
        entering, gates, products, states, weight_ih, weight_hh = ctx.saved_tensors
        size = weight_hh.shape[1]
        from_r_z, from_n = weight_hh[: 2 * size], weight_hh[2 * size :]
        flowing = layout.gradients(*gradients)
        apart = layout.apart(flowing, ctx.carry)
        before, after, spread = layout.entered(flowing), layout.left(flowing), layout.left(flowing[:, None])
        r, z = layout.blocks(gates[:, :size]), layout.blocks(gates[:, size : 2 * size])
        factors = layout.factors(ctx.carry)
        into_input = InputGradients(layout, entering, weight_ih, ctx.needs_input_grad[0])
        into_weight = torch.zeros_like(weight_hh)
        into_products = [memory.scratch((layout.shape[1], size), like=gates)] * len(layout.living)
        if layout.order is not None:
            into_products = [room[:count] for room, count in zip(into_products, layout.living, strict=True)]
        parts = layout.parts(PART)
        buffer = memory.scratch((max(part.extent for part in parts), 3 * size), like=gates)
        for part in reversed(parts):
            h, p, slopes = states[part.rows], products[part.rows], buffer[: part.extent]
            _slopes_before(gates[part.rows], p, h, slopes)
            z_n_sums = layout.blocks(slopes.view(-1, 3, size)[:, 1:], part)
            r_z_sums = layout.blocks(slopes[:, : 2 * size], part)
            r_sums, n_sums = layout.blocks(slopes[:, :size], part), layout.blocks(slopes[:, 2 * size :], part)
            for at, t in part.backwards():
                z_n_sums[at].mul_(spread[t])
                into_p = torch.mm(n_sums[at], from_n, out=into_products[t])
                r_sums[at].mul_(into_p)
                factor = factors[t]
                into = before[t] if factor is None else apart[: len(before[t])].zero_()
                into.addmm_(r_z_sums[at], from_r_z).addcmul_(into_p, r[t]).addcmul_(after[t], z[t])
                if factor is not None:
                    before[t].addcmul_(into, factor)
            layout.bury(slopes, part.rows.start)
            into_input.add(slopes, part.rows.start)
            into_weight[: 2 * size].addmm_(slopes[:, : 2 * size].t(), h)
            into_weight[2 * size :].addmm_(slopes[:, 2 * size :].t(), p)
        x, weight_ih, bias = into_input.result()
        return x, layout.initial_gradient(flowing), weight_ih, into_weight, bias, None, None


def _slopes_after(gates: Tensor, h: Tensor, slopes: Tensor) -> None:
    """d(sum of each gate) / d(state after the step), for q, r, z, n, into `slopes` [rows, 4H]."""
    q, r, z, n = gates.chunk(4, dim=1)
    to_q, to_r, to_z, to_n = slopes.chunk(4, dim=1)
    _slopes_of_mixture(z, n, h, to_z, to_n)
    torch.mul(to_n, r, out=to_q)
    torch.addcmul(q, q, r, value=-1, out=to_r).mul_(to_q)  # q (1 - r) r (1 - z) (1 - n^2)


def _slopes_before(gates: Tensor, p: Tensor, h: Tensor, slopes: Tensor) -> None:
    """The same for z and n, and for r d(its sum) / d(r h), into `slopes` [rows, 3H]."""
    r, z, n = gates.chunk(3, dim=1)
    to_r, to_z, to_n = slopes.chunk(3, dim=1)
    _slopes_of_mixture(z, n, h, to_z, to_n)
    torch.addcmul(p, p, r, value=-1, out=to_r)  # h r (1 - r)


def _slopes_of_mixture(z: Tensor, n: Tensor, h: Tensor, to_z: Tensor, to_n: Tensor) -> None:
    """Of h' = (1 - z) n + z h: (h - n) z (1 - z) into `to_z`, (1 - z) (1 - n^2) into `to_n`."""
    torch.sub(h, n, out=to_z).mul_(z)
    to_z.addcmul_(to_z, z, value=-1)
    torch.addcmul(n.new_ones(()), n, n, value=-1, out=to_n)
    to_n.addcmul_(to_n, z, value=-1)
