"""The networks of `window_networks` as operators of a graph."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from throughtime.errors import InputError
from throughtime.graphs.graph import Graph, to_array
from throughtime.tasks.forecast.window_networks import RecurrentNetwork, SegmentNetwork, WindowNetwork


class GraphWindow(NamedTuple):
    """The inputs of `Window` as names in a graph; None for columns that a model does not read."""

    values: str  # [T, B]
    known: str | None  # [T and the rows ahead, B, K]
    past: str | None  # [T, B, P]
    numbers: str | None  # [B]


def graph_network(graph: Graph, module: nn.Module, window: GraphWindow, rows: int) -> str:
    """Add the operators of a network to a graph; return its outputs [horizon, B, width]."""
    if isinstance(module, WindowNetwork):
        return _window(graph, module, window)
    if isinstance(module, RecurrentNetwork):
        return _recurrent(graph, module, window, rows)
    if isinstance(module, SegmentNetwork):
        return _segment(graph, module, window, rows)
    raise InputError("export", f"knows no ONNX operators for the network {type(module).__name__}")


def _window(graph: Graph, module: WindowNetwork, window: GraphWindow) -> str:
    flat = [window.values, *(_flat(graph, each) for each in (window.known, window.past) if each is not None)]
    x = graph.op("Transpose", graph.concat(flat, 0))
    for layer in module.layers:
        if isinstance(layer, nn.Linear):
            x = graph.linear(x, layer.weight, layer.bias)
        elif isinstance(layer, nn.ReLU):
            x = graph.op("Relu", x)
    return _horizon(graph, x, module.horizon, module.width)


def _recurrent(graph: Graph, module: RecurrentNetwork, window: GraphWindow, rows: int) -> str:
    outputs, _ = module.stack.graph(graph, columns(graph, window, rows))
    read = graph.op("Gather", outputs, graph.constant(-1, "int64"), axis=0)
    if window.known is not None:
        ahead = graph.op("Transpose", _flat(graph, graph.slice(window.known, rows, 2**31, 0)))
        read = graph.op("Concat", read, ahead, axis=-1)
    outputs = graph.linear(read, module.readout.weight, module.readout.bias)
    return _horizon(graph, outputs, module.horizon, module.width)


def _segment(graph: Graph, module: SegmentNetwork, window: GraphWindow, rows: int) -> str:
    read = _segments(graph, columns(graph, window, rows), module.segment, module.lacking, 0)
    read = graph.op("Relu", graph.linear(read, module.read.weight, module.read.bias))
    _, state = module.stack.graph(graph, read)
    places, batch = module.places, graph.size(window.values, 1)
    first_state = tuple(graph.op("Tile", part, graph.axes(places, 1)) for part in state)  # [places * B, H]
    asked = _segment_inputs(graph, module, window, rows, batch)
    width = module.stack.input_size
    asked = graph.op("Reshape", asked, graph.axes(1, -1, width))
    written, _ = module.stack.graph(graph, asked, first_state)
    outputs = graph.linear(
        graph.op("Squeeze", written, graph.axes(0)), module.write.weight, module.write.bias
    )
    outputs = graph.op("Reshape", outputs, graph.sizes(places, batch, module.segment, module.width))
    outputs = graph.op("Transpose", outputs, perm=[0, 2, 1, 3])
    outputs = graph.op("Reshape", outputs, graph.sizes(places * module.segment, batch, module.width))
    return graph.slice(outputs, 0, module.horizon, 0)


def _segment_inputs(graph: Graph, module: SegmentNetwork, window: GraphWindow, rows: int, batch: str) -> str:
    """The input of the step for each segment of the horizon, [places, B, H]."""
    place = graph.op("Unsqueeze", graph.weight(module.place), graph.axes(1))
    asked = graph.op("Expand", place, graph.sizes(module.places, batch, module.place.shape[1]))
    if module.series is not None:
        assert window.numbers is not None
        zero = graph.constant(0, "int64")
        own = graph.op("Gather", graph.weight(module.series), graph.op("Max", window.numbers, zero))
        new = graph.op("Unsqueeze", graph.op("Less", window.numbers, zero), graph.axes(-1))
        own = graph.op("Where", new, graph.constant(to_array(module.series).mean(0)), own)
        own = graph.op(
            "Expand",
            graph.op("Unsqueeze", own, graph.axes(0)),
            graph.sizes(module.places, batch, module.series.shape[1]),
        )
        asked = graph.op("Concat", asked, own, axis=-1)
    if module.future is not None:
        assert window.known is not None
        ahead = graph.slice(window.known, rows, rows + module.horizon, 0)
        ahead = _segments(graph, ahead, module.segment, 0, -module.horizon % module.segment)
        asked = graph.op("Add", asked, graph.linear(ahead, module.future.weight, module.future.bias))
    return asked


def columns(graph: Graph, window: GraphWindow, rows: int) -> str:
    """Join the values and columns of each row of the window: [T, B, 1 + K + P]."""
    parts = [graph.op("Unsqueeze", window.values, graph.axes(-1))]
    if window.known is not None:
        parts.append(graph.slice(window.known, 0, rows, 0))
    if window.past is not None:
        parts.append(window.past)
    return graph.concat(parts)


def _segments(graph: Graph, rows: str, segment: int, before: int, after: int) -> str:
    """Cut rows [T, B, C] into segments [T / segment, B, segment * C], with rows of zeros at either end."""
    filled = graph.op("Pad", rows, graph.axes(before, 0, 0, after, 0, 0)) if before or after else rows
    batch, width = graph.size(rows, 1), graph.size(rows, 2)
    cut = graph.op("Reshape", filled, graph.sizes(-1, segment, batch, width))
    flat = graph.op("Mul", width, graph.axes(segment))
    return graph.op("Reshape", graph.op("Transpose", cut, perm=[0, 2, 1, 3]), graph.sizes(-1, batch, flat))


def _flat(graph: Graph, value: str) -> str:
    """[T, B, K] as [T * K, B]."""
    batch = graph.size(value, 1)
    return graph.op("Reshape", graph.op("Transpose", value, perm=[0, 2, 1]), graph.sizes(-1, batch))


def _horizon(graph: Graph, outputs: str, horizon: int, width: int) -> str:
    """[B, horizon * width] as [horizon, B, width]."""
    return graph.op("Transpose", graph.op("Reshape", outputs, graph.axes(-1, horizon, width)), perm=[1, 0, 2])
