"""The fused backend: plain and gated recurrent networks as single differentiable functions.

Forward keeps the gates. Backward goes through the steps of a GRU in parts whose gates fit the cache. For each
part it first computes the *slopes* of all its steps at once: how the sum of each gate depends on the state
after its step. The loop then only multiplies them by the gradient of that state and passes it on. This leaves
the gradients of all sums, from which the gradient of each weight is one product.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from throughtime.cells.base import Cell, State
from throughtime.recurrence import layout as memory
from throughtime.recurrence.backend import Result, first_order
from throughtime.recurrence.layout import InputGradients, RowLayout, StepBlock

PART = 1024
"""Minimum rows of a part. From 512 to 2,048 makes no difference; all at once cost 5 % at 64 x 64 x 512."""


class Fused:
    """Runs what torch does badly on a CPU, in as few calls per step as the equations allow.

    At every step, torch's own loop computes a product and an addition for the gradient of each weight. Here
    the gradients of all gates are kept, and the gradient of each weight is one product at the end. Padding
    costs nothing: rows are sorted by length, and each step works on those that have not ended.
    """

    name = "fused"

    def refuses(self, cell: Cell, x: Tensor, lengths: Tensor | None, carry: Tensor | None) -> str | None:
        """It knows the plain network with tanh or relu, and the GRU in both forms."""
        if cell.equations == "gru":
            return None
        if cell.equations != "rnn":
            return "it knows the equations of RNN and GRU only"
        if getattr(cell, "activation", "") not in ("tanh", "relu"):
            return "of the activations it knows tanh and relu only"
        return None

    def run(
        self, cell: Cell, x: Tensor, state: State, lengths: Tensor | None, carry: Tensor | None
    ) -> Result:
        """Run all steps in one differentiable function."""
        steps, batch = x.shape[:2]
        layout = RowLayout.dense(steps, batch) if lengths is None else RowLayout.for_lengths(lengths, steps)
        carry = None if carry is None else carry.to(x.dtype)
        w = cell.weights()
        weights = (w["weight_ih"], w["weight_hh"], w["bias"], w.get("bias_hn"))
        equations: Elman | ResetAfter | ResetBefore
        if cell.equations == "rnn":
            equations = Elman(rectified=getattr(cell, "activation", "") == "relu")
        else:
            equations = ResetAfter() if "bias_hn" in w else ResetBefore()
        outputs, last = _Fused.apply(equations, layout, carry, x, state[0], *weights)  # type: ignore[no-untyped-call]
        return Result(outputs, (last,))


BACKEND = Fused()


class _Fused(torch.autograd.Function):
    """All steps of a cell with these equations.

    `equations.forward` fills in the states after all steps and returns what its `backward` needs besides;
    that fills in the gradients of states and inputs, and returns those of weight_hh and bias_hn.
    """

    @staticmethod
    def forward(
        ctx: Any,
        equations: Elman | ResetAfter | ResetBefore,
        layout: RowLayout,
        carry: Tensor | None,
        x: Tensor,
        initial: Tensor,
        *weights: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs [T, B, H] and the last state [B, H]."""
        w = CellWeights(*weights)  # type: ignore[arg-type]
        entering, states = layout.enter(x), layout.states(initial)
        kept = equations.forward(layout, entering, states, w)
        ctx.save_for_backward(entering, states, w.ih, w.hh, *kept)
        ctx.equations, ctx.layout, ctx.carry = equations, layout, carry
        return layout.outputs(states), layout.last(states)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Go from the last step to the first."""
        layout: RowLayout = ctx.layout
        entering, states, weight_ih, weight_hh, *kept = ctx.saved_tensors
        flow = Flow(layout, layout.gradients(*gradients), ctx.carry)
        into_input = InputGradients(layout, entering, weight_ih, ctx.needs_input_grad[3])
        into_weight, into_bias_hn = ctx.equations.backward(flow, into_input, states, weight_hh, *kept)
        x, into_weight_ih, bias = into_input.result()
        initial = layout.initial_gradient(flow.states)
        return None, None, None, x, initial, into_weight_ih, into_weight, bias, into_bias_hn


class Flow:
    """The gradients of all states, which each step passes back from the state after it to the one before."""

    def __init__(self, layout: RowLayout, states: Tensor, carry: Tensor | None) -> None:
        self.layout, self.states = layout, states
        self.before, self.after = layout.split_before(states), layout.split_after(states)
        self._factors = layout.factors(carry)
        # What one step passes back, where `carry` multiplies it before it is added.
        self._apart = memory.scratch((0 if carry is None else layout.shape[1], states.shape[1]), like=states)

    def gradient_room(self, t: int) -> Tensor:
        """Return the tensor to which step t adds the gradient of the state before it."""
        before = self.before[t]
        return before if self._factors[t] is None else self._apart[: len(before)].zero_()

    def apply_carry(self, t: int, room: Tensor) -> None:
        """Multiply what step t has added to its room by `carry`, if there is one."""
        factor = self._factors[t]
        if factor is not None:
            self.before[t].addcmul_(room, factor)

    def parts(self, width: int) -> Iterator[tuple[StepBlock, Tensor]]:
        """Yield the parts of all steps, the last first, each with memory for its slopes: [rows, width]."""
        parts = self.layout.parts(PART)
        buffer = memory.scratch((max(part.extent for part in parts), width), like=self.states)
        for part in reversed(parts):
            yield part, buffer[: part.extent]


class CellWeights(NamedTuple):
    """The weights of a cell; only a GRU that resets after the product has `bias_hn`."""

    ih: Tensor
    hh: Tensor
    bias: Tensor
    bias_hn: Tensor | None


class Elman:
    """h = phi(x_h + W_hh h), where phi is tanh or relu: the slope of either follows from its value."""

    def __init__(self, rectified: bool) -> None:
        self.rectified = rectified

    def forward(
        self, layout: RowLayout, entering: Tensor, states: Tensor, w: CellWeights
    ) -> tuple[Tensor, ...]:
        """One product and one activation per step."""
        sums = torch.addmm(w.bias, entering, w.ih.t())
        weight = w.hh.t().contiguous()
        for a, h, following in zip(
            layout.blocks(sums), layout.split_before(states), layout.split_after(states), strict=True
        ):
            a.addmm_(h, weight)
            if self.rectified:
                torch.clamp_min(a, 0.0, out=following)
            else:
                torch.tanh(a, out=following)
        return ()

    def backward(
        self, flow: Flow, into_input: InputGradients, states: Tensor, weight: Tensor, *kept: Tensor
    ) -> tuple[Tensor, None]:
        """One product per step."""
        layout = flow.layout
        sums = memory.scratch((layout.rows, states.shape[1]), like=states)
        steps = zip(layout.blocks(sums), layout.split_after(self._slopes(states)), flow.after, strict=True)
        for t, (a, slope, after) in reversed(list(enumerate(steps))):
            torch.mul(after, slope, out=a)
            flow.apply_carry(t, flow.gradient_room(t).addmm_(a, weight))
        layout.bury(sums)
        into_input.add(sums)
        return sums.t() @ states[: layout.rows], None

    def _slopes(self, states: Tensor) -> Tensor:
        """d(state) / d(its sum)."""
        if self.rectified:
            return (states > 0).to(states.dtype)
        return torch.addcmul(states.new_ones(()), states, states, value=-1)


class ResetAfter:
    """n = tanh(x_n + r q) with q = W_hn h + b_hn.

    The gates are stored in the order q, r, z, n: the state feeds the first three, the input the last three,
    so that each needs one product.
    """

    def forward(
        self, layout: RowLayout, entering: Tensor, states: Tensor, w: CellWeights
    ) -> tuple[Tensor, ...]:
        """One product per step."""
        assert w.bias_hn is not None
        size = w.hh.shape[1]
        gates = memory.scratch((layout.rows, 4 * size), like=entering)
        torch.addmm(w.bias, entering, w.ih.t(), out=gates[:, size:])
        gates[:, :size] = w.bias_hn
        weight = torch.cat([w.hh[2 * size :].t(), w.hh[: 2 * size].t()], dim=1)  # [H, 3H]: q, r, z
        for q_r_z, q, r_z, r, z, n, h, following in zip(
            layout.blocks(gates[:, : 3 * size]),
            layout.blocks(gates[:, :size]),
            layout.blocks(gates[:, size : 3 * size]),
            layout.blocks(gates[:, size : 2 * size]),
            layout.blocks(gates[:, 2 * size : 3 * size]),
            layout.blocks(gates[:, 3 * size :]),
            layout.split_before(states),
            layout.split_after(states),
            strict=True,
        ):
            q_r_z.addmm_(h, weight)
            r_z.sigmoid_()
            n.addcmul_(r, q).tanh_()
            torch.lerp(n, h, z, out=following)
        return gates, weight

    def backward(
        self, flow: Flow, into_input: InputGradients, states: Tensor, weight: Tensor, *kept: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One product per step."""
        gates, q_r_z = kept
        layout, size, backwards = flow.layout, weight.shape[1], q_r_z.t()
        spread, z = layout.split_after(flow.states[:, None]), layout.blocks(gates[:, 2 * size : 3 * size])
        into_weight, into_bias = torch.zeros_like(weight), weight.new_zeros(size)
        for part, slopes in flow.parts(4 * size):
            h = states[part.rows]
            find_slopes_after(gates[part.rows], h, slopes)
            all_sums = layout.blocks(slopes.view(-1, 4, size), part)
            fed_sums = layout.blocks(slopes[:, : 3 * size], part)
            for at, t in part.backwards():
                all_sums[at].mul_(spread[t])
                into = flow.gradient_room(t).addmm_(fed_sums[at], backwards).addcmul_(flow.after[t], z[t])
                flow.apply_carry(t, into)
            layout.bury(slopes, part.rows.start)
            into_input.add(slopes[:, size:], part.rows.start)
            into_weight[: 2 * size].addmm_(slopes[:, size : 3 * size].t(), h)
            into_weight[2 * size :].addmm_(slopes[:, :size].t(), h)
            into_bias += slopes[:, :size].sum(0)
        return into_weight, into_bias


class ResetBefore:
    """n = tanh(x_n + W_hn p) with p = r h. The gates are stored in the order r, z, n."""

    def forward(
        self, layout: RowLayout, entering: Tensor, states: Tensor, w: CellWeights
    ) -> tuple[Tensor, ...]:
        """Two products per step."""
        size = w.hh.shape[1]
        gates = memory.scratch((layout.rows, 3 * size), like=entering)
        torch.addmm(w.bias, entering, w.ih.t(), out=gates)
        products = layout.bury(memory.scratch((layout.rows, size), like=entering))
        to_r_z, to_n = w.hh[: 2 * size].t().contiguous(), w.hh[2 * size :].t().contiguous()
        for r_z, r, z, n, p, h, following in zip(
            layout.blocks(gates[:, : 2 * size]),
            layout.blocks(gates[:, :size]),
            layout.blocks(gates[:, size : 2 * size]),
            layout.blocks(gates[:, 2 * size :]),
            layout.blocks(products),
            layout.split_before(states),
            layout.split_after(states),
            strict=True,
        ):
            r_z.addmm_(h, to_r_z).sigmoid_()
            torch.mul(r, h, out=p)
            n.addmm_(p, to_n).tanh_()
            torch.lerp(n, h, z, out=following)
        return gates, products

    def backward(
        self, flow: Flow, into_input: InputGradients, states: Tensor, weight: Tensor, *kept: Tensor
    ) -> tuple[Tensor, None]:
        """Two products per step."""
        gates, products = kept
        layout, size = flow.layout, weight.shape[1]
        from_r_z, from_n = weight[: 2 * size], weight[2 * size :]
        spread = layout.split_after(flow.states[:, None])
        r, z = layout.blocks(gates[:, :size]), layout.blocks(gates[:, size : 2 * size])
        into_weight, room = torch.zeros_like(weight), memory.scratch((layout.shape[1], size), like=gates)
        for part, slopes in flow.parts(3 * size):
            h, p = states[part.rows], products[part.rows]
            _slopes_before(gates[part.rows], p, h, slopes)
            z_n_sums = layout.blocks(slopes.view(-1, 3, size)[:, 1:], part)
            r_z_sums = layout.blocks(slopes[:, : 2 * size], part)
            r_sums, n_sums = layout.blocks(slopes[:, :size], part), layout.blocks(slopes[:, 2 * size :], part)
            for at, t in part.backwards():
                z_n_sums[at].mul_(spread[t])
                into_p = torch.mm(n_sums[at], from_n, out=room[: layout.living[t]])
                r_sums[at].mul_(into_p)
                into = flow.gradient_room(t).addmm_(r_z_sums[at], from_r_z)
                flow.apply_carry(t, into.addcmul_(into_p, r[t]).addcmul_(flow.after[t], z[t]))
            layout.bury(slopes, part.rows.start)
            into_input.add(slopes, part.rows.start)
            into_weight[: 2 * size].addmm_(slopes[:, : 2 * size].t(), h)
            into_weight[2 * size :].addmm_(slopes[:, 2 * size :].t(), p)
        return into_weight, None


def find_slopes_after(gates: Tensor, h: Tensor, slopes: Tensor) -> None:
    """Write d(sum of each gate) / d(state after the step), for q, r, z, n, into `slopes` [..., 4H]."""
    q, r, z, n = gates.chunk(4, dim=-1)
    to_q, to_r, to_z, to_n = slopes.chunk(4, dim=-1)
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
