"""The plain (Elman) recurrent network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import linear

from throughtime.cells.base import Cell, GraphState, Ops, State
from throughtime.cells.graph import GraphOperator
from throughtime.errors import unknown

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}
GRAPH_ACTIVATIONS = {"tanh": "Tanh", "relu": "Relu"}


class RNN(Cell, equations="rnn"):
    r"""The plain recurrent network.

    .. math:: h_t = \phi(W_{ih} x_t + b + W_{hh} h_{t-1})

    :math:`\phi` is tanh unless another activation is given, by name or as a function. The *hidden state* h is
    what one step passes to the next; a *hidden layer* is between the input and the output of one step. Here
    the output of the hidden layer is the hidden state.

    >>> cell = RNN(3, 5)
    >>> [h.shape for h in cell.step(cell.project(torch.ones(1, 2, 3))[0], cell.initial_state(2))]
    [torch.Size([2, 5])]
    """

    gates = ("h",)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        activation: str | Callable[[Tensor], Tensor] = "tanh",
        *,
        initial: str = "zero",
    ) -> None:
        super().__init__(input_size, hidden_size, initial=initial)
        if isinstance(activation, str) and activation not in ACTIVATIONS:
            raise unknown("activation", activation, ACTIVATIONS)
        self.activation = activation if isinstance(activation, str) else "custom"
        self.phi = ACTIVATIONS[activation] if isinstance(activation, str) else activation
        self.add_weights()
        self.reset_parameters()

    def step(self, projected: Tensor, state: State) -> State:
        """h = phi(projected + W_hh h)."""
        (h,) = state
        return (self.phi(projected + linear(h, self.weights()["weight_hh"])),)

    def graph_step(self, ops: Ops, projected: str, state: GraphState) -> GraphState:
        """Do the same in a graph."""
        total = ops.op("Add", projected, ops.linear(state[0], self.weights()["weight_hh"]))
        return (ops.op(GRAPH_ACTIVATIONS[self.activation], total),)

    def graph_operator(self) -> GraphOperator:
        """ONNX's RNN."""
        return GraphOperator("RNN", self.gates, activations=(GRAPH_ACTIVATIONS[self.activation],))

    def graph_problem(self) -> str | None:
        """Only activations given by name have an operator."""
        if self.activation not in GRAPH_ACTIVATIONS:
            return f"has a custom activation; only {' and '.join(GRAPH_ACTIVATIONS)} can be exported"
        return super().graph_problem()


rnn_relu = partial(RNN, activation="relu")
