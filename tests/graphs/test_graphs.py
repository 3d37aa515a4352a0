"""Graphs of every cell, structure and precision beside the torch model that they were made of."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from tests.refusals import refuses

from throughtime.cells import CELLS, LSTM, RNN, LinearCell
from throughtime.errors import ThroughtimeError
from throughtime.graphs.graph import Graph, quantise
from throughtime.graphs.write import Case, number_names, to_onnx, verify
from throughtime.layers.attention import Attention
from throughtime.layers.stack import Stack
from throughtime.tasks.translate.network import (
    PRESETS,
    _cases,
    build,
    build_decoder_graph,
    build_encoder_graph,
)


def whole(stack, lengths=True):
    """A graph of a stack over all steps."""
    graph = Graph("stack")
    x = graph.input("x", "float32", ["time", "batch", stack.input_size])
    state = tuple(
        graph.input(name, "float32", ["batch", size])
        for name, size in number_names("state", stack.state_sizes).items()
    )
    given = graph.input("lengths", "int64", ["batch"]) if lengths else None
    y, reached = stack.graph(graph, x, state, given)
    graph.output(y, "y", "float32", ["time", "batch", stack.output_size])
    for (name, value), size in zip(number_names("next", reached).items(), stack.state_sizes, strict=True):
        graph.output(value, name, "float32", ["batch", size])
    return graph


@torch.no_grad()
def cases(stack, lengths=True):
    """Batches of one and three, short and long, ragged, with an empty row, from any state."""
    for batch, steps in ((1, 1), (1, 30), (3, 6), (3, 50)):
        x = torch.randn(steps, batch, stack.input_size)
        state = tuple(torch.randn(batch, size) / 2 for size in stack.state_sizes)
        ends = torch.tensor([steps, steps // 2, 0][:batch]) if lengths else None
        y, reached = stack(x, state, ends)
        given = {"x": x, **number_names("state", state), **({} if ends is None else {"lengths": ends})}
        told = {"y": y, **number_names("next", reached)}
        arrays = [{name: value.numpy() for name, value in one.items()} for one in (given, told)]
        yield Case("stack", f"{batch} x {steps}", *arrays)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_runs_through_ragged_time(cell, bidirectional):
    torch.manual_seed(1)
    stack = Stack(cell, 5, 6, 2, bidirectional=bidirectional, initial="learned")
    assert verify({"stack": to_onnx(whole(stack))}, cases(stack), "float32")


@pytest.mark.parametrize("lengths", [False, True])
def test_residuals_and_norms_are_kept(lengths):
    torch.manual_seed(1)
    stack = Stack("gru", 6, 6, 2, residual=True, layer_norm=True)
    assert verify({"stack": to_onnx(whole(stack, lengths))}, cases(stack, lengths), "float32")


@pytest.mark.parametrize("cell", CELLS)
def test_one_step_of_every_cell(cell):
    torch.manual_seed(1)
    stack = Stack(cell, 5, 6, 2)
    graph = Graph("step")
    x = graph.input("x", "float32", ["batch", 5])
    sizes = stack.state_sizes
    state = tuple(
        graph.input(name, "float32", ["batch", size]) for name, size in number_names("state", sizes).items()
    )
    y, reached = stack.graph_step(graph, x, state)
    for (name, value), size in zip(
        {"y": y, **number_names("next", reached)}.items(), (6, *sizes), strict=True
    ):
        graph.output(value, name, "float32", ["batch", "width"] if name == "y" else ["batch", size])
    with torch.no_grad():
        inputs, entering = torch.randn(4, 5), tuple(torch.randn(4, size) for size in sizes)
        told, after = stack.step(inputs, entering)
    given = {name: value.numpy() for name, value in {"x": inputs, **number_names("state", entering)}.items()}
    expected = {name: value.numpy() for name, value in {"y": told, **number_names("next", after)}.items()}
    assert verify({"step": to_onnx(graph)}, [Case("step", "4", given, expected)], "float32")


def translator(preset, **options):
    torch.manual_seed(1)
    return build(preset, 30, 40, bos_id=1, embedding_size=8, hidden_size=16, **options).eval()


def verify_translator(model, int8=False):
    graphs = {"encoder": build_encoder_graph(model, int8), "decoder": build_decoder_graph(model, int8)}
    models = {part: to_onnx(graph) for part, graph in graphs.items()}
    found = verify(models, _cases(model, 30, 40, None), "int8" if int8 else "float32")
    assert {one["part"] for one in found} == {"encoder", "decoder"}


@pytest.mark.parametrize("int8", [False, True], ids=["float32", "int8"])
@pytest.mark.parametrize("preset", PRESETS)
def test_every_structure_of_a_translator(preset, int8):
    verify_translator(translator(preset), int8)


@pytest.mark.parametrize("attention", ["dot", "general"])
def test_every_attention(attention):
    verify_translator(translator("attention", attention=attention, scaled=True))


class Distance(Attention):
    """An attention of another package: -|q - h|^2."""

    def __init__(self, query_size, memory_size, *, scaled=False):
        super().__init__(query_size, memory_size, memory_size, scaled=scaled)

    def scores(self, query, keys):
        return -torch.cdist(query, keys).square()


class ExportedDistance(Distance):
    """The same with its own graph."""

    def graph_scores(self, ops, query, keys):
        apart = ops.op("Sub", ops.op("Unsqueeze", query, ops.axes(2)), ops.op("Unsqueeze", keys, ops.axes(1)))
        return ops.op("Neg", ops.op("ReduceSumSquare", apart, ops.axes(3), keepdims=0))


def test_an_outside_attention_exports_by_what_it_declares():
    model = translator("attention")
    attention = model.decoder.attention
    model.decoder.attention = ExportedDistance(attention.query_size, attention.memory_size)
    verify_translator(model)
    model.decoder.attention = Distance(attention.query_size, attention.memory_size)
    with refuses("export", "Distance", "graph_scores"):
        build_decoder_graph(model, False)


class Slower(LSTM):
    """An LSTM with another step: what its base class declares of graphs no longer holds."""

    def step(self, projected, state):
        return super().step(projected / 2, state)


class Halved(Slower):
    """The same with its own graph; no operator of ONNX has these equations."""

    def graph_step(self, ops, projected, state):
        return super().graph_step(ops, ops.op("Mul", projected, ops.constant(0.5)), state)


class Forgetting(LinearCell):
    """A cell of one's own, exported by what it declares."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.weight_ih = torch.nn.Parameter(torch.randn(hidden_size, input_size))
        self.bias = torch.nn.Parameter(torch.randn(hidden_size))

    def coefficients(self, projected):
        return torch.sigmoid(projected), projected

    def graph_coefficients(self, ops, projected):
        return ops.op("Sigmoid", projected), projected


@pytest.mark.parametrize(
    ("cell", "facts"),
    [
        (RNN(3, 4, activation=torch.sin), ("cell RNN", "tanh", "relu")),
        (Slower(3, 4), ("cell Slower", "step", "graph_step")),
    ],
)
def test_a_cell_without_a_graph_is_refused(cell, facts):
    with refuses(*facts):
        whole(Stack.of([cell]))


@pytest.mark.parametrize("cell", [Halved, Forgetting])
def test_a_cell_of_ones_own_is_exported(cell):
    torch.manual_seed(1)
    stack = Stack(cell, 5, 6, 2, bidirectional=True)
    assert verify({"stack": to_onnx(whole(stack))}, cases(stack), "float32")


def test_a_graph_that_computes_another_thing_fails():
    torch.manual_seed(1)
    right, wrong = Stack("gru", 5, 6), Stack("gru", 5, 6)
    with refuses("y", "1 x 1", error=ThroughtimeError):
        verify({"stack": to_onnx(whole(wrong))}, cases(right), "float32")


def test_a_tied_table_is_kept_once():
    table = torch.randn(50, 8)
    for int8, size in ((False, 50 * 8 * 4), (True, 50 * 8)):
        graph = Graph("tied", int8=int8)
        ids = graph.input("ids", "int64", ["batch"])
        graph.output(graph.linear(graph.lookup(table, ids), table), "y", "float32", ["batch", 50])
        assert size < len(to_onnx(graph)) < size + 1000


def test_a_table_in_bytes_is_off_by_half_a_step_at_most():
    table = np.random.default_rng(1).normal(size=(9, 30))
    values, scale = quantise(table)
    assert values.dtype == np.int8
    assert (np.abs(values * scale[:, None] - table) <= 0.5001 * scale[:, None]).all()


def test_a_graph_is_plain_and_needs_neither_onnx_nor_onnxruntime():
    program = """
import sys
sys.modules["onnx"] = sys.modules["onnxruntime"] = None  # whoever imports them fails
import subprocess
import sys

import numpy as np
import throughtime.api
from throughtime.graphs.graph import Graph, Value
from throughtime.layers.stack import Stack
graph = Graph("loop")
x = graph.input("x", "float32", ["time", "batch", 3])
y, _ = Stack("mingru", 3, 4).graph(graph, x)
graph.output(y, "y", "float32", ["time", "batch", 4])
[loop] = [node for node in graph.program() if node.body is not None]
assert loop.kind == "Scan" and loop.body.outputs[0].dtype == "float32"
assert graph.inputs == [Value("x", "float32", ("time", "batch", 3))]
values = {one.name for one in graph.inputs} | set(graph.constants)
for node in graph.program():
    assert {name for name in node.inputs if name} <= values, node
    values |= set(node.outputs)
    assert all(isinstance(one, int | float | str | list) for one in node.attributes.values()), node
assert {one.name for one in graph.outputs} <= values
assert all(isinstance(array, np.ndarray) for array in graph.constants.values())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
