"""A whole sequence in one vector, as ONNX operators."""

from __future__ import annotations

from onnx import TensorProto

from throughtime.export.attention import masked_softmax
from throughtime.export.graph import Graph
from throughtime.export.stack import inside
from throughtime.layers.pooling import AttentionPooling


def pooled(graph: Graph, kind: str, outputs: str, final: str, lengths: str) -> str:
    """The last output, the mean or the maximum of outputs [T, B, H]: [B, H], zero for an empty row."""
    if kind == "last":
        return final
    if kind == "mean":
        count = graph.op("Max", lengths, graph.constant(1, "int64"))
        divisor = graph.op("Unsqueeze", graph.op("Cast", count, to=TensorProto.FLOAT), graph.axes(-1))
        return graph.op("Div", graph.op("ReduceSum", outputs, graph.axes(0), keepdims=0), divisor)
    assert kind == "max"
    shown = graph.op("Where", inside(graph, outputs, lengths), outputs, graph.constant(-float("inf")))
    most = graph.op("ReduceMax", shown, graph.axes(0), keepdims=0)
    return graph.op("Where", something(graph, lengths), most, graph.constant(0.0))


def attention_pooled(graph: Graph, pooling: AttentionPooling, outputs: str, lengths: str) -> str:
    """sum_t a_t h_t with a = softmax(v' tanh(W h_t + b))."""
    seen = graph.op("Tanh", graph.linear(outputs, pooling.key.weight, pooling.key.bias))
    scores = graph.op("Transpose", graph.linear(seen, pooling.energy.weight), perm=[1, 2, 0])  # [B, 1, T]
    padding = graph.op("Transpose", graph.op("Not", inside(graph, outputs, lengths)), perm=[1, 2, 0])
    weights = masked_softmax(graph, scores, padding)
    mixed = graph.op("MatMul", weights, graph.op("Transpose", outputs, perm=[1, 0, 2]))
    return graph.op("Squeeze", mixed, graph.axes(1))


def something(graph: Graph, lengths: str) -> str:
    """Which rows are not empty, [B, 1]."""
    return graph.op("Unsqueeze", graph.op("Greater", lengths, graph.constant(0, "int64")), graph.axes(-1))
