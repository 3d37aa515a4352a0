"""A cell: the leaky integrator with a learned leak."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from throughtime.cells.base import Cell, GraphState, Ops, State


class LeakyCell(Cell):
    r"""A state that leaks, and fills up with what is new.

    .. math:: z_t = \sigma(W_z x_t + b_z), \quad h_t = z_t h_{t-1} + (1 - z_t) \tanh(W x_t + b + U h_{t-1})
    """

    gates = ("z", "candidate")
    activations = (("z",), ("candidate",))
    keeping_gate = "z"

    def __init__(self, input_size: int, hidden_size: int, *, initial: str = "zero") -> None:
        super().__init__(input_size, hidden_size, initial=initial)
        self.weight_ih = nn.Parameter(torch.empty(2 * hidden_size, input_size))  # z, candidate
        self.weight_hh = nn.Parameter(torch.empty(hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.empty(2 * hidden_size))
        self.reset_parameters()

    def step(self, projected: Tensor, state: State) -> State:
        """h = z h + (1 - z) tanh(candidate + U h)."""
        (h,) = state
        leak, candidate = projected.chunk(2, dim=-1)
        z = torch.sigmoid(leak)
        new = torch.tanh(candidate + linear(h, self.weights()["weight_hh"]))
        return (z * h + (1 - z) * new,)

    def graph_step(self, ops: Ops, projected: str, state: GraphState) -> GraphState:
        """The same in a graph, as h~ + z (h - h~)."""
        leak, candidate = ops.split(projected, 2)
        z = ops.op("Sigmoid", leak)
        new = ops.op("Tanh", ops.op("Add", candidate, ops.linear(state[0], self.weights()["weight_hh"])))
        return (ops.op("Add", new, ops.op("Mul", z, ops.op("Sub", state[0], new))),)
