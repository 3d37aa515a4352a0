"""A model as one block of bytes that JavaScript reads: its graphs as JSON, then its weights.

The block is the length of the JSON in four bytes, the JSON, spaces up to a multiple of four bytes, and the
constants of all graphs, each at a multiple of four bytes. A constant is int8 with a scale for each row,
float16, float32, int32 (also for int64, which pages have not) or bool; one that several graphs use is stored
once.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from throughtime.errors import InputError
from throughtime.graphs.graph import Array, Graph, Mark, Node, for_page
from throughtime.graphs.write import ModelExport
from throughtime.text.portable import portable_files

LEVELS = 127
"""The largest int8 weight: products are in float32, so that nothing can overflow."""
SMALL = 512
"""Matrices with fewer numbers, and those with fewer than `NARROW` columns, stay in float32."""
NARROW = 8
MAX_ID = 2**31 - 1
WEIGHTS = ("int8", "float16", "float32")
OPERATORS = frozenset(
    "Abs Add And Cast Concat Conv Cos Div Equal Exp Expand Gather GatherElements Gemm Greater "
    "GreaterOrEqual Identity LayerNormalization Less LessOrEqual Log LogSoftmax MatMul Max Min Mul "
    "Neg Not Or Pad Pow Range Reciprocal ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Relu "
    "Reshape Scan ScatterElements Shape Sigmoid Sin Slice Softmax Softplus Split Sqrt Squeeze Sub "
    "Tanh Tile TopK Transpose Unsqueeze Where".split()
)
"""What a page computes: `Scan` and the operators in page/engine/operators.js."""


def pack_model(
    exported: ModelExport,
    about: Mapping[str, Any],
    titles: Mapping[int, str],
    weights: str = "int8",
    sample: bool = True,
) -> bytes:
    """The block of a model. `about` is what lists of models say; `titles` names cells by their `id`.

    With `sample`, it holds a few rows of the training data if pages of its task can show them.
    """
    constants = Constants(weights)
    graphs = {part: describe(graph, constants, titles) for part, graph in build_graphs(exported).items()}
    with tempfile.TemporaryDirectory() as folder:
        exported.save(Path(folder))
        files = portable_files(Path(folder)) if any(Path(folder).iterdir()) else {}
    values = {
        "about": about,
        "settings": {**exported.settings, **exported.page(sample)},
        "files": files,
        "graphs": graphs,
        "constants": constants.places,
    }
    try:
        # Infinities and NaN are not JSON.
        text = json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        raise InputError("export", "the model has a setting that is not a finite number") from None
    text += b" " * (-len(text) % 4)
    return len(text).to_bytes(4, "little") + text + b"".join(constants.blocks)


def build_graphs(exported: ModelExport) -> dict[str, Graph]:
    """The graphs of a model as a page runs them, with weights in float32."""
    with for_page():
        return exported.graphs(False)


def round_weights(graphs: Mapping[str, Graph], weights: str) -> None:
    """Replace the constants of graphs by what a file with these weights holds."""
    for graph in graphs.values():
        for name, array in graph.constants.items():
            graph.constants[name] = _restore(*encode(array, weights), array)


def describe(graph: Graph, constants: Constants, titles: Mapping[int, str]) -> dict[str, Any]:
    """A graph in lists and numbers; its constants are added to `constants`.

    >>> graph = Graph("double")
    >>> x = graph.input("x", "float32", ["batch"])
    >>> graph.output(graph.op("Mul", x, graph.constant(2.0)), "y", "float32", ["batch"])
    >>> found = describe(graph, Constants(), {})
    >>> found["nodes"]
    [['Mul', ['x', 'weight_1'], ['y'], {}]]
    >>> found["constants"]
    {'weight_1': 0}
    """
    nodes = graph.program()
    return {
        "inputs": [[value.name, value.dtype, list(value.shape)] for value in graph.inputs],
        "outputs": [[value.name, value.dtype, list(value.shape)] for value in graph.outputs],
        "nodes": [_describe_node(node, titles) for node in nodes],
        "constants": {name: constants.add(array) for name, array in graph.constants.items()},
        "marks": _describe_marks(graph.marks, titles),
    }


def _describe_node(node: Node, titles: Mapping[int, str]) -> list[Any]:
    if node.kind not in OPERATORS:
        known = ", ".join(sorted(OPERATORS))
        raise InputError(
            "export", f"uses the operator {node.kind}, which pages cannot compute; they have {known}"
        )
    values: list[Any] = [node.kind, list(node.inputs), list(node.outputs), dict(node.attributes)]
    if node.body is not None:
        body = node.body
        values.append(
            {
                "inputs": [value.name for value in body.inputs],
                "outputs": [value.name for value in body.outputs],
                "nodes": [_describe_node(each, titles) for each in body.nodes],
                "marks": _describe_marks(body.marks, titles),
            }
        )
    return values


def _describe_marks(marks: list[Mark], titles: Mapping[int, str]) -> list[dict[str, Any]]:
    """Where each cell with a title has its gates; the letters are those of `inspection.gates`."""
    return [
        {
            "title": titles[id(mark.cell)],
            "cell": type(mark.cell).__name__,
            "keep": mark.cell.keeping_gate,
            "values": [
                *([value, list(parts)] for value, parts in mark.gates),
                *([value, [name]] for value, name in zip(mark.state, mark.cell.state_names, strict=True)),
            ],
        }
        for mark in marks
        if id(mark.cell) in titles
    ]


class Constants:
    """The constants of a model, one after another, and where each begins; equal ones are stored once."""

    def __init__(self, weights: str = "int8") -> None:
        self.weights = weights
        self.blocks: list[bytes] = []
        self.places: list[dict[str, Any]] = []
        self._size = 0
        self._known: dict[tuple[Any, ...], int] = {}

    def add(self, array: Array) -> int:
        """Store an array; return its number."""
        stored, scale = encode(array, self.weights)
        digest = hashlib.sha256(stored.tobytes() + (b"" if scale is None else scale.tobytes())).digest()
        key = (str(array.dtype), array.shape, digest)
        if key not in self._known:
            self._known[key] = len(self.places)
            entry: dict[str, Any] = {
                "type": str(array.dtype),
                "shape": list(array.shape),
                "stored": str(stored.dtype),
                "place": self._append(stored),
            }
            if scale is not None:
                entry["scale"] = self._append(scale)
            self.places.append(entry)
        return self._known[key]

    def _append(self, array: Array) -> int:
        begin, block = self._size, array.tobytes()
        block += bytes(-len(block) % 4)
        self.blocks.append(block)
        self._size += len(block)
        return begin


def encode(array: Array, weights: str) -> tuple[Array, Array | None]:
    """An array as it is stored, and the scales of its rows if it is in int8.

    >>> stored, scale = encode(np.tile(np.float32([[-1.27, 0.01]]), (100, 8)), "int8")
    >>> stored[0, :2].tolist(), scale.shape
    ([-127, 1], (100,))
    """
    if array.dtype == np.float32:
        is_matrix = array.ndim >= 2 and array.size >= SMALL and array.shape[-1] >= NARROW
        if not is_matrix or weights == "float32":
            return array, None
        if weights == "float16":
            if np.abs(array).max() > np.finfo(np.float16).max:
                problem = "float16 ends at 65,504, and the model has larger ones; use float32"
                raise InputError("weights", problem)
            return array.astype(np.float16), None
        rows = array.reshape(-1, array.shape[-1])
        largest = np.abs(rows).max(axis=1)
        scale = np.where(largest > 0, largest / LEVELS, 1.0).astype(np.float32)
        return np.rint(rows / scale[:, None]).astype(np.int8).reshape(array.shape), scale
    if array.dtype == np.bool_:
        return array.astype(np.uint8), None
    return np.clip(array, -MAX_ID - 1, MAX_ID).astype(np.int32), None


def _restore(stored: Array, scale: Array | None, like: Array) -> Array:
    """The numbers that a page computes with."""
    restored = stored.astype(like.dtype)
    return restored if scale is None else restored * scale.reshape(*like.shape[:-1], 1)
