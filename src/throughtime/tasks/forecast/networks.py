"""Networks from a window of the past to what is said of the rows that follow."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from throughtime.cells.base import State
from throughtime.layers.dropout import check_probability
from throughtime.layers.stack import Stack


class Window(NamedTuple):
    """What a forecaster sees of B series: their scaled values, and the columns that help.

    In training `values` and `past` hold the future too; what a forecaster takes of it is what it is taught.
    """

    values: Tensor  # [T, B]
    known: Tensor  # [T and the rows to forecast, B, K]
    past: Tensor  # [T, B, P]
    numbers: Tensor  # [B]: which series, -1 for one that training did not see

    def repeated(self, times: int) -> Window:
        """Every series so many times, one copy beside the other."""
        return Window(*(each.repeat_interleave(times, dim=min(1, each.dim() - 1)) for each in self))


class WindowNetwork(nn.Module):
    """A look-back window, flat, through hidden layers to the horizon: without hidden layers it is linear.

    >>> network = WindowNetwork(lookback=4, horizon=2, width=1)
    >>> none = torch.zeros(6, 3, 0)
    >>> network(Window(torch.zeros(4, 3), none, none[:4], torch.zeros(3))).shape
    torch.Size([2, 3, 1])
    """

    def __init__(
        self,
        lookback: int,
        horizon: int,
        width: int,
        *,
        known: int = 0,
        past: int = 0,
        hidden_sizes: tuple[int, ...] = (),
        hidden_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.horizon, self.width = horizon, width
        size = lookback * (1 + past) + (lookback + horizon) * known
        layers: list[nn.Module] = []
        for hidden in hidden_sizes:
            layers += [nn.Linear(size, hidden), nn.ReLU(), nn.Dropout(hidden_dropout)]
            size = hidden
        self.layers = nn.Sequential(*layers, nn.Linear(size, horizon * width))

    def forward(self, window: Window) -> Tensor:
        """[horizon, B, width]."""
        flat = [window.values, *(_flat(each) for each in (window.known, window.past) if each.shape[-1])]
        made: Tensor = self.layers(torch.cat(flat).T)
        return made.view(-1, self.horizon, self.width).transpose(0, 1)


class RecurrentNetwork(nn.Module):
    """A stack of cells reads the look-back; its last output says the whole horizon.

    Gradients do not go back through the first `warm_up` rows, unless `warm_up_gradient`.
    """

    def __init__(
        self,
        stack: Stack,
        horizon: int,
        width: int,
        *,
        known: int = 0,
        warm_up: int = 0,
        warm_up_gradient: bool = False,
        output_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.stack, self.horizon, self.width = stack, horizon, width
        self.warm_up, self.warm_up_gradient = warm_up, warm_up_gradient
        self.output_dropout = check_probability("output_dropout", output_dropout)
        self.readout = nn.Linear(stack.output_size + horizon * known, horizon * width)

    def forward(self, window: Window) -> Tensor:
        """[horizon, B, width]."""
        rows = len(window.values)
        inputs = torch.cat([window.values.unsqueeze(-1), window.known[:rows], window.past], dim=-1)
        outputs, _ = warmed(self.stack, inputs, self.warm_up, self.warm_up_gradient)
        read = dropout(outputs[-1], self.output_dropout, self.training)
        if window.known.shape[-1]:
            read = torch.cat([read, _flat(window.known[rows:]).T], dim=-1)
        made: Tensor = self.readout(read)
        return made.view(-1, self.horizon, self.width).transpose(0, 1)


def _flat(columns: Tensor) -> Tensor:
    """[T, B, K] as [T * K, B]."""
    return columns.transpose(1, 2).flatten(0, 1)


def warmed(stack: Stack, inputs: Tensor, skipped: int, gradient: bool) -> tuple[Tensor, State]:
    """The outputs after the first `skipped` rows, through which gradients only go where `gradient` is set."""
    if not skipped:
        outputs, state = stack(inputs)
        return outputs, state
    with torch.set_grad_enabled(gradient and torch.is_grad_enabled()):
        _, state = stack(inputs[:skipped])
    outputs, state = stack(inputs[skipped:], state)
    return outputs, state
