"""Pooling: a whole sequence in one vector, c = q(h_1..h_T), without its padding."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from throughtime.cells.base import Ops
from throughtime.cells.graph import no_graph
from throughtime.layers.attention import graph_masked_softmax, masked_softmax
from throughtime.registry import Registry


class Pooling(nn.Module, ABC):
    """From outputs [T, B, H], zero past each row's length, to one vector per row; zero for an empty row."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    @abstractmethod
    def forward(self, outputs: Tensor, final: Tensor, lengths: Tensor) -> Tensor:
        """The vector of each row, [B, H]; `final` [B, H] is the last output of each direction."""

    def graph(self, ops: Ops, outputs: str, final: str, lengths: str) -> str:
        """`forward` in a graph."""
        raise no_graph(self, "graph")


class LastPooling(Pooling):
    """The last output; with two directions, the last output of each."""

    def forward(self, outputs: Tensor, final: Tensor, lengths: Tensor) -> Tensor:
        """See `Pooling`."""
        return torch.where(lengths.to(final.device)[:, None] > 0, final, 0.0)

    def graph(self, ops: Ops, outputs: str, final: str, lengths: str) -> str:
        """See `Pooling`."""
        return _graph_zero_where_empty(ops, final, lengths)


class MeanPooling(Pooling):
    """The mean of all outputs."""

    def forward(self, outputs: Tensor, final: Tensor, lengths: Tensor) -> Tensor:
        """See `Pooling`."""
        return outputs.sum(0) / lengths.to(outputs.device).clamp(min=1)[:, None]

    def graph(self, ops: Ops, outputs: str, final: str, lengths: str) -> str:
        """See `Pooling`."""
        count = ops.op("Cast", ops.op("Max", lengths, ops.constant(1, "int64")), to="float32")
        total = ops.op("ReduceSum", outputs, ops.axes(0), keepdims=0)
        return ops.op("Div", total, ops.op("Unsqueeze", count, ops.axes(-1)))


class MaxPooling(Pooling):
    """The highest value of each unit over all positions."""

    def forward(self, outputs: Tensor, final: Tensor, lengths: Tensor) -> Tensor:
        """See `Pooling`."""
        # An empty row keeps its first position, where its output is zero.
        padding = _padding(outputs, lengths.clamp(min=1))
        return outputs.masked_fill(padding.T[..., None], -torch.inf).amax(0)

    def graph(self, ops: Ops, outputs: str, final: str, lengths: str) -> str:
        """See `Pooling`."""
        shown = ops.op("Where", ops.inside(outputs, lengths), outputs, ops.constant(-torch.inf))
        return _graph_zero_where_empty(ops, ops.op("ReduceMax", shown, ops.axes(0), keepdims=0), lengths)


class AttentionPooling(Pooling):
    """sum_t a_t h_t with learned weights a = softmax(v' tanh(W h_t + b)).

    >>> pooling = AttentionPooling(4)
    >>> pooling.weights(torch.zeros(3, 2, 4), torch.tensor([2, 0])).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.key = nn.Linear(size, size)
        self.energy = nn.Linear(size, 1, bias=False)

    def forward(self, outputs: Tensor, final: Tensor, lengths: Tensor) -> Tensor:
        """See `Pooling`."""
        weights = self.weights(outputs, lengths).to(outputs.dtype)
        return torch.einsum("bt,tbh->bh", weights, outputs)

    def weights(self, outputs: Tensor, lengths: Tensor) -> Tensor:
        """The weight of each output, [B, T]."""
        scores = self.energy(torch.tanh(self.key(outputs)))[..., 0]  # [T, B]
        return masked_softmax(scores.T, _padding(outputs, lengths))

    def graph(self, ops: Ops, outputs: str, final: str, lengths: str) -> str:
        """See `Pooling`."""
        seen = ops.op("Tanh", ops.linear(outputs, self.key.weight, self.key.bias))
        scores = ops.op("Transpose", ops.linear(seen, self.energy.weight), perm=[1, 2, 0])  # [B, 1, T]
        padding = ops.op("Transpose", ops.op("Not", ops.inside(outputs, lengths)), perm=[1, 2, 0])
        weights = graph_masked_softmax(ops, scores, padding)
        mixed = ops.op("MatMul", weights, ops.op("Transpose", outputs, perm=[1, 0, 2]))
        return ops.op("Squeeze", mixed, ops.axes(1))


POOLINGS = Registry[type[Pooling]](
    "pooling",
    "throughtime.poolings",
    {
        "last": "throughtime.layers.pooling:LastPooling",
        "mean": "throughtime.layers.pooling:MeanPooling",
        "max": "throughtime.layers.pooling:MaxPooling",
        "attention": "throughtime.layers.pooling:AttentionPooling",
    },
)


def _padding(outputs: Tensor, lengths: Tensor) -> Tensor:
    """Which positions are padding, [B, T]."""
    return torch.arange(len(outputs), device=outputs.device) >= lengths.to(outputs.device)[:, None]


def _graph_zero_where_empty(ops: Ops, vectors: str, lengths: str) -> str:
    """Vectors [B, H], with zeros for rows of length 0."""
    some = ops.op("Unsqueeze", ops.op("Greater", lengths, ops.constant(0, "int64")), ops.axes(-1))
    return ops.op("Where", some, vectors, ops.constant(0.0))
