"""A layer's cells run through time: ONNX's own RNN, GRU and LSTM, or for other cells a loop over steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from throughtime.cells import GRU, LSTM, RNN, Cell
from throughtime.export.cells import ACTIVATIONS, State, project, step, step_of
from throughtime.export.graph import MICROSOFT, Graph, as_array
from throughtime.export.quantise import quantised

ORDERS: dict[type[Cell], tuple[int, ...]] = {RNN: (0,), GRU: (1, 0, 2), LSTM: (0, 3, 1, 2)}
"""Where each of ONNX's gates stands among ours: z, r, h among r, z, n and i, o, f, c among i, f, g, o."""

Array = NDArray[np.float32]


def through_time(
    graph: Graph, cells: Sequence[Cell], x: str, state: State | None, lengths: str | None
) -> tuple[str, State]:
    """Outputs [T, B, H] of one cell or of two side by side, and the last state of each, one after another.

    The second cell reads from the right. `lengths` [B] are int64; past a row's end the state stays as it is
    and outputs are zero. Without a `state` the cells begin with their own.
    """
    kind = type(cells[0])
    for cell in cells:
        step_of(cell)
    if state is None:
        batch = graph.size(x, 1)
        state = tuple(part for cell in cells for part in first_state(graph, cell, batch))
    if kind in ORDERS and all(type(cell) is kind for cell in cells) and _alike(cells):
        return _operator(graph, cells, x, state, lengths)
    outputs: list[str] = []
    reached: list[str] = []
    for number, cell in enumerate(cells):
        own, state = state[: len(cell.state_sizes)], state[len(cell.state_sizes) :]
        y, last = _loop(graph, cell, x, own, lengths, reverse=number == 1)
        outputs.append(y)
        reached += last
    return outputs[0] if len(outputs) == 1 else graph.op("Concat", *outputs, axis=-1), tuple(reached)


def first_state(graph: Graph, cell: Cell, batch: str) -> State:
    """Zeros, or what was learned, for a batch of so many rows."""
    return tuple(
        graph.op("Expand", graph.constant(as_array(part)), graph.sizes(batch, part.shape[-1]))
        for part in cell.initial_state(1)
    )


def _alike(cells: Sequence[Cell]) -> bool:
    """Whether one operator can hold both directions."""
    told = {
        (cell.hidden_size, getattr(cell, "reset", None), getattr(cell, "activation", None)) for cell in cells
    }
    return len(told) == 1


def _operator(
    graph: Graph, cells: Sequence[Cell], x: str, state: State, lengths: str | None
) -> tuple[str, State]:
    first, kind = cells[0], type(cells[0])
    size, parts, ways = first.hidden_size, len(first.state_sizes), len(cells)
    attributes: dict[str, Any] = {
        "hidden_size": size,
        "direction": "bidirectional" if ways == 2 else "forward",
    }
    if isinstance(first, GRU):
        attributes["linear_before_reset"] = int(first.reset == "after")
    if isinstance(first, RNN):
        attributes["activations"] = [ACTIVATIONS[str(first.activation)]] * ways
    # [parts][ways]: the h of both directions, then where there is one the c
    entering = [
        graph.op(
            "Concat",
            *(graph.op("Unsqueeze", state[way * parts + part], graph.axes(0)) for way in range(ways)),
            axis=0,
        )
        for part in range(parts)
    ]
    steps = "" if lengths is None else graph.op("Cast", lengths, to=TensorProto.INT32)
    bias = graph.constant(np.stack([_bias(cell) for cell in cells]))
    weights = [np.stack([_ordered(cell, name) for cell in cells]) for name in ("weight_ih", "weight_hh")]
    if graph.int8 and kind is LSTM:
        found = _lstm_in_bytes(graph, x, weights, bias, steps, entering, attributes)
    else:
        given = [x, *(graph.constant(each) for each in weights), bias, steps, *entering]
        found = graph.ops(kind.__name__, given, 1 + parts, attributes)
    y = graph.op("Transpose", found[0], perm=[0, 2, 1, 3])  # [T, ways, B, H] -> [T, B, ways, H]
    y = graph.op("Reshape", y, graph.axes(0, 0, ways * size))
    reached = [
        graph.op("Gather", found[1 + part], graph.constant(way, "int64"), axis=0)
        for way in range(ways)
        for part in range(parts)
    ]
    if lengths is not None:
        # onnxruntime gives zeros as the last state of an empty row, which should be its first.
        some = graph.op("Unsqueeze", graph.op("Greater", lengths, graph.constant(0, "int64")), graph.axes(-1))
        reached = [graph.op("Where", some, new, old) for new, old in zip(reached, state, strict=True)]
    return y, tuple(reached)


def _lstm_in_bytes(
    graph: Graph,
    x: str,
    weights: Sequence[Array],
    bias: str,
    steps: str,
    entering: Sequence[str],
    attributes: dict[str, Any],
) -> list[str]:
    """onnxruntime's LSTM with weights of one byte."""
    tables, scales = [], []
    for each in weights:
        values, scale = zip(*(quantised(way) for way in each), strict=True)
        tables.append(graph.constant(np.stack([way.T for way in values]), "int8"))
        scales += [
            graph.constant(np.stack(scale)),
            graph.constant(np.zeros_like(np.stack(scale), np.int8), "int8"),
        ]
    given = [x, *tables, bias, steps, *entering, "", *scales]
    return graph.ops("DynamicQuantizeLSTM", given, 3, attributes, domain=MICROSOFT)


def _ordered(cell: Cell, name: str) -> Array:
    """A weight with its gates in ONNX's order."""
    gates = np.split(as_array(cell.weights()[name]), len(ORDERS[type(cell)]))
    return np.concatenate([gates[place] for place in ORDERS[type(cell)]])


def _bias(cell: Cell) -> Array:
    """The bias of the input's product, and that of the state's: ours is one, but for a GRU's b_hn."""
    inner = np.zeros(len(ORDERS[type(cell)]) * cell.hidden_size, dtype=np.float32)
    if "bias_hn" in cell.weights():
        inner[-cell.hidden_size :] = as_array(cell.weights()["bias_hn"])
    return np.concatenate([_ordered(cell, "bias"), inner])


def _loop(
    graph: Graph, cell: Cell, x: str, state: State, lengths: str | None, *, reverse: bool
) -> tuple[str, State]:
    """Step after step, by ONNX's Scan. From the right, the state waits until a row's last real step."""
    body = graph.inside("steps")
    sizes = cell.state_sizes
    before = tuple(body.input(graph.fresh("before"), "float32", ["batch", size]) for size in sizes)
    scanned = [project(graph, cell, x)]
    projected = body.input(graph.fresh("projected"), "float32", ["batch", "width"])
    if lengths is not None:
        zero, one = graph.constant(0, "int64"), graph.constant(1, "int64")
        count = graph.op("Squeeze", graph.size(x, 0))
        scanned.append(graph.op("Range", zero, count, one))
        time = body.input(graph.fresh("time"), "int64", [])
    after = step(body, cell, projected, before)
    shown = after[0]
    if lengths is not None:
        real = body.op("Unsqueeze", body.op("Less", time, lengths), body.axes(-1))
        after = tuple(body.op("Where", real, new, old) for new, old in zip(after, before, strict=True))
        shown = body.op("Where", real, shown, body.constant(0.0))
    for value, size in (*zip(after, sizes, strict=True), (shown, sizes[0])):
        body.output(value, graph.fresh("after"), "float32", ["batch", size])
    backward = int(reverse)
    found = graph.ops(
        "Scan",
        [*state, *scanned],
        len(sizes) + 1,
        {
            "body": body.body(),
            "num_scan_inputs": len(scanned),
            "scan_input_directions": [backward] * len(scanned),
            "scan_output_directions": [backward],
        },
    )
    return found[-1], tuple(found[:-1])
