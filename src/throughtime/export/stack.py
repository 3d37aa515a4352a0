"""A stack of layers as ONNX operators: all steps at once, or one."""

from __future__ import annotations

from typing import cast

from torch import nn

from throughtime.cells.base import GraphState as State
from throughtime.export.graph import Graph
from throughtime.export.recurrence import step_cell, through_time
from throughtime.layers.layer import Layer
from throughtime.layers.stack import Stack


def run_stack(
    graph: Graph, stack: Stack, x: str, state: State | None = None, lengths: str | None = None
) -> tuple[str, State]:
    """Outputs [T, B, H] of the last layer, and the last state of all, flat."""
    reached: list[str] = []
    for number, layer in enumerate(_layers(stack)):
        own = None if state is None else state[len(reached) : len(reached) + len(layer.state_sizes)]
        y, last = through_time(graph, layer.cells, x, own, lengths)
        x = _finished(graph, stack, number, x, y)
        if lengths is not None and (stack.residual or stack.norms):
            x = graph.op("Where", inside(graph, x, lengths), x, graph.constant(0.0))
        reached += last
    return x, tuple(reached)


def step_stack(graph: Graph, stack: Stack, x: str, state: State) -> tuple[str, State]:
    """One step of every layer: x [B, I] to y [B, H], and the next state."""
    reached: list[str] = []
    for number, layer in enumerate(_layers(stack)):
        own = state[len(reached) : len(reached) + len(layer.state_sizes)]
        stepped = step_cell(graph, layer.from_left, x, own)
        x = _finished(graph, stack, number, x, stepped[0])
        reached += stepped
    return x, tuple(reached)


def inside(graph: Graph, x: str, lengths: str) -> str:
    """Which positions of x [T, B, ...] lie inside their row: [T, B, 1]."""
    zero, one = graph.constant(0, "int64"), graph.constant(1, "int64")
    steps = graph.op("Range", zero, graph.op("Squeeze", graph.size(x, 0)), one)
    return graph.op(
        "Unsqueeze", graph.op("Less", graph.op("Unsqueeze", steps, graph.axes(-1)), lengths), graph.axes(-1)
    )


def _finished(graph: Graph, stack: Stack, number: int, x: str, y: str) -> str:
    layer = _layers(stack)[number]
    if stack.residual and layer.input_size == layer.output_size:
        y = graph.op("Add", x, y)
    if stack.norms:
        norm = cast(nn.LayerNorm, stack.norms[number])
        y = graph.layer_norm(y, norm.weight, norm.bias, norm.eps)
    return y


def _layers(stack: Stack) -> list[Layer]:
    return cast(list[Layer], list(stack.layers))
