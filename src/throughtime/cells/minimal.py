"""Recurrences that are linear in their state, so that all steps can be computed at once."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from throughtime.cells.base import Cell, GraphState, Ops, State


class LinearCell(Cell):
    r"""A cell with :math:`h_t = a_t h_{t-1} + u_t`, where a and u do not depend on the state.

    `step` and the parallel scan both come from `coefficients`, so they cannot disagree.
    """

    @abstractmethod
    def coefficients(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        """Return the decay a in [0, 1] and the drive u, of any number of steps: [..., P] -> two [..., H]."""

    def step(self, projected: Tensor, state: State) -> State:
        """h = a h + u."""
        decay, drive = self.coefficients(projected)
        return (decay * state[0] + drive,)

    def graph_coefficients(self, ops: Ops, projected: str) -> tuple[str, str]:
        """`coefficients` in a graph."""
        raise NotImplementedError

    def graph_step(self, ops: Ops, projected: str, state: GraphState) -> GraphState:
        """Do the same in a graph."""
        decay, drive = self.graph_coefficients(ops, projected)
        return (ops.op("Add", ops.op("Mul", decay, state[0]), drive),)

    def graph_problem(self) -> str | None:
        """Require the coefficients for graphs, too."""
        if not self.is_written_for("graph_coefficients", "coefficients"):
            return "defines `coefficients` for torch only; add `graph_coefficients` to export it"
        return super().graph_problem()


class MinGRU(LinearCell, equations="mingru"):
    r"""The minimal gated recurrent unit (Feng et al., 2024): a GRU whose gates see the input only.

    .. math::
        z_t &= \sigma(W_z x_t + b_z) \\
        \tilde h_t &= W_h x_t + b_h \\
        h_t &= (1 - z_t) h_{t-1} + z_t \tilde h_t
    """

    gates = ("z", "candidate")
    activations = (("1 - z",), ("z",))
    keeping_gate = "1 - z"

    def __init__(self, input_size: int, hidden_size: int, *, initial: str = "zero") -> None:
        super().__init__(input_size, hidden_size, initial=initial)
        self.add_weights(recurrent=False)
        self.reset_parameters()

    def coefficients(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        """1 - z and z * candidate; 1 - sigmoid(z) as sigmoid(-z), which keeps its precision near 0."""
        z, candidate = projected.chunk(2, dim=-1)
        return torch.sigmoid(-z), torch.sigmoid(z) * candidate

    def graph_coefficients(self, ops: Ops, projected: str) -> tuple[str, str]:
        """Do the same in a graph."""
        z, candidate = ops.split(projected, 2)
        decay = ops.op("Sigmoid", ops.op("Neg", z))
        return decay, ops.op("Mul", ops.op("Sigmoid", z), candidate)


class MinLSTM(LinearCell, equations="minlstm"):
    r"""The minimal LSTM (Feng et al., 2024): forget and input gate see the input only and add up to 1.

    .. math::
        f_t &= \sigma(W_f x_t + b_f), \quad i_t = \sigma(W_i x_t + b_i), \quad \tilde h_t = W_h x_t + b_h \\
        h_t &= \frac{f_t}{f_t + i_t} h_{t-1} + \frac{i_t}{f_t + i_t} \tilde h_t
    """

    gates = ("f", "i", "candidate")
    activations = (("f",), ("i",))
    keeping_gate = "f"

    def __init__(self, input_size: int, hidden_size: int, *, initial: str = "zero") -> None:
        super().__init__(input_size, hidden_size, initial=initial)
        self.add_weights(recurrent=False)
        self.reset_parameters()

    def coefficients(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        """f/(f+i) as a sigmoid of the difference of log gates, which neither overflows nor divides by 0."""
        f, i, candidate = projected.chunk(3, dim=-1)
        keep = logsigmoid(f) - logsigmoid(i)
        return torch.sigmoid(keep), torch.sigmoid(-keep) * candidate

    def graph_coefficients(self, ops: Ops, projected: str) -> tuple[str, str]:
        """Do the same in a graph: ln sigmoid(f) - ln sigmoid(i) = softplus(-i) - softplus(-f)."""
        f, i, candidate = ops.split(projected, 3)
        keep = ops.op("Sub", *(ops.op("Softplus", ops.op("Neg", gate)) for gate in (i, f)))
        decay = ops.op("Sigmoid", keep)
        return decay, ops.op("Mul", ops.op("Sigmoid", ops.op("Neg", keep)), candidate)
