"""Long short-term memory."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from throughtime.cells.base import Cell, GraphState, Ops, State
from throughtime.cells.graph import GraphOperator


class LSTM(Cell, equations="lstm"):
    r"""Long short-term memory.

    .. math::
        i_t &= \sigma(W_{ii} x_t + b_i + W_{hi} h_{t-1}) \\
        f_t &= \sigma(W_{if} x_t + b_f + W_{hf} h_{t-1}) \\
        g_t &= \tanh(W_{ig} x_t + b_g + W_{hg} h_{t-1}) \\
        o_t &= \sigma(W_{io} x_t + b_o + W_{ho} h_{t-1}) \\
        c_t &= f_t c_{t-1} + i_t g_t \\
        h_t &= o_t \tanh(c_t)

    The state is (h, c). f=1 and i=0 keep the memory c unchanged; o=0 hides it. A `forget_bias` of 1 makes an
    untrained network keep most of its memory.
    """

    gates = ("i", "f", "g", "o")
    activations = (("f",), ("i",), ("g",), ("o",), ("tanh c",))
    keeping_gate = "f"

    def __init__(
        self, input_size: int, hidden_size: int, *, forget_bias: float = 0.0, initial: str = "zero"
    ) -> None:
        super().__init__(input_size, hidden_size, initial=initial, state_sizes=(hidden_size, hidden_size))
        self.add_weights()
        self.reset_parameters()
        with torch.no_grad():
            self.bias[hidden_size : 2 * hidden_size] += forget_bias

    def step(self, projected: Tensor, state: State) -> State:
        """Compute the gates, the memory, and the part of it that is shown."""
        h, c = state
        i, f, g, o = (projected + linear(h, self.weights()["weight_hh"])).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def graph_step(self, ops: Ops, projected: str, state: GraphState) -> GraphState:
        """Do the same in a graph."""
        h, c = state
        c, o = graph_memory(ops, ops.op("Add", projected, ops.linear(h, self.weights()["weight_hh"])), c)
        return ops.op("Mul", o, ops.op("Tanh", c)), c

    def graph_operator(self) -> GraphOperator:
        """ONNX's LSTM."""
        return GraphOperator("LSTM", ("i", "o", "f", "g"))


def next_memory(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Return the next memory of an LSTM and its output gate, from the sums of i, f, g and o."""
    i, f, g, o = gates.chunk(4, dim=-1)
    return torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g), torch.sigmoid(o)


def graph_memory(ops: Ops, gates: str, c: str) -> tuple[str, str]:
    """`next_memory` in a graph."""
    i, f, g, o = ops.split(gates, 4)
    old = ops.op("Mul", ops.op("Sigmoid", f), c)
    addition = ops.op("Mul", ops.op("Sigmoid", i), ops.op("Tanh", g))
    return ops.op("Add", old, addition), ops.op("Sigmoid", o)
