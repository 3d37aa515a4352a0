"""Recurrences that are linear in their state, so that all steps can be taken at once."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from throughtime.cells.base import Cell, State


class LinearCell(Cell):
    r"""A cell whose state obeys :math:`h_t = a_t h_{t-1} + u_t`, with a and u free of the state.

    `step` and the parallel scan both come from `coefficients`, so they cannot disagree.
    """

    @abstractmethod
    def coefficients(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        """decay a in [0, 1] and drive u, for any number of steps: [..., P] -> two of [..., H]."""

    def step(self, projected: Tensor, state: State) -> State:
        """h = a h + u."""
        decay, drive = self.coefficients(projected)
        return (decay * state[0] + drive,)


class MinGRU(LinearCell):
    r"""The minimal gated recurrent unit (Feng et al., 2024): a GRU whose gates see the input only.

    .. math::
        z_t &= \sigma(W_z x_t + b_z) \\
        \tilde h_t &= W_h x_t + b_h \\
        h_t &= (1 - z_t) h_{t-1} + z_t \tilde h_t
    """

    activations = (("1 - z",), ("z",))
    keeping_gate = "1 - z"

    def __init__(self, input_size: int, hidden_size: int, *, initial: str = "zero") -> None:
        super().__init__(input_size, hidden_size, initial=initial)
        self.weight_ih = nn.Parameter(torch.empty(2 * hidden_size, input_size))  # z, candidate
        self.bias = nn.Parameter(torch.empty(2 * hidden_size))
        self.reset_parameters()

    def project(self, x: Tensor) -> Tensor:
        """Gate and candidate before the sigmoid."""
        w = self.weights()
        return linear(x, w["weight_ih"], w["bias"])

    def coefficients(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        """1 - z and z * candidate; 1 - sigmoid(z) as sigmoid(-z), which keeps its precision near 0."""
        z, candidate = projected.chunk(2, dim=-1)
        return torch.sigmoid(-z), torch.sigmoid(z) * candidate


class MinLSTM(LinearCell):
    r"""The minimal LSTM (Feng et al., 2024): forget and input gate see the input only and add up to 1.

    .. math::
        f_t &= \sigma(W_f x_t + b_f), \quad i_t = \sigma(W_i x_t + b_i), \quad \tilde h_t = W_h x_t + b_h \\
        h_t &= \frac{f_t}{f_t + i_t} h_{t-1} + \frac{i_t}{f_t + i_t} \tilde h_t
    """

    activations = (("f",), ("i",))
    keeping_gate = "f"

    def __init__(self, input_size: int, hidden_size: int, *, initial: str = "zero") -> None:
        super().__init__(input_size, hidden_size, initial=initial)
        self.weight_ih = nn.Parameter(torch.empty(3 * hidden_size, input_size))  # f, i, candidate
        self.bias = nn.Parameter(torch.empty(3 * hidden_size))
        self.reset_parameters()

    def project(self, x: Tensor) -> Tensor:
        """Gates and candidate before the sigmoid."""
        w = self.weights()
        return linear(x, w["weight_ih"], w["bias"])

    def coefficients(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        """f/(f+i) as a sigmoid of the difference of log gates, which neither overflows nor divides by 0."""
        f, i, candidate = projected.chunk(3, dim=-1)
        keep = nn.functional.logsigmoid(f) - nn.functional.logsigmoid(i)
        return torch.sigmoid(keep), torch.sigmoid(-keep) * candidate
