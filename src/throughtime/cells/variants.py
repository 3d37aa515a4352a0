"""Variants of the LSTM: coupled gates, layer normalisation, projection, and the Mogrifier."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear

from throughtime.cells.base import Cell, GraphState, Ops, State
from throughtime.cells.lstm import LSTM, graph_memory, next_memory
from throughtime.errors import InputError, check_whole


class CoupledLSTM(Cell):
    r"""An LSTM that forgets exactly as much as it takes in, with three quarters of the weights.

    .. math:: i_t = 1 - f_t, \qquad c_t = f_t c_{t-1} + i_t g_t, \qquad h_t = o_t \tanh(c_t)
    """

    gates = ("f", "g", "o")
    activations = LSTM.activations
    keeping_gate = LSTM.keeping_gate

    def __init__(self, input_size: int, hidden_size: int, *, initial: str = "zero") -> None:
        super().__init__(input_size, hidden_size, initial=initial, state_sizes=(hidden_size, hidden_size))
        self.add_weights()
        self.reset_parameters()

    def step(self, projected: Tensor, state: State) -> State:
        """Let one gate divide the memory between old and new."""
        h, c = state
        f, g, o = (projected + linear(h, self.weights()["weight_hh"])).chunk(3, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(-f) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def graph_step(self, ops: Ops, projected: str, state: GraphState) -> GraphState:
        """Do the same in a graph."""
        h, c = state
        f, g, o = ops.split(ops.op("Add", projected, ops.linear(h, self.weights()["weight_hh"])), 3)
        old = ops.op("Mul", ops.op("Sigmoid", f), c)
        addition = ops.op("Mul", ops.op("Sigmoid", ops.op("Neg", f)), ops.op("Tanh", g))
        c = ops.op("Add", old, addition)
        return ops.op("Mul", ops.op("Sigmoid", o), ops.op("Tanh", c)), c


class LayerNormLSTM(Cell):
    r"""An LSTM with layer normalisation of both products and of the memory it shows (Ba et al., 2016).

    .. math::
        (i, f, g, o) &= \mathrm{LN}(W_i x_t) + \mathrm{LN}(W_h h_{t-1}) + b \\
        c_t &= \sigma(f) c_{t-1} + \sigma(i) \tanh(g), \qquad h_t = \sigma(o) \tanh(\mathrm{LN}(c_t))
    """

    gates = LSTM.gates
    activations = LSTM.activations
    keeping_gate = LSTM.keeping_gate

    def __init__(self, input_size: int, hidden_size: int, *, initial: str = "zero") -> None:
        super().__init__(input_size, hidden_size, initial=initial, state_sizes=(hidden_size, hidden_size))
        self.add_weights()
        self.gain_ih = nn.Parameter(torch.empty(4 * hidden_size))
        self.gain_hh = nn.Parameter(torch.empty(4 * hidden_size))
        self.gain_c = nn.Parameter(torch.empty(hidden_size))
        self.bias_c = nn.Parameter(torch.empty(hidden_size))
        self.reset_parameters()
        for gain in (self.gain_ih, self.gain_hh, self.gain_c):
            nn.init.ones_(gain)
        nn.init.zeros_(self.bias_c)

    def project(self, x: Tensor) -> Tensor:
        """LN(W_i x) + b."""
        w = self.weights()
        product = linear(x, w["weight_ih"])
        return layer_norm(product, product.shape[-1:], w["gain_ih"], w["bias"])

    def step(self, projected: Tensor, state: State) -> State:
        """Compute the gates of an LSTM from normalised sums."""
        h, c = state
        w = self.weights()
        product = linear(h, w["weight_hh"])
        c, o = next_memory(projected + layer_norm(product, product.shape[-1:], w["gain_hh"]), c)
        return o * torch.tanh(layer_norm(c, c.shape[-1:], w["gain_c"], w["bias_c"])), c

    def graph_project(self, ops: Ops, x: str) -> str:
        """Do the same in a graph."""
        w = self.weights()
        return ops.layer_norm(ops.linear(x, w["weight_ih"]), w["gain_ih"], w["bias"])

    def graph_step(self, ops: Ops, projected: str, state: GraphState) -> GraphState:
        """Do the same in a graph."""
        h, c = state
        w = self.weights()
        product = ops.layer_norm(ops.linear(h, w["weight_hh"]), w["gain_hh"])
        c, o = graph_memory(ops, ops.op("Add", projected, product), c)
        return ops.op("Mul", o, ops.op("Tanh", ops.layer_norm(c, w["gain_c"], w["bias_c"]))), c


class ProjectedLSTM(Cell, equations="lstm-projected"):
    r"""An LSTM whose output is a smaller projection of its memory (Sak et al., 2014): torch's `proj_size`.

    .. math:: h_t = W_{hr} (o_t \tanh(c_t)) \in \mathbb{R}^P
    """

    gates = LSTM.gates
    activations = LSTM.activations
    keeping_gate = LSTM.keeping_gate

    def __init__(
        self, input_size: int, hidden_size: int, projection_size: int, *, initial: str = "zero"
    ) -> None:
        for name, size in (("hidden_size", hidden_size), ("projection_size", projection_size)):
            check_whole(name, size, 0)
        if not 0 < projection_size < hidden_size:
            raise InputError("projection_size", f"is {projection_size}, expected 1 to less than hidden_size")
        super().__init__(input_size, hidden_size, initial=initial, state_sizes=(projection_size, hidden_size))
        self.add_weights()
        self.weight_hr = nn.Parameter(torch.empty(projection_size, hidden_size))
        self.reset_parameters()

    def step(self, projected: Tensor, state: State) -> State:
        """Take an LSTM step, then project."""
        h, c = state
        w = self.weights()
        c, o = next_memory(projected + linear(h, w["weight_hh"]), c)
        return linear(o * torch.tanh(c), w["weight_hr"]), c

    def graph_step(self, ops: Ops, projected: str, state: GraphState) -> GraphState:
        """Do the same in a graph."""
        h, c = state
        w = self.weights()
        c, o = graph_memory(ops, ops.op("Add", projected, ops.linear(h, w["weight_hh"])), c)
        return ops.linear(ops.op("Mul", o, ops.op("Tanh", c)), w["weight_hr"]), c


def build_half_projected(input_size: int, hidden_size: int, *, initial: str = "zero") -> ProjectedLSTM:
    """Return a projection to half the units, for the choice by name."""
    return ProjectedLSTM(input_size, hidden_size, max(1, hidden_size // 2), initial=initial)


class MogrifierLSTM(Cell):
    r"""An LSTM whose input and state gate each other for some rounds first (Melis et al., 2020).

    .. math::
        x^{(i)} &= 2\sigma(Q^{(i)} h^{(i-1)}) \, x^{(i-2)} \quad \text{for odd } i \\
        h^{(i)} &= 2\sigma(R^{(i)} x^{(i-1)}) \, h^{(i-2)} \quad \text{for even } i

    The input's product depends on the state, so `project` is the identity and a step costs more.
    """

    gates = LSTM.gates
    keeping_gate = LSTM.keeping_gate

    def __init__(self, input_size: int, hidden_size: int, rounds: int = 5, *, initial: str = "zero") -> None:
        super().__init__(input_size, hidden_size, initial=initial, state_sizes=(hidden_size, hidden_size))
        check_whole("rounds", rounds, 0)
        self.rounds = rounds
        # Gates of the rounds may have the width of the input: they cannot be shown with those of the units.
        self.activations = ((),) * rounds + LSTM.activations
        self.add_weights()
        self.weight_q = nn.Parameter(torch.empty((rounds + 1) // 2, input_size, hidden_size))
        self.weight_r = nn.Parameter(torch.empty(rounds // 2, hidden_size, input_size))
        self.reset_parameters()

    def project(self, x: Tensor) -> Tensor:
        """Nothing can be done before the state is known."""
        return x

    def step(self, projected: Tensor, state: State) -> State:
        """Run the rounds, then an LSTM step."""
        x, (h, c) = projected, state
        w = self.weights()
        for number in range(self.rounds):
            if number % 2 == 0:
                x = 2 * torch.sigmoid(linear(h, w["weight_q"][number // 2])) * x
            else:
                h = 2 * torch.sigmoid(linear(x, w["weight_r"][number // 2])) * h
        c, o = next_memory(linear(x, w["weight_ih"], w["bias"]) + linear(h, w["weight_hh"]), c)
        return o * torch.tanh(c), c

    def graph_project(self, ops: Ops, x: str) -> str:
        """Do the same in a graph."""
        return x

    def graph_step(self, ops: Ops, projected: str, state: GraphState) -> GraphState:
        """Do the same in a graph."""
        x, (h, c) = projected, state
        w = self.weights()
        two = ops.constant(2.0)
        for number in range(self.rounds):
            if number % 2 == 0:
                gate = ops.op("Sigmoid", ops.linear(h, w["weight_q"][number // 2]))
                x = ops.op("Mul", ops.op("Mul", two, gate), x)
            else:
                gate = ops.op("Sigmoid", ops.linear(x, w["weight_r"][number // 2]))
                h = ops.op("Mul", ops.op("Mul", two, gate), h)
        product = ops.linear(x, w["weight_ih"], w["bias"])
        c, o = graph_memory(ops, ops.op("Add", product, ops.linear(h, w["weight_hh"])), c)
        return ops.op("Mul", o, ops.op("Tanh", c)), c
