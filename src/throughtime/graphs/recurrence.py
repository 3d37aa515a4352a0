"""Run cells through time in a graph: by ONNX's RNN, GRU and LSTM, or by a loop over steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from throughtime.cells.base import Cell
from throughtime.cells.base import GraphState as State
from throughtime.cells.graph import GraphOperator
from throughtime.graphs.graph import MICROSOFT, Array, Graph, quantise, to_array


def add_recurrence(
    graph: Graph, cells: Sequence[Cell], x: str, state: State | None, lengths: str | None
) -> tuple[str, State]:
    """The outputs [T, B, H] of one cell, or of two concatenated, and their last states, one after the other.

    The second cell reads from the right. `lengths` [B] are int64; past the end of a row the state does not
    change and outputs are zero. Without a `state` the cells start from their own initial state.
    """
    for cell in cells:
        cell.check_graph()
    if state is None:
        batch = graph.size(x, 1)
        state = tuple(part for cell in cells for part in cell.graph_initial_state(graph, batch))
    operators = [_find_operator(cell) for cell in cells]
    alike = all(one == operators[0] for one in operators) and len({cell.hidden_size for cell in cells}) == 1
    if operators[0] is not None and alike and not graph.for_page:
        return _run_operator(graph, operators[0], cells, x, state, lengths)
    outputs: list[str] = []
    reached: list[str] = []
    for number, cell in enumerate(cells):
        own, state = state[: len(cell.state_sizes)], state[len(cell.state_sizes) :]
        y, last = _loop(graph, cell, x, own, lengths, reverse=number == 1)
        outputs.append(y)
        reached += last
    return graph.concat(outputs), tuple(reached)


def _find_operator(cell: Cell) -> GraphOperator | None:
    """The operator that runs a cell, unless it was declared for other equations, those of a base class."""
    return cell.graph_operator() if cell.is_written_for("graph_operator", "step", "project") else None


def _run_operator(
    graph: Graph,
    operator: GraphOperator,
    cells: Sequence[Cell],
    x: str,
    state: State,
    lengths: str | None,
) -> tuple[str, State]:
    first = cells[0]
    size, parts, ways = first.hidden_size, len(first.state_sizes), len(cells)
    attributes: dict[str, Any] = {
        "hidden_size": size,
        "direction": "bidirectional" if ways == 2 else "forward",
        **operator.attributes,
    }
    if operator.activations:
        attributes["activations"] = list(operator.activations) * ways
    # [parts][ways]: the h of both directions, then the c if there is one
    entering = [
        graph.op(
            "Concat",
            *(graph.op("Unsqueeze", state[way * parts + part], graph.axes(0)) for way in range(ways)),
            axis=0,
        )
        for part in range(parts)
    ]
    steps = "" if lengths is None else graph.op("Cast", lengths, to="int32")
    bias = graph.constant(np.stack([_bias(cell, operator) for cell in cells]))
    weights = [
        np.stack([_reorder(cell, name, operator) for cell in cells]) for name in ("weight_ih", "weight_hh")
    ]
    if graph.int8 and operator.kind == "LSTM":
        results = _int8_lstm(graph, x, weights, bias, steps, entering, attributes)
    else:
        inputs = [x, *(graph.constant(each) for each in weights), bias, steps, *entering]
        results = graph.ops(operator.kind, inputs, 1 + parts, attributes)
    y = graph.op("Transpose", results[0], perm=[0, 2, 1, 3])  # [T, ways, B, H] -> [T, B, ways, H]
    y = graph.op("Reshape", y, graph.axes(0, 0, ways * size))
    reached = [
        graph.op("Gather", results[1 + part], graph.constant(way, "int64"), axis=0)
        for way in range(ways)
        for part in range(parts)
    ]
    if lengths is not None:
        # onnxruntime returns zeros as the last state of an empty row; it should be the first state.
        some = graph.op("Unsqueeze", graph.op("Greater", lengths, graph.constant(0, "int64")), graph.axes(-1))
        reached = [graph.op("Where", some, new, old) for new, old in zip(reached, state, strict=True)]
    return y, tuple(reached)


def _int8_lstm(
    graph: Graph,
    x: str,
    weights: Sequence[Array],
    bias: str,
    steps: str,
    entering: Sequence[str],
    attributes: dict[str, Any],
) -> list[str]:
    """onnxruntime's LSTM with int8 weights."""
    tables, scales = [], []
    for each in weights:
        values, scale = zip(*(quantise(way) for way in each), strict=True)
        tables.append(graph.constant(np.stack([way.T for way in values]), "int8"))
        scales += [
            graph.constant(np.stack(scale)),
            graph.constant(np.zeros_like(np.stack(scale), np.int8), "int8"),
        ]
    inputs = [x, *tables, bias, steps, *entering, "", *scales]
    return graph.ops("DynamicQuantizeLSTM", inputs, 3, attributes, domain=MICROSOFT)


def _reorder(cell: Cell, name: str, operator: GraphOperator) -> Array:
    """A weight with its gates in the order of the operator."""
    gates = dict(zip(cell.gates, np.split(to_array(cell.weights()[name]), len(cell.gates)), strict=True))
    return np.concatenate([gates[gate] for gate in operator.gates])


def _bias(cell: Cell, operator: GraphOperator) -> Array:
    """The biases of the products with the input and with the state; the second is 0 but for a GRU's b_hn."""
    inner = np.zeros(len(cell.gates) * cell.hidden_size, dtype=np.float32)
    if "bias_hn" in cell.weights():
        inner[-cell.hidden_size :] = to_array(cell.weights()["bias_hn"])
    return np.concatenate([_reorder(cell, "bias", operator), inner])


def _loop(
    graph: Graph, cell: Cell, x: str, state: State, lengths: str | None, *, reverse: bool
) -> tuple[str, State]:
    """Run a cell step by step, by ONNX's Scan. In reverse, the state waits for the last real step."""
    body = Graph("steps", around=graph)
    sizes = cell.state_sizes
    before = tuple(body.input(graph.fresh("before"), "float32", ["batch", size]) for size in sizes)
    scanned = [cell.graph_project(graph, x)]
    projected = body.input(graph.fresh("projected"), "float32", ["batch", "width"])
    if lengths is not None:
        scanned.append(graph.steps(x, 0))
        time = body.input(graph.fresh("time"), "int64", [])
    after = body.step(cell, projected, before)
    shown = after[0]
    if lengths is not None:
        real = body.op("Unsqueeze", body.op("Less", time, lengths), body.axes(-1))
        after = tuple(body.op("Where", real, new, old) for new, old in zip(after, before, strict=True))
        shown = body.op("Where", real, shown, body.constant(0.0))
    for value, size in (*zip(after, sizes, strict=True), (shown, sizes[0])):
        body.output(value, graph.fresh("after"), "float32", ["batch", size])
    backward = int(reverse)
    results = graph.ops(
        "Scan",
        [*state, *scanned],
        len(sizes) + 1,
        {
            "num_scan_inputs": len(scanned),
            "scan_input_directions": [backward] * len(scanned),
            "scan_output_directions": [backward],
        },
        body=body,
    )
    return results[-1], tuple(results[:-1])
