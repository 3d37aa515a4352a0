"""Ways to draw first weights other than the uniform ones of cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import torch
from torch import Tensor, nn

from throughtime.cells.base import Cell

AnyModule = TypeVar("AnyModule", bound=nn.Module)


@torch.no_grad()
def scratch_(module: AnyModule, std: float = 0.01) -> AnyModule:
    """Draw every matrix from N(0, std^2) and set the biases to zero; gains and learned states are unchanged.

    >>> layer = scratch_(nn.Linear(3, 2))
    >>> layer.bias.tolist()
    [0.0, 0.0]
    """
    for matrix in _zero_biases_and_list_matrices(module):
        nn.init.normal_(matrix, 0.0, std)
    return module


@torch.no_grad()
def xavier_(module: AnyModule) -> AnyModule:
    """Draw every matrix from U(-a, a) with a^2 = 6 / (fan in + fan out), and set the biases to zero.

    A cell has its gates in one tensor; each gate counts as a matrix of its own, as in the equations.
    """
    for matrix in _zero_biases_and_list_matrices(module):
        nn.init.xavier_uniform_(matrix)
    return module


def _zero_biases_and_list_matrices(module: nn.Module) -> Iterator[Tensor]:
    for part in module.modules():
        for name, weight in part.named_parameters(recurse=False):
            if name.startswith("bias"):
                weight.zero_()
            elif weight.dim() >= 2:
                yield from _matrices(part, weight)
        if isinstance(part, nn.Embedding) and part.padding_idx is not None:
            part.weight[part.padding_idx].zero_()


def _matrices(part: nn.Module, weight: Tensor) -> Iterator[Tensor]:
    """Yield the matrices of the equations that are in one tensor."""
    if isinstance(part, Cell) and weight.dim() == 3:
        yield from weight.unbind()
    elif isinstance(part, Cell | nn.RNNBase) and weight.shape[0] % part.hidden_size == 0:
        yield from weight.split(part.hidden_size)
    else:
        yield weight
