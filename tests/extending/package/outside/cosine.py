"""An attention: the cosine between a projected query and an encoder's outputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from throughtime.layers.attention import Attention


class Cosine(Attention):
    """4 cos(W q, h)."""

    def __init__(self, query_size: int, memory_size: int, *, scaled: bool = False) -> None:
        super().__init__(query_size, memory_size, memory_size, scaled=scaled)
        self.query = nn.Linear(query_size, memory_size, bias=False)

    def keys(self, outputs: Tensor) -> Tensor:
        """h / |h|."""
        return normalize(outputs, dim=-1)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """4 cos."""
        return 4 * torch.bmm(normalize(self.query(query), dim=-1), keys.transpose(1, 2))
