"""From a hidden state to ln P of every word, as ONNX operators."""

from __future__ import annotations

from typing import cast

from torch import nn

from throughtime.errors import InputError
from throughtime.export.graph import Graph
from throughtime.models.heads import AdaptiveHead, Head, SoftmaxHead


def log_probs(graph: Graph, head: Head, hidden: str) -> str:
    """ln P of every word: [..., H] -> [..., V]."""
    if isinstance(head, SoftmaxHead):
        return graph.op("LogSoftmax", graph.linear(hidden, head.weight, head.bias), axis=-1)
    if isinstance(head, AdaptiveHead):
        return _adaptive(graph, head, hidden)
    raise InputError("export", f"knows no ONNX operators for the head {type(head).__name__}")


def _adaptive(graph: Graph, head: AdaptiveHead, hidden: str) -> str:
    softmax = head.softmax
    frequent = softmax.shortlist_size
    first = graph.op("LogSoftmax", graph.linear(hidden, softmax.head.weight, softmax.head.bias), axis=-1)
    parts = [graph.slice(first, 0, frequent, -1)]
    for number, tail in enumerate(softmax.tail):
        narrow, wide = (cast(nn.Linear, part) for part in cast(nn.Sequential, tail))
        within = graph.linear(graph.linear(hidden, narrow.weight), wide.weight)
        kind = graph.slice(first, frequent + number, frequent + number + 1, -1)
        parts.append(graph.op("Add", kind, graph.op("LogSoftmax", within, axis=-1)))
    return graph.op("Concat", *parts, axis=-1)
