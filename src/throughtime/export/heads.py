"""From a hidden state to ln P of every word, as ONNX operators."""

from __future__ import annotations

from typing import cast

from torch import nn

from throughtime.errors import InputError
from throughtime.export.graph import Graph
from throughtime.models.heads import AdaptiveHead, Head, MixtureHead, SoftmaxHead


def log_probs(graph: Graph, head: Head, hidden: str) -> str:
    """ln P of every word: [..., H] -> [..., V]."""
    if isinstance(head, SoftmaxHead):
        return graph.op("LogSoftmax", graph.linear(hidden, head.weight, head.bias), axis=-1)
    if isinstance(head, AdaptiveHead):
        return _adaptive(graph, head, hidden)
    if isinstance(head, MixtureHead):
        return _mixture(graph, head, hidden)
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


def _mixture(graph: Graph, head: MixtureHead, hidden: str) -> str:
    """Expert after expert, so that no more than two distributions are there at once."""
    shares = graph.op("LogSoftmax", graph.linear(hidden, head.shares.weight), axis=-1)
    states = graph.op("Tanh", graph.linear(hidden, head.states.weight, head.states.bias))
    width = head.softmax.weight.shape[1]
    together = ""
    for expert in range(head.experts):
        state = graph.slice(states, expert * width, (expert + 1) * width, -1)
        each = graph.op("LogSoftmax", graph.linear(state, head.softmax.weight, head.softmax.bias), axis=-1)
        joint = graph.op("Add", each, graph.slice(shares, expert, expert + 1, -1))
        together = _log_sum(graph, together, joint) if together else joint
    return together


def _log_sum(graph: Graph, first: str, second: str) -> str:
    """ln(exp a + exp b), which is the larger one and ln(1 + exp(-|a - b|))."""
    apart = graph.op("Neg", graph.op("Abs", graph.op("Sub", first, second)))
    more = graph.op("Log", graph.op("Add", graph.op("Exp", apart), graph.constant(1.0)))
    return graph.op("Add", graph.op("Max", first, second), more)
