"""Words by their letters: a small recurrent net reads each spelling from both ends."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from throughtime.layers.dropout import check_probability
from throughtime.layers.stack import Stack


class SpellingReader(nn.Module):
    """The last states of a net over a word's characters, from the left and from the right: [W, 2 H].

    >>> reader = SpellingReader(30, embedding_size=8, hidden_size=16)
    >>> reader(torch.zeros(5, 3, dtype=torch.long), torch.tensor([5, 2, 3])).shape
    torch.Size([3, 32])
    """

    def __init__(
        self,
        characters: int,
        *,
        cell: str = "lstm",
        embedding_size: int = 32,
        hidden_size: int = 64,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, embedding_size)
        self.stack = Stack(cell, embedding_size, hidden_size, bidirectional=True)
        self.dropout = nn.Dropout(check_probability("dropout", dropout))

    @property
    def output_size(self) -> int:
        """The width of a word: of both directions together."""
        return self.stack.output_size

    def forward(self, characters: Tensor, lengths: Tensor) -> Tensor:
        """Spellings [C, W], one a column, and their lengths [W]."""
        outputs, _ = self.stack(self.dropout(self.embedding(characters)), None, lengths)
        left, right = outputs.chunk(2, -1)
        # From the left the last state stands at a word's end, from the right at its beginning.
        end = (lengths - 1).clamp(min=0)[None, :, None].expand(1, -1, left.shape[2])
        return torch.cat([left.gather(0, end).squeeze(0), right[0]], -1)
