"""The fused backend: plain and gated recurrent networks as single differentiable functions."""

from __future__ import annotations

from torch import Tensor

from throughtime.cells.base import Cell, State
from throughtime.cells.elman import RNN
from throughtime.cells.gru import GRU
from throughtime.recurrence.backend import Result
from throughtime.recurrence.fused_elman import Elman
from throughtime.recurrence.fused_gru import ResetAfter, ResetBefore
from throughtime.recurrence.layout import Layout


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
