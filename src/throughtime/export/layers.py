"""Attention and pooling as operators."""

from __future__ import annotations

import numpy as np

from throughtime.errors import InputError
from throughtime.export.graph import Graph, as_array
from throughtime.export.recurrence import nonempty, within_lengths
from throughtime.layers.attention import Additive, Attention, Dot, General
from throughtime.layers.pooling import AttentionPooling

LEAST = float(np.finfo(np.float32).min)


def attention_keys(graph: Graph, attention: Attention, outputs: str) -> str:
    """What queries are compared with: [S, T, H] -> [S, T, D]."""
    if isinstance(attention, Additive):
        projected = graph.linear(outputs, attention.key.weight, attention.key.bias)
        return graph.op("Mul", graph.constant(2.0), projected)
    if isinstance(attention, General):
        return graph.linear(outputs, attention.key.weight)
    if isinstance(attention, Dot):
        return outputs
    raise InputError("export", f"knows no ONNX operators for the attention {type(attention).__name__}")


def attend(
    graph: Graph, attention: Attention, query: str, keys: str, values: str, padding: str
) -> tuple[str, str]:
    """The context [rows, H] and weights [rows, T] of queries [rows, Q]; each sentence has as many rows."""
    sentences = graph.size(keys, 0)
    by_sentence = graph.op("Reshape", query, graph.sizes(sentences, -1, attention.query_size))
    scores = _scores(graph, attention, by_sentence, keys)  # [S, n, T]
    if attention.scaled:
        scores = graph.op("Mul", scores, graph.constant(attention.scale))
    weights = masked_softmax(graph, scores, graph.op("Unsqueeze", padding, graph.axes(1)))
    context = graph.op("MatMul", weights, values)
    return _rows(graph, context), _rows(graph, weights)


def masked_softmax(graph: Graph, scores: str, padding: str) -> str:
    """The softmax over what is not padding, which is exactly zero."""
    shown = graph.op("Where", padding, graph.constant(LEAST), scores)
    return graph.op("Where", padding, graph.constant(0.0), graph.op("Softmax", shown, axis=-1))


def _scores(graph: Graph, attention: Attention, query: str, keys: str) -> str:
    if not isinstance(attention, Additive):
        return graph.op("MatMul", query, graph.op("Transpose", keys, perm=[0, 2, 1]))
    # As in our own: v' tanh(a) is 2 v' sigmoid(2 a) less the sum of v, which a softmax does not see.
    asked = graph.op("Mul", graph.constant(2.0), graph.linear(query, attention.query.weight))
    pairs = graph.op(
        "Add", graph.op("Unsqueeze", asked, graph.axes(2)), graph.op("Unsqueeze", keys, graph.axes(1))
    )  # [S, n, T, D]
    # A column, not a vector: onnxruntime takes six times as long for a vector.
    energy = graph.constant(2 * as_array(attention.energy)[:, None])
    return graph.op("Squeeze", graph.op("MatMul", graph.op("Sigmoid", pairs), energy), graph.axes(-1))


def _rows(graph: Graph, value: str) -> str:
    """[S, n, ...] as [rows, ...]."""
    return graph.op("Reshape", value, graph.sizes(-1, graph.size(value, 2)))


def pool(graph: Graph, kind: str, outputs: str, final: str, lengths: str) -> str:
    """The last output, the mean or the maximum of outputs [T, B, H]: [B, H], zero for an empty row."""
    if kind == "last":
        return final
    if kind == "mean":
        count = graph.op("Max", lengths, graph.constant(1, "int64"))
        divisor = graph.op("Unsqueeze", graph.op("Cast", count, to="float32"), graph.axes(-1))
        return graph.op("Div", graph.op("ReduceSum", outputs, graph.axes(0), keepdims=0), divisor)
    assert kind == "max"
    shown = graph.op("Where", within_lengths(graph, outputs, lengths), outputs, graph.constant(-float("inf")))
    most = graph.op("ReduceMax", shown, graph.axes(0), keepdims=0)
    return graph.op("Where", nonempty(graph, lengths), most, graph.constant(0.0))


def pool_by_attention(graph: Graph, pooling: AttentionPooling, outputs: str, lengths: str) -> str:
    """sum_t a_t h_t with a = softmax(v' tanh(W h_t + b))."""
    seen = graph.op("Tanh", graph.linear(outputs, pooling.key.weight, pooling.key.bias))
    scores = graph.op("Transpose", graph.linear(seen, pooling.energy.weight), perm=[1, 2, 0])  # [B, 1, T]
    padding = graph.op("Transpose", graph.op("Not", within_lengths(graph, outputs, lengths)), perm=[1, 2, 0])
    weights = masked_softmax(graph, scores, padding)
    mixed = graph.op("MatMul", weights, graph.op("Transpose", outputs, perm=[1, 0, 2]))
    return graph.op("Squeeze", mixed, graph.axes(1))
