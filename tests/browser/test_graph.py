"""Graphs in JavaScript beside ONNX and torch: every operator, cell, structure and task, and the gates."""

from __future__ import annotations

import base64
import itertools
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from tests.browser.conftest import TASKS
from tests.extending.package.outside.leaky import LeakyCell
from tests.graphs.test_graphs import cases, whole
from torch import nn

from throughtime.cells import CELLS
from throughtime.files import PAGE
from throughtime.graphs.describe import OPERATORS, Constants, build_graphs, describe, round_weights
from throughtime.graphs.graph import Graph, for_page
from throughtime.graphs.write import OPSET, difference, number_names, to_onnx
from throughtime.inspection.gates import gates
from throughtime.layers.attention import Attention
from throughtime.layers.stack import Stack
from throughtime.models.cell_titles import find_titles
from throughtime.search.generate import Memory
from throughtime.tasks import TASKS as DECLARED
from throughtime.tasks.base import load
from throughtime.tasks.translate.network import (
    PRESETS,
    _cases,
    build,
    build_decoder_graph,
    build_encoder_graph,
)

NODE = """
import { Graph } from "page/engine/graph.js";
import { openProducts } from "page/engine/products.js";
import { openConstants } from "page/engine/model.js";
import { tensor } from "page/engine/tensor.js";
const number = { inf: Infinity, "-inf": -Infinity, nan: NaN };
const read = ({ type, dims, data }) => tensor(type, dims, data.map((one) => number[one] ?? one));
const write = ({ type, dims, data }) =>
  ({ type, dims, data: [...data].map((one) => (Number.isFinite(one) ? one : String(one).toLowerCase())) });
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const found = [];
for (const { graph, constants, block, runs } of data.graphs) {
  for (const wasm of [data.products, null]) {
    const open = (size) => openProducts(wasm && bytes(wasm), size);
    const { tensors, products } = await openConstants(constants, bytes(block), open);
    if (products.kind !== (wasm ? "simd" : "plain")) throw new Error(products.kind);
    const opened = new Graph(graph, tensors, products);
    for (const { given, names, watch } of runs) {
      const inputs = Object.fromEntries(Object.entries(given).map(([name, one]) => [name, read(one)]));
      const { watched = [], ...told } = opened.run(inputs, names, watch);
      const marks = watched.map(({ values, ...mark }) => ({ ...mark, values: writeAll(values) }));
      found.push({ ...writeAll(told), watched: marks });
    }
  }
}
function writeAll(values) {
  return Object.fromEntries(Object.entries(values).map(([name, one]) => [name, write(one)]));
}
answer(found);
"""
CLOSE = 2e-6
RNG = np.random.default_rng(0)


def to_json(array):
    array = np.asarray(array)
    data = array.astype(float if array.dtype.kind == "f" else int).reshape(-1).tolist()
    finite = [one if np.isfinite(one) else str(one) for one in data]
    return {"type": str(array.dtype), "dims": list(array.shape), "data": finite}


def from_json(one):
    kind = {"float32": np.float32, "bool": bool}.get(one["type"], np.int64)
    return np.array([float(each) for each in one["data"]]).astype(kind).reshape(one["dims"])


class Runs:
    """Graphs and their inputs, for one process of node."""

    def __init__(self, node):
        self.node, self.asked, self.expected = node, [], []

    def add(self, graph, many, titles=None, weights="float32"):
        """Run a graph for many (inputs, expected outputs); with titles, gates are told too."""
        constants = Constants(weights)
        described = describe(graph, constants, titles or {})
        runs = [
            {
                "given": {name: to_json(one) for name, one in given.items()},
                "names": list(expected),
                "watch": titles is not None,
            }
            for given, expected in many
        ]
        block = base64.b64encode(b"".join(constants.blocks)).decode()
        self.asked.append({"graph": described, "constants": constants.places, "block": block, "runs": runs})
        self.expected += [expected for _ in range(2) for _, expected in many]

    def check(self, tolerance=CLOSE):
        """Compare all outputs, by WebAssembly and without; return what was watched."""
        products = base64.b64encode((PAGE / "engine" / "products.wasm").read_bytes()).decode()
        found = self.node(NODE, {"graphs": self.asked, "products": products})
        assert len(found) == len(self.expected) > 0
        for told, expected in zip(found, self.expected, strict=True):
            for name, theirs in expected.items():
                ours = from_json(told[name])
                assert ours.shape == theirs.shape, name
                if theirs.dtype.kind == "f":
                    finite = np.isfinite(theirs)
                    assert (np.isfinite(ours) == finite).all()
                    assert (ours[~finite] == theirs[~finite]).all()
                    assert difference(ours[finite], theirs[finite]) <= tolerance, name
                else:
                    assert (ours == theirs).all(), name
        return [
            [
                {**mark, "values": {k: from_json(v) for k, v in mark["values"].items()}}
                for mark in told["watched"]
            ]
            for told in found
        ]


@pytest.fixture
def graphs(node):
    return Runs(node)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def whole_numbers(high, *shape):
    return RNG.integers(0, high, shape)


def operators():
    """(kind, inputs, attributes, number of outputs) of every operator; lists are constant inputs."""
    pairs = [
        ((3, 4), (3, 4)),
        ((3, 4), (4,)),
        ((2, 3, 1), (3, 4)),
        ((), (2, 3)),
        ((2, 1, 3), (1, 5, 1)),
        ((0, 3), (3,)),
    ]
    for (left, right), kind in itertools.product(pairs, ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow")):
        y = np.abs(floats(*right)) + np.float32(0.5)
        yield kind, [np.abs(floats(*left)) if kind == "Pow" else floats(*left), y], {}, 1
    for left, right in pairs:
        yield "Div", [RNG.integers(-9, 9, left), RNG.integers(1, 4, right)], {}, 1
        x, y = whole_numbers(3, *left), whole_numbers(3, *right)
        for kind in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"):
            yield kind, [x, y], {}, 1
        for kind in ("And", "Or"):
            yield kind, [x > 1, y > 1], {}, 1
        yield "Where", [x > 1, floats(*left), floats(*right)], {}, 1
        yield "Where", [x > 1, floats(1), floats(*right)], {}, 1
    for kind in ("Neg", "Abs", "Exp", "Sin", "Cos", "Relu", "Sigmoid", "Tanh", "Softplus"):
        yield kind, [3 * floats(2, 5)], {}, 1
    for kind in ("Log", "Sqrt", "Reciprocal"):
        yield kind, [np.abs(floats(2, 5)) + np.float32(0.1)], {}, 1
    for apart, dilation, pads in ((1, 1, [1, 1]), (2, 2, [2, 2]), (3, 1, [0, 2]), (1, 3, [0, 0])):
        spaced = {"strides": [apart], "dilations": [dilation], "pads": pads, "kernel_shape": [3]}
        yield "Conv", [floats(2, 3, 11), floats(4, 3, 3)], spaced, 1
    yield "Tanh", [np.array([-90, 90, 0, 1e-4], np.float32)], {}, 1
    yield "Not", [whole_numbers(2, 4) > 0], {}, 1
    yield "Identity", [floats(2, 3)], {}, 1
    for kind, (axes, keep) in itertools.product(
        ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"),
        (([0], 0), ([-1], 1), ([0, 2], 0), ([1], 1)),
    ):
        yield kind, [floats(2, 3, 4), axes], {"keepdims": keep}, 1
    for kind, axis in itertools.product(("Softmax", "LogSoftmax"), (0, 1, -1)):
        yield kind, [4 * floats(2, 3, 5)], {"axis": axis}, 1
    yield "LogSoftmax", [np.array([[0.5, -np.inf, 1.0]], np.float32)], {"axis": -1}, 1
    yield "LayerNormalization", [floats(2, 3, 6), floats(6), floats(6)], {"axis": -1, "epsilon": 1e-5}, 1
    for perm in ([1, 0, 2], [2, 0, 1], [0, 2, 1]):
        yield "Transpose", [floats(2, 3, 4)], {"perm": perm}, 1
    yield "Transpose", [floats(3, 4)], {}, 1
    for shape in ([3, 4], [2, 1, 3, 4], [1, 1]):
        yield "Expand", [floats(3, 1), shape], {}, 1
    for shape in ([-1], [0, -1], [4, 3, 2], [0, 0, 2, -1]):
        yield "Reshape", [floats(2, 3, 4), shape], {}, 1
    yield "Reshape", [floats(0, 3), [0, 3, 1]], {"allowzero": 1}, 1
    yield "Squeeze", [floats(1, 3, 1), [0]], {}, 1
    yield "Squeeze", [floats(1, 3, 1), [-1, 0]], {}, 1
    yield "Unsqueeze", [floats(3, 4), [0, -1]], {}, 1
    yield "Unsqueeze", [floats(3, 4), [1]], {}, 1
    for start, end, axis, step in (
        (1, 3, 0, 1),
        (-2, 2**31 - 1, 1, 1),
        (0, -1, -1, 1),
        (4, -9, 1, -2),
        (3, 2, 0, 1),
    ):
        yield "Slice", [floats(4, 5), [start], [end], [axis], [step]], {}, 1
    for axis in (0, 1, -1):
        yield "Concat", [floats(2, 3), floats(2, 3), floats(2, 3)], {"axis": axis}, 1
    yield "Concat", [floats(2, 1, 3), floats(2, 4, 3)], {"axis": 1}, 1
    yield "Split", [floats(2, 6)], {"axis": -1, "num_outputs": 3}, 3
    yield "Split", [floats(7, 2)], {"axis": 0, "num_outputs": 3}, 3
    yield "Split", [floats(6, 2), [1, 5]], {"axis": 0}, 2
    yield "Pad", [floats(2, 3), [1, 0, 0, 2]], {}, 1
    yield "Pad", [floats(2, 3, 2), [0, 1, 1, 2, 0, 0], np.float32(7)], {}, 1
    yield "Tile", [floats(2, 3), [3, 2]], {}, 1
    for axis, shape in itertools.product((0, 1), ((2,), (2, 3), ())):
        yield "Gather", [floats(4, 4, 2), whole_numbers(8, *shape) - 4], {"axis": axis}, 1
    yield "GatherElements", [floats(3, 4), whole_numbers(3, 2, 4)], {"axis": 0}, 1
    yield "GatherElements", [floats(3, 4), whole_numbers(4, 3, 2) - 4], {"axis": 1}, 1
    yield "ScatterElements", [floats(6), np.array([4, 1]), floats(2)], {"axis": 0}, 1
    for k in (1, 3, 6):
        yield "TopK", [np.round(floats(4, 6), 1), [k]], {"axis": -1}, 2
    yield "TopK", [np.round(floats(4, 6), 1), [2]], {"axis": -1, "largest": 0}, 2
    for kind, to in itertools.product(
        (floats(3, 2) * 3, whole_numbers(3, 4)), ("int64", "float32", "bool", "int32")
    ):
        yield "Cast", [kind], {"to": to}, 1
    yield "Range", [np.int64(2), np.int64(9), np.int64(3)], {}, 1
    yield "Shape", [floats(2, 3, 4)], {"start": 1, "end": 3}, 1
    for left, right in (
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 5, 1, 3), (2, 1, 3, 4)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
    ):
        yield "MatMul", [floats(*left), floats(*right)], {}, 1
    yield "MatMul", [floats(2, 5, 3), floats(3, 1)], {}, 1
    yield "Gemm", [floats(2, 3), floats(4, 3), floats(4)], {"transB": 1}, 1
    yield "Gemm", [floats(3, 2), floats(3, 4), floats(2, 4)], {"transA": 1, "alpha": 0.5, "beta": 2.0}, 1


def evaluate(kind, inputs, attributes, count):
    """What the reference implementation of ONNX computes."""
    if kind == "Cast":
        attributes = {"to": onnx.helper.np_dtype_to_tensor_dtype(np.dtype(attributes["to"]))}
    names = [f"x{number}" for number in range(len(inputs))]
    results = [f"y{number}" for number in range(count)]

    def values(names):
        return [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None) for name in names]

    node = onnx.helper.make_node(kind, names, results, **attributes)
    graph = onnx.helper.make_graph([node], "one", values(names), values(results))
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)])
    given = dict(zip(names, (np.asarray(one) for one in inputs), strict=True))
    with np.errstate(divide="ignore"):  # ln 0
        return [np.asarray(one) for one in ReferenceEvaluator(model).run(None, given)]


def test_every_operator_computes_what_onnx_defines(graphs, node):
    seen = set()
    for kind, inputs, attributes, count in operators():
        graph, given, names = Graph("one"), {}, []
        for number, one in enumerate(inputs):
            if isinstance(one, list):
                names.append(graph.axes(*one))
            else:
                names.append(graph.input(f"x{number}", str(np.asarray(one).dtype), np.shape(one)))
                given[names[-1]] = np.asarray(one)
        told = evaluate(kind, inputs, attributes, count)
        for number, (value, one) in enumerate(
            zip(graph.ops(kind, names, count, attributes), told, strict=True)
        ):
            graph.output(value, f"y{number}", str(one.dtype), one.shape)
        graphs.add(graph, [(given, {f"y{number}": one for number, one in enumerate(told)})])
        seen.add(kind)
    graphs.check()
    script = 'import { OPERATORS } from "page/engine/operators.js"; answer(Object.keys(OPERATORS));'
    assert seen == set(node(script)) == OPERATORS - {"Scan"}


def test_the_rows_of_products(graphs):
    """Blocks of rows, of outputs and of four numbers, and what is left over."""
    for rows, inner, outputs, bias in itertools.product(
        (1, 2, 3, 4, 7, 9), (1, 6, 16), (1, 3, 8), (True, False)
    ):
        graph = Graph("product")
        x = graph.input("x", "float32", ["rows", inner])
        weight, shift = torch.randn(outputs, inner), torch.randn(outputs)
        graph.output(graph.linear(x, weight, shift if bias else None), "y", "float32", ["rows", outputs])
        given = torch.randn(rows, inner)
        told = given @ weight.T + (shift if bias else 0)
        graphs.add(graph, [({"x": given.numpy()}, {"y": told.numpy()})])
    # more than fits at once beside the weights
    weight, given = torch.randn(70, 500), torch.randn(900, 500)
    graph = Graph("large")
    graph.output(
        graph.linear(graph.input("x", "float32", ["rows", 500]), weight), "y", "float32", ["rows", 70]
    )
    graphs.add(graph, [({"x": given.numpy()}, {"y": (given @ weight.T).numpy()})])
    graphs.check()


@torch.no_grad()
def test_every_cell_runs_and_shows_its_gates(graphs):
    """Also one that another package adds; forwards and backwards, through ragged batches."""
    watched = []
    for cell in [*CELLS, LeakyCell]:
        torch.manual_seed(1)
        network = nn.Module()
        network.stack = stack = Stack(cell, 5, 6, 2, bidirectional=True, initial="learned")
        with for_page():
            graph = whole(stack)
        assert {node.kind for node in graph.nodes}.isdisjoint({"RNN", "GRU", "LSTM"})
        graphs.add(graph, [(one.given, one.expected) for one in cases(stack)])
        x = torch.randn(7, 5)
        first = stack.layers[0]
        state = stack.initial_state(1)
        y, reached = stack(x[:, None], state)
        told = {"y": y, **number_names("next", reached)}
        given = {"x": x[:, None], **number_names("state", state), "lengths": torch.tensor([7])}
        arrays = [{name: one.numpy() for name, one in values.items()} for values in (given, told)]
        graphs.add(graph, [arrays], find_titles(network))
        right = {name: one.flip(0) for name, one in gates(first.from_right, x.flip(0)).items()}
        watched.append((gates(first.from_left, x), right, stack.layers[0].from_left))
    found = [marks for marks in graphs.check() if marks]
    assert len(found) == 2 * len(watched)  # with WebAssembly and without
    for number, marks in enumerate(found):
        left, right, cell = watched[number // 2]
        titles = [mark["title"] for mark in marks]
        assert titles == [f"layer {layer} from the {way}" for layer in (1, 2) for way in ("left", "right")]
        assert {mark["cell"] for mark in marks} == {type(cell).__name__}
        assert {mark["keep"] for mark in marks} == {cell.keeping_gate}
        for mark, expected in zip(marks, (left, right), strict=False):
            assert mark["values"].keys() == expected.keys()
            for letter, theirs in expected.items():
                assert difference(mark["values"][letter][:, 0], theirs.numpy()) <= CLOSE, (cell, letter)


@torch.no_grad()
@pytest.mark.parametrize("preset", PRESETS)
def test_every_structure_of_a_translator(graphs, preset):
    torch.manual_seed(1)
    model = build(preset, 30, 40, bos_id=1, embedding_size=8, hidden_size=16).eval()
    with for_page():
        built = {"encoder": build_encoder_graph(model, False), "decoder": build_decoder_graph(model, False)}
    told = list(_cases(model, 30, 40, None))
    for part, graph in built.items():
        graphs.add(graph, [(one.given, one.expected) for one in told if one.part == part])
    graphs.check()


@pytest.mark.parametrize("task", [task for task in TASKS if task != "ngram"])
def test_the_graphs_of_every_task(graphs, runs, task):
    exported = DECLARED[task].part("exporter")(load(runs[task], "cpu"))
    told = list(exported.cases())
    for part, graph in build_graphs(exported).items():
        graphs.add(graph, [(one.given, one.expected) for one in told if one.part == part])
    graphs.check()


@torch.no_grad()
@pytest.mark.parametrize("weights", ["int8", "float16"])
def test_rounded_weights_are_those_of_python(graphs, weights):
    """Beside onnxruntime, with the graphs of the model whose weights were rounded in Python."""
    torch.manual_seed(1)
    model = build("attention", 300, 400, bos_id=1, embedding_size=24, hidden_size=40).eval()

    def build_both():
        return {"encoder": build_encoder_graph(model, False), "decoder": build_decoder_graph(model, False)}

    with for_page():
        built, rounded = build_both(), build_both()
    round_weights(rounded, weights)
    far = 0.0
    for part, graph in rounded.items():
        session = onnxruntime.InferenceSession(to_onnx(graph), providers=["CPUExecutionProvider"])
        many = []
        for one in _cases(model, 300, 400, None):
            if one.part == part:
                outputs = session.run(list(one.expected), dict(one.given))
                many.append((one.given, dict(zip(one.expected, outputs, strict=True))))
                far = max(far, *map(difference, outputs, one.expected.values()))
        graphs.add(built[part], many, weights=weights)
    assert {one["stored"] for asked in graphs.asked for one in asked["constants"]} >= {weights, "float32"}
    assert far > 10 * CLOSE  # the weights were rounded at all
    graphs.check()


@torch.no_grad()
def test_the_scores_of_attention_are_those_of_the_network(graphs):
    for attention in ("additive", "dot", "general"):
        torch.manual_seed(2)
        model = build(
            "attention", 30, 40, bos_id=1, embedding_size=8, hidden_size=16, attention=attention, scaled=True
        ).eval()
        with for_page():
            graph = build_decoder_graph(model, False)
        case = next(one for one in _cases(model, 30, 40, None) if one.part == "decoder")
        module = next(one for one in model.modules() if isinstance(one, Attention))
        given = {name: torch.from_numpy(one) for name, one in case.given.items()}
        state, kept = (
            tuple(one for name, one in given.items() if name.startswith(stem)) for stem in ("state", "kept")
        )
        asked = []
        hook = module.register_forward_pre_hook(lambda own, inputs, asked=asked: asked.append(inputs[:2]))
        model.decoder.step(given["last"], state, Memory(kept, torch.tensor([0]), 1))
        hook.remove()
        scores = module.scores(*asked[0]) * module.scale
        graphs.add(graph, [(case.given, {"attention_scores": scores.flatten(0, 1).numpy()})])
    graphs.check()


def test_the_compiled_products_come_from_their_source(tmp_path):
    """`make wasm` gives the very bytes that are committed, with the compiler that it names."""
    clang = shutil.which("clang")
    if clang is None or shutil.which("wasm-ld") is None:
        pytest.skip("no clang or wasm-ld on this machine: apt-get install clang lld")
    version = subprocess.run([clang, "--version"], capture_output=True, text=True, check=True).stdout
    if "Debian clang version 14." not in version:
        pytest.skip(f"the bytes are those of Debian's clang 14, not of {version.splitlines()[0]}")
    shutil.copy(PAGE / "engine" / "products.c", tmp_path / "products.c")
    root = Path(__file__).parents[2]
    subprocess.run(["make", "-s", "wasm", f"ENGINE={tmp_path}"], cwd=root, check=True, timeout=120)
    assert (tmp_path / "products.wasm").read_bytes() == (PAGE / "engine" / "products.wasm").read_bytes()
