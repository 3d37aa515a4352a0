"""The gated recurrent unit, in both published forms."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from throughtime.cells.base import Cell, State
from throughtime.errors import unknown

RESETS = ("after", "before")


class GRU(Cell):
    r"""The gated recurrent unit.

    .. math::
        r_t &= \sigma(W_{ir} x_t + b_r + W_{hr} h_{t-1}) \\
        z_t &= \sigma(W_{iz} x_t + b_z + W_{hz} h_{t-1}) \\
        n_t &= \tanh(W_{in} x_t + b_n + r_t (W_{hn} h_{t-1} + b_{hn})) \quad \text{reset after the product} \\
        n_t &= \tanh(W_{in} x_t + b_n + W_{hn} (r_t h_{t-1})) \quad \text{reset before it} \\
        h_t &= (1 - z_t) n_t + z_t h_{t-1}

    r=1 and z=0 make it the plain network, r=0 and z=0 a multilayer perceptron, z=1 copies the state. "after"
    is torch's form; the notes use both, "after" with b_hn = 0.
    """

    activations = (("r", "z"), ("n",))
    keeping_gate = "z"

    def __init__(
        self, input_size: int, hidden_size: int, reset: str = "after", *, initial: str = "zero"
    ) -> None:
        super().__init__(input_size, hidden_size, initial=initial)
        if reset not in RESETS:
            raise unknown("reset", reset, RESETS)
        self.reset = reset
        self.weight_ih = nn.Parameter(torch.empty(3 * hidden_size, input_size))  # r, z, n
        self.weight_hh = nn.Parameter(torch.empty(3 * hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.empty(3 * hidden_size))
        if reset == "after":
            self.bias_hn = nn.Parameter(torch.empty(hidden_size))
        self.reset_parameters()

    def project(self, x: Tensor) -> Tensor:
        """W_i x + b, for r, z and n."""
        w = self.weights()
        return linear(x, w["weight_ih"], w["bias"])

    def step(self, projected: Tensor, state: State) -> State:
        """The gates, the candidate, and the mixture of it with the old state."""
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
