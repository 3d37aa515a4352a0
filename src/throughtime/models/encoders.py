"""The recurrent encoder of sequence-to-sequence models."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from throughtime.cells.base import Ops
from throughtime.errors import InputError
from throughtime.layers.layer import Layer, check_probability
from throughtime.layers.stack import Stack
from throughtime.models.seq2seq import Encoder, EncoderOutput, GraphEncoded

T = TypeVar("T", Tensor, str)


class RecurrentEncoder(Encoder):
    """An embedding and a stack: any cell, any depth, in one direction or both.

    Of vectors, the embedding is a linear map.

    The states of the two directions of a layer are concatenated, so that a decoder need not know about
    directions. Dropout applies to the embedded tokens (`dropout`) and to the outputs (`output_dropout`); the
    stack has its own between layers.

    >>> encoder = RecurrentEncoder(nn.Embedding(20, 8), Stack("gru", 8, 16, 2, bidirectional=True))
    >>> encoded = encoder(torch.zeros(5, 3, dtype=torch.long), torch.tensor([5, 2, 0]))
    >>> encoded.outputs.shape, [tuple(part.shape) for part in encoded.state]
    (torch.Size([5, 3, 32]), [(3, 32), (3, 32)])
    """

    def __init__(
        self,
        embedding: nn.Embedding | nn.Linear,
        stack: Stack,
        *,
        dropout: float = 0.0,
        output_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        for layer in cast(list[Layer], list(stack.layers)):
            if len({len(cell.state_sizes) for cell in layer.cells}) > 1:
                raise InputError(
                    "encoder", "the states of both cells of a layer need the same number of tensors"
                )
        self.embedding, self.stack = embedding, stack
        self.dropout = nn.Dropout(check_probability("dropout", dropout))
        self.output_dropout = nn.Dropout(check_probability("output_dropout", output_dropout))
        self.output_size = stack.output_size
        self.state_sizes = tuple(size for layer in self._sizes() for size in layer)

    def forward(self, source: Tensor, lengths: Tensor) -> EncoderOutput:
        """Return outputs of all steps and the last state; an empty sentence keeps the first state."""
        if not len(source):
            source = pad(source, (0, 0, 0, 1))  # a recurrence needs a step, even if all sentences are empty
        outputs, last = self.stack(self.dropout(self.embedding(source)), None, lengths)
        state = self._join_directions(last, partial(torch.cat, dim=-1))
        return EncoderOutput(self.output_dropout(outputs), state, state[-len(self._sizes()[-1])], lengths)

    def graph(self, ops: Ops, source: str, lengths: str) -> GraphEncoded:
        """See `Encoder`."""
        if isinstance(self.embedding, nn.Linear):
            embedded = ops.linear(source, self.embedding.weight, self.embedding.bias)
        else:
            embedded = ops.lookup(self.embedding.weight, source)
        outputs, flat = self.stack.graph(ops, embedded, None, lengths)
        state = self._join_directions(flat, ops.concat)
        return GraphEncoded(outputs, state, state[-len(self._sizes()[-1])], lengths)

    def _sizes(self) -> list[list[int]]:
        """For each layer, the width of each tensor of its state, both directions together."""
        layers = cast(list[Layer], list(self.stack.layers))
        return [
            [sum(both) for both in zip(*(cell.state_sizes for cell in layer.cells), strict=True)]
            for layer in layers
        ]

    def _join_directions(self, flat: tuple[T, ...], join: Callable[[tuple[T, ...]], T]) -> tuple[T, ...]:
        """Return the states of all layers, with both directions concatenated."""
        if not self.stack.bidirectional:
            return flat
        joined: list[T] = []
        for sizes in self._sizes():
            left, right, flat = flat[: len(sizes)], flat[len(sizes) : 2 * len(sizes)], flat[2 * len(sizes) :]
            joined += map(join, zip(left, right, strict=True))
        return tuple(joined)
