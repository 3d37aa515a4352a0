"""From the encoder's last state to the decoder's first."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from throughtime.cells.base import State
from throughtime.errors import InputError


class Bridge(nn.Module):
    """The encoder's state as it is where sizes agree; else tanh(W s + b) for each tensor of the decoder's.

    Where the two have different numbers of tensors (other cells, other depths), each of the decoder's is
    formed from all of the encoder's. Without `project`, sizes that differ are refused.

    >>> bridge = Bridge((512, 512), (300, 300))
    >>> [tuple(part.shape) for part in bridge((torch.zeros(2, 512), torch.zeros(2, 512)))]
    [(2, 300), (2, 300)]
    """

    def __init__(
        self, encoder_sizes: Sequence[int], decoder_sizes: Sequence[int], *, project: bool = True
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        self.pairwise = len(encoder_sizes) == len(decoder_sizes)
        if tuple(encoder_sizes) == tuple(decoder_sizes):
            return
        if not project:
            raise InputError(
                "bridge",
                f"the encoder's last state has sizes {list(encoder_sizes)} (both directions together), the "
                f"decoder's first {list(decoder_sizes)}; make them equal, or allow a bridge between them",
            )
        widths = encoder_sizes if self.pairwise else [sum(encoder_sizes)] * len(decoder_sizes)
        self.layers.extend(nn.Linear(*sizes) for sizes in zip(widths, decoder_sizes, strict=True))

    def forward(self, state: State) -> State:
        """The decoder's first state."""
        if not self.layers:
            return state
        sources: Sequence[Tensor] = state if self.pairwise else [torch.cat(state, dim=-1)] * len(self.layers)
        return tuple(torch.tanh(layer(s)) for layer, s in zip(self.layers, sources, strict=True))
