"""What a decoder shows to the head: several of its vectors mixed into one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Readout(nn.Module):
    """tanh(W [a; b; ...] + bias), with `layer_norm` normalised before the tanh.

    >>> Readout([4, 6], 5)(torch.zeros(2, 4), torch.zeros(2, 6)).shape
    torch.Size([2, 5])
    """

    def __init__(self, sizes: Sequence[int], output_size: int, *, layer_norm: bool = False) -> None:
        super().__init__()
        self.mix = nn.Linear(sum(sizes), output_size)
        self.norm = nn.LayerNorm(output_size) if layer_norm else None

    def forward(self, *parts: Tensor) -> Tensor:
        """Vectors [..., size] of the given sizes, to [..., output size]."""
        mixed = self.mix(torch.cat(parts, dim=-1))
        return torch.tanh(mixed if self.norm is None else self.norm(mixed))
