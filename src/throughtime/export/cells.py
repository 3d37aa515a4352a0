"""One step of each cell as ONNX operators, from the cell's own weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from throughtime.cells import (
    GRU,
    LSTM,
    RNN,
    Cell,
    CoupledLSTM,
    LayerNormLSTM,
    MinGRU,
    MinLSTM,
    MogrifierLSTM,
    ProjectedLSTM,
)
from throughtime.errors import InputError
from throughtime.export.graph import Graph

State = tuple[str, ...]
ACTIVATIONS = {"tanh": "Tanh", "relu": "Relu"}
NORM_EPSILON = 1e-5


def project(graph: Graph, cell: Cell, x: str) -> str:
    """All that needs no state: [..., I] -> [..., P]."""
    weights = cell.weights()
    if isinstance(cell, MogrifierLSTM):
        return x
    if isinstance(cell, LayerNormLSTM):
        product = graph.linear(x, weights["weight_ih"])
        return normalised(graph, product, weights["gain_ih"], weights["bias"])
    return graph.linear(x, weights["weight_ih"], weights["bias"])


def step(graph: Graph, cell: Cell, projected: str, state: State) -> State:
    """The next state, from what `project` gave and the state."""
    return step_of(cell)(graph, cell, projected, state)


def step_of(cell: Cell) -> Callable[[Graph, Any, str, State], State]:
    """The equations of a cell; one that has none here is refused."""
    if type(cell) not in STEPS or (isinstance(cell, RNN) and cell.activation not in ACTIVATIONS):
        raise InputError(
            "export", f"knows no ONNX operators for the cell {type(cell).__name__}; train with another cell"
        )
    return STEPS[type(cell)]


def normalised(graph: Graph, x: str, gain: Tensor, bias: Tensor | None, epsilon: float = NORM_EPSILON) -> str:
    """Layer normalisation over the last axis."""
    shift = graph.constant(torch.zeros_like(gain).numpy()) if bias is None else graph.weight(bias)
    return graph.op("LayerNormalization", x, graph.weight(gain), shift, axis=-1, epsilon=epsilon)


def _rnn(graph: Graph, cell: RNN, projected: str, state: State) -> State:
    total = graph.op("Add", projected, graph.linear(state[0], cell.weights()["weight_hh"]))
    return (graph.op(ACTIVATIONS[str(cell.activation)], total),)


def _gru(graph: Graph, cell: GRU, projected: str, state: State) -> State:
    (h,), size, weights = state, cell.hidden_size, cell.weights()
    both = 2 * size
    x_rz, x_n = graph.slice(projected, 0, both, -1), graph.slice(projected, both, 3 * size, -1)
    recurrent = weights["weight_hh"]
    if cell.reset == "after":
        inner = weights["bias_hn"]
        bias = torch.cat([inner.new_zeros(both), inner])
        product = graph.linear(h, recurrent, bias)
        h_rz, h_n = graph.slice(product, 0, both, -1), graph.slice(product, both, 3 * size, -1)
        r, z = _halves(graph, graph.op("Sigmoid", graph.op("Add", x_rz, h_rz)))
        inside = graph.op("Mul", r, h_n)
    else:
        h_rz = graph.linear(h, recurrent[:both])
        r, z = _halves(graph, graph.op("Sigmoid", graph.op("Add", x_rz, h_rz)))
        inside = graph.linear(graph.op("Mul", r, h), recurrent[both:])
    n = graph.op("Tanh", graph.op("Add", x_n, inside))
    # (1 - z) n + z h, with one product less
    return (graph.op("Add", n, graph.op("Mul", z, graph.op("Sub", h, n))),)


def _lstm(graph: Graph, cell: LSTM, projected: str, state: State) -> State:
    total = graph.op("Add", projected, graph.linear(state[0], cell.weights()["weight_hh"]))
    c, o = _memory(graph, total, state[1])
    return graph.op("Mul", o, graph.op("Tanh", c)), c


def _memory(graph: Graph, gates: str, c: str) -> tuple[str, str]:
    """The next memory of an LSTM, and its output gate."""
    i, f, g, o = graph.ops("Split", [gates], 4, {"axis": -1, "num_outputs": 4})
    kept = graph.op("Mul", graph.op("Sigmoid", f), c)
    taken = graph.op("Mul", graph.op("Sigmoid", i), graph.op("Tanh", g))
    return graph.op("Add", kept, taken), graph.op("Sigmoid", o)


def _coupled(graph: Graph, cell: CoupledLSTM, projected: str, state: State) -> State:
    total = graph.op("Add", projected, graph.linear(state[0], cell.weights()["weight_hh"]))
    f, g, o = graph.ops("Split", [total], 3, {"axis": -1, "num_outputs": 3})
    kept = graph.op("Mul", graph.op("Sigmoid", f), state[1])
    taken = graph.op("Mul", graph.op("Sigmoid", graph.op("Neg", f)), graph.op("Tanh", g))
    c = graph.op("Add", kept, taken)
    return graph.op("Mul", graph.op("Sigmoid", o), graph.op("Tanh", c)), c


def _layer_norm(graph: Graph, cell: LayerNormLSTM, projected: str, state: State) -> State:
    weights = cell.weights()
    product = graph.linear(state[0], weights["weight_hh"])
    gates = graph.op("Add", projected, normalised(graph, product, weights["gain_hh"], None))
    c, o = _memory(graph, gates, state[1])
    shown = normalised(graph, c, weights["gain_c"], weights["bias_c"])
    return graph.op("Mul", o, graph.op("Tanh", shown)), c


def _projected(graph: Graph, cell: ProjectedLSTM, projected: str, state: State) -> State:
    weights = cell.weights()
    c, o = _memory(graph, graph.op("Add", projected, graph.linear(state[0], weights["weight_hh"])), state[1])
    return graph.linear(graph.op("Mul", o, graph.op("Tanh", c)), weights["weight_hr"]), c


def _mogrifier(graph: Graph, cell: MogrifierLSTM, projected: str, state: State) -> State:
    x, (h, c), weights = projected, state, cell.weights()
    two = graph.constant(2.0)
    for number in range(cell.rounds):
        if number % 2 == 0:
            gate = graph.op("Sigmoid", graph.linear(h, weights["weight_q"][number // 2]))
            x = graph.op("Mul", graph.op("Mul", two, gate), x)
        else:
            gate = graph.op("Sigmoid", graph.linear(x, weights["weight_r"][number // 2]))
            h = graph.op("Mul", graph.op("Mul", two, gate), h)
    given = graph.linear(x, weights["weight_ih"], weights["bias"])
    c, o = _memory(graph, graph.op("Add", given, graph.linear(h, weights["weight_hh"])), c)
    return graph.op("Mul", o, graph.op("Tanh", c)), c


def _mingru(graph: Graph, cell: MinGRU, projected: str, state: State) -> State:
    z, candidate = _halves(graph, projected)
    kept = graph.op("Mul", graph.op("Sigmoid", graph.op("Neg", z)), state[0])
    return (graph.op("Add", kept, graph.op("Mul", graph.op("Sigmoid", z), candidate)),)


def _minlstm(graph: Graph, cell: MinLSTM, projected: str, state: State) -> State:
    f, i, candidate = graph.ops("Split", [projected], 3, {"axis": -1, "num_outputs": 3})
    # ln sigmoid(f) - ln sigmoid(i) = softplus(-i) - softplus(-f)
    soft = [graph.op("Softplus", graph.op("Neg", gate)) for gate in (i, f)]
    keep = graph.op("Sub", *soft)
    kept = graph.op("Mul", graph.op("Sigmoid", keep), state[0])
    taken = graph.op("Mul", graph.op("Sigmoid", graph.op("Neg", keep)), candidate)
    return (graph.op("Add", kept, taken),)


def _halves(graph: Graph, value: str) -> tuple[str, str]:
    first, second = graph.ops("Split", [value], 2, {"axis": -1, "num_outputs": 2})
    return first, second


STEPS: dict[type[Cell], Callable[[Graph, Any, str, State], State]] = {
    RNN: _rnn,
    GRU: _gru,
    LSTM: _lstm,
    CoupledLSTM: _coupled,
    LayerNormLSTM: _layer_norm,
    ProjectedLSTM: _projected,
    MogrifierLSTM: _mogrifier,
    MinGRU: _mingru,
    MinLSTM: _minlstm,
}
"""Every cell of `throughtime.cells`. A new one is one function and one line here."""
