"""Encoders: a source sentence read into states."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from throughtime.cells.base import State
from throughtime.errors import InputError
from throughtime.layers.dropout import checked_probability
from throughtime.layers.layer import Layer
from throughtime.layers.stack import Stack
from throughtime.models.seq2seq import Encoded, Encoder


class RecurrentEncoder(Encoder):
    """An embedding and a stack: any cell, deep, in one direction or in both.

    The state of a layer that reads both ways is that from the left and that from the right side by side, so
    that a decoder needs not know of directions. Dropout falls on the embedded tokens (`dropout`) and on the
    outputs (`output_dropout`); that between layers is the stack's.

    >>> encoder = RecurrentEncoder(nn.Embedding(20, 8), Stack("gru", 8, 16, 2, bidirectional=True))
    >>> encoded = encoder(torch.zeros(5, 3, dtype=torch.long), torch.tensor([5, 2, 0]))
    >>> encoded.outputs.shape, [tuple(part.shape) for part in encoded.state]
    (torch.Size([5, 3, 32]), [(3, 32), (3, 32)])
    """

    def __init__(
        self, embedding: nn.Embedding, stack: Stack, *, dropout: float = 0.0, output_dropout: float = 0.0
    ) -> None:
        super().__init__()
        for layer in cast(list[Layer], list(stack.layers)):
            if len({len(cell.state_sizes) for cell in layer.cells}) > 1:
                raise InputError(
                    "encoder", "the cells of a layer must have states of as many tensors each way"
                )
        self.embedding, self.stack = embedding, stack
        self.dropout = nn.Dropout(checked_probability("dropout", dropout))
        self.output_dropout = nn.Dropout(checked_probability("output_dropout", output_dropout))
        self.output_size = stack.output_size
        self.state_sizes = tuple(size for layer in self._sizes() for size in layer)

    def forward(self, source: Tensor, lengths: Tensor) -> Encoded:
        """Outputs of all steps and the last state; an empty sentence leaves the first state as it is."""
        if not len(source):
            source = pad(source, (0, 0, 0, 1))  # a recurrence has a step at least, be all sentences empty
        outputs, last = self.stack(self.dropout(self.embedding(source)), None, lengths)
        state = self._side_by_side(last)
        return Encoded(self.output_dropout(outputs), state, state[-len(self._sizes()[-1])], lengths)

    def _sizes(self) -> list[list[int]]:
        """For each layer the width of each tensor of its state, both directions together."""
        layers = cast(list[Layer], list(self.stack.layers))
        return [
            [sum(parts) for parts in zip(*(cell.state_sizes for cell in one.cells), strict=True)]
            for one in layers
        ]

    def _side_by_side(self, flat: State) -> State:
        if not self.stack.bidirectional:
            return flat
        joined: list[Tensor] = []
        for sizes in self._sizes():
            own, flat = flat[: 2 * len(sizes)], flat[2 * len(sizes) :]
            joined += (
                torch.cat(parts, -1) for parts in zip(own[: len(sizes)], own[len(sizes) :], strict=True)
            )
        return tuple(joined)
