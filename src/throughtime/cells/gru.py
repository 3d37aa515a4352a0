"""The gated recurrent unit, in both published forms."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from throughtime.cells.base import Cell, GraphState, Ops, State
from throughtime.cells.graph import GraphOperator
from throughtime.errors import unknown

RESETS = ("after", "before")


class GRU(Cell, equations="gru"):
    r"""The gated recurrent unit.

    .. math::
        r_t &= \sigma(W_{ir} x_t + b_r + W_{hr} h_{t-1}) \\
        z_t &= \sigma(W_{iz} x_t + b_z + W_{hz} h_{t-1}) \\
        n_t &= \tanh(W_{in} x_t + b_n + r_t (W_{hn} h_{t-1} + b_{hn})) \quad \text{reset after the product} \\
        n_t &= \tanh(W_{in} x_t + b_n + W_{hn} (r_t h_{t-1})) \quad \text{reset before it} \\
        h_t &= (1 - z_t) n_t + z_t h_{t-1}

    With r=1 and z=0 it is the plain network, with r=0 and z=0 a multilayer perceptron; z=1 copies the state.
    `reset="after"` is torch's form; "before" has no b_hn.
    """

    gates = ("r", "z", "n")
    activations = (("r", "z"), ("n",))
    keeping_gate = "z"

    def __init__(
        self, input_size: int, hidden_size: int, reset: str = "after", *, initial: str = "zero"
    ) -> None:
        super().__init__(input_size, hidden_size, initial=initial)
        if reset not in RESETS:
            raise unknown("reset", reset, RESETS)
        self.reset = reset
        self.add_weights()
        if reset == "after":
            self.bias_hn = nn.Parameter(torch.empty(hidden_size))
        self.reset_parameters()

    def step(self, projected: Tensor, state: State) -> State:
        """Compute the gates, the candidate, and its mixture with the old state."""
        (h,) = state
        w = self.weights()
        size = self.hidden_size
        x_rz, x_n = projected[:, : 2 * size], projected[:, 2 * size :]
        w_rz, w_n = w["weight_hh"][: 2 * size], w["weight_hh"][2 * size :]
        r, z = torch.sigmoid(x_rz + linear(h, w_rz)).chunk(2, dim=-1)
        if self.reset == "after":
            n = torch.tanh(x_n + r * linear(h, w_n, w["bias_hn"]))
        else:
            n = torch.tanh(x_n + linear(r * h, w_n))
        return ((1 - z) * n + z * h,)

    def graph_step(self, ops: Ops, projected: str, state: GraphState) -> GraphState:
        """Do the same in a graph, with one product fewer: n + z (h - n)."""
        (h,), size, w = state, self.hidden_size, self.weights()
        both = 2 * size
        x_rz, x_n = ops.slice(projected, 0, both), ops.slice(projected, both, 3 * size)
        if self.reset == "after":
            bias = torch.cat([w["bias_hn"].new_zeros(both), w["bias_hn"]])
            product = ops.linear(h, w["weight_hh"], bias)
            h_rz, h_n = ops.slice(product, 0, both), ops.slice(product, both, 3 * size)
            r, z = ops.split(ops.op("Sigmoid", ops.op("Add", x_rz, h_rz)), 2)
            inside = ops.op("Mul", r, h_n)
        else:
            h_rz = ops.linear(h, w["weight_hh"][:both])
            r, z = ops.split(ops.op("Sigmoid", ops.op("Add", x_rz, h_rz)), 2)
            inside = ops.linear(ops.op("Mul", r, h), w["weight_hh"][both:])
        n = ops.op("Tanh", ops.op("Add", x_n, inside))
        return (ops.op("Add", n, ops.op("Mul", z, ops.op("Sub", h, n))),)

    def graph_operator(self) -> GraphOperator:
        """ONNX's GRU."""
        return GraphOperator("GRU", ("z", "r", "n"), {"linear_before_reset": int(self.reset == "after")})


gru_before = partial(GRU, reset="before")
