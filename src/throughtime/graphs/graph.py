"""A model as a plain list of operators, with weights in float32 or int8; writers turn it into files.

Operators have the names, inputs and attributes of ONNX (opset 18), but nothing here needs onnx: types are
strings, constants are numpy arrays, and the body of a loop is another graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from throughtime.cells.base import Cell, GraphState

MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators, such as products in int8."""
MAX_INT8 = 63
"""Seven of the eight bits: processors without int8 instructions add two products in 16 bits, where two of
127 times 255 would not fit."""

ACTIVATIONS = ("Sigmoid", "Tanh", "Relu")
"""The operators whose results `Cell.activations` names."""

Array = NDArray[Any]
_FOR_PAGE: ContextVar[bool] = ContextVar("for_page", default=False)


@contextmanager
def for_page() -> Iterator[None]:
    """Inside the block, graphs are built for a page that shows how a model works.

    Cells always run in loops over their own steps, never in ONNX's RNN, GRU and LSTM; graphs note where the
    gates of the cells are; and the scores of attention are an output.

    >>> with for_page():
    ...     Graph("one").for_page
    True
    """
    token = _FOR_PAGE.set(True)
    try:
        yield
    finally:
        _FOR_PAGE.reset(token)


@dataclass(frozen=True)
class Mark:
    """Where one step of a cell has its gates and its next state."""

    cell: Cell
    gates: tuple[tuple[str, tuple[str, ...]], ...]
    """The values that hold gates, each with the names of its equal parts; see `Cell.activations`."""
    state: GraphState


@dataclass(frozen=True)
class Value:
    """An input or output of a graph; a variable size has a name in its shape."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Node:
    """One operator: it computes the values `outputs` from the values `inputs` ("" for one that is left out).

    Attributes are numbers, strings and lists of them. A `Scan` runs `body` once per step; the body also sees
    all values of the graphs around it.
    """

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""
    body: Graph | None = None


class Graph:
    """A list of nodes; values are names. Cells and layers write their equations with its methods.

    With `int8`, the weights of `linear` and `lookup` are int8, with a scale for each output of a product and
    for each row of a table.

    `op` and `ops` add any operator of ONNX by its name; HTML files run those of `OPERATORS` in
    `page/engine/operators.js`, among them all that work on single numbers (`elementwise.js`).

    >>> import torch
    >>> graph = Graph("double")
    >>> x = graph.input("x", "float32", ["batch", 3])
    >>> graph.output(graph.linear(x, 2 * torch.eye(3)), "y", "float32", ["batch", 3])
    >>> [(node.kind, *node.inputs, "->", *node.outputs) for node in graph.program()]
    [('Transpose', 'weight_1', '->', 'transpose_2'), ('MatMul', 'x', 'transpose_2', '->', 'y')]
    >>> graph.constants["weight_1"].shape, graph.outputs
    ((3, 3), [Value(name='y', dtype='float32', shape=('batch', 3))])
    """

    def __init__(self, name: str, *, int8: bool = False, around: Graph | None = None) -> None:
        self.name, self.int8 = name, int8
        self.nodes: list[Node] = []
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.constants: dict[str, Array] = {}
        """By name; those of the body of a loop are in the graph around it."""
        self.marks: list[Mark] = []
        """The steps of cells in this graph, if it is built for a page."""
        self.for_page: bool = _FOR_PAGE.get() if around is None else around.for_page
        self._root: Graph = self if around is None else around._root
        self._known: dict[tuple[Any, ...], str] = {}
        self._alive: list[Tensor] = []  # weights are identified by their address, which must not be reused
        self._count = 0

    def input(self, name: str, dtype: str, shape: Sequence[int | str]) -> str:
        """Add an input."""
        self.inputs.append(Value(name, dtype, tuple(shape)))
        return name

    def output(self, value: str, name: str, dtype: str, shape: Sequence[int | str]) -> None:
        """Make a value an output of this name."""
        self.nodes.append(Node("Identity", (value,), (name,)))
        self.outputs.append(Value(name, dtype, tuple(shape)))

    def state_inputs(self, stem: str, sizes: Sequence[int], rows: str = "batch") -> tuple[str, ...]:
        """Add inputs `stem_0`, `stem_1` and so on, each [rows, size]."""
        return tuple(
            self.input(f"{stem}_{number}", "float32", [rows, size]) for number, size in enumerate(sizes)
        )

    def state_outputs(
        self, stem: str, state: Sequence[str], sizes: Sequence[int], rows: str = "batch"
    ) -> None:
        """Make a state the outputs `stem_0`, `stem_1` and so on, each [rows, size]."""
        for number, (value, size) in enumerate(zip(state, sizes, strict=True)):
            self.output(value, f"{stem}_{number}", "float32", [rows, size])

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator with one output."""
        return self.ops(kind, inputs, 1, attributes)[0]

    def ops(
        self,
        kind: str,
        inputs: Sequence[str],
        count: int,
        attributes: Mapping[str, Any] | None = None,
        *,
        domain: str = "",
        body: Graph | None = None,
    ) -> list[str]:
        """Add an operator with several outputs."""
        outputs = [self.fresh(kind) for _ in range(count)]
        self.nodes.append(Node(kind, tuple(inputs), tuple(outputs), attributes or {}, domain, body))
        return outputs

    def constant(self, values: Any, kind: str = "float32") -> str:
        """A constant; equal small ones are stored once."""
        array = np.asarray(values, dtype=kind)
        if array.size > 64:
            return self._keep(array)
        return self._keep_once(("constant", array.shape, kind, array.tobytes()), array)

    def weight(self, tensor: Tensor) -> str:
        """A weight of the model; one that is used twice is stored once."""
        self._root._alive.append(tensor)
        return self._keep_once(_identity(tensor), to_array(tensor))

    def linear(self, x: str, weight: Tensor, bias: Tensor | None = None) -> str:
        """W x + b, for x [..., I] and W [O, I]. In loops it is in float32, because errors would add up."""
        if self.int8:
            table, scale = self._quantise(weight)
            inputs = [x, self._transpose(table), scale, "", "" if bias is None else self.weight(bias)]
            while not inputs[-1]:
                inputs.pop()
            return self.ops("DynamicQuantizeMatMul", inputs, 1, domain=MICROSOFT)[0]
        product = self.op("MatMul", x, self._transpose(self.weight(weight)))
        return product if bias is None else self.op("Add", product, self.weight(bias))

    def linear_rows(self, x: str, weight: Tensor, bias: Tensor | None, rows: str) -> str:
        """The same for some rows of W and b: [N, I] and [R] -> [N, R]."""
        if self.int8:
            table, scale = self._quantise(weight)
            some = self.op("Transpose", self.op("Gather", table, rows))
            given = [x, some, self.op("Gather", scale, rows)]
            if bias is not None:
                given += ["", self.op("Gather", self.weight(bias), rows)]
            return self.ops("DynamicQuantizeMatMul", given, 1, domain=MICROSOFT)[0]
        parts = [self.op("Gather", self.weight(one), rows) for one in (weight, bias) if one is not None]
        return self.op("Gemm", x, *parts, transB=1)

    def lookup(self, table: Tensor, ids: str) -> str:
        """The rows of a table [V, E] for ids [...]: [..., E]."""
        if self.int8:
            values, scale = self._quantise(table)
            rows = self.op("Cast", self.op("Gather", values, ids), to="float32")
            return self.op("Mul", rows, self.op("Unsqueeze", self.op("Gather", scale, ids), self.axes(-1)))
        return self.op("Gather", self.weight(table), ids)

    def layer_norm(self, x: str, gain: Tensor, bias: Tensor | None = None, epsilon: float = 1e-5) -> str:
        """Layer normalisation over the last axis."""
        shift = self.constant(np.zeros(len(gain))) if bias is None else self.weight(bias)
        return self.op("LayerNormalization", x, self.weight(gain), shift, axis=-1, epsilon=epsilon)

    def split(self, value: str, parts: int) -> list[str]:
        """The equal parts of the last axis."""
        return self.ops("Split", [value], parts, {"axis": -1, "num_outputs": parts})

    def slice(self, value: str, start: int, end: int, axis: int = -1) -> str:
        """A part of one axis."""
        return self.op("Slice", value, self.axes(start), self.axes(end), self.axes(axis))

    def concat(self, parts: Sequence[str], axis: int = -1) -> str:
        """Concatenate values; a single one is returned as it is."""
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=axis)

    def axes(self, *numbers: int) -> str:
        """Axes or sizes, as operators take them."""
        return self.constant(list(numbers), "int64")

    def size(self, value: str, axis: int) -> str:
        """The size of one axis, as a vector of one number."""
        return self.op("Shape", value, start=axis, end=axis + 1)

    def sizes(self, *parts: str | int) -> str:
        """A shape made of numbers and of sizes that are known only when the graph runs."""
        return self.concat([part if isinstance(part, str) else self.axes(part) for part in parts], axis=0)

    def steps(self, value: str, axis: int) -> str:
        """The numbers 0, 1, ... of the steps along one axis."""
        zero, one = self.constant(0, "int64"), self.constant(1, "int64")
        return self.op("Range", zero, self.op("Squeeze", self.size(value, axis)), one)

    def inside(self, x: str, lengths: str) -> str:
        """Which positions of x [T, B, ...] are inside the length of their row: [T, B, 1]."""
        steps = self.op("Unsqueeze", self.steps(x, 0), self.axes(-1))
        return self.op("Unsqueeze", self.op("Less", steps, lengths), self.axes(-1))

    def scan(
        self, cells: Sequence[Cell], x: str, state: GraphState | None = None, lengths: str | None = None
    ) -> tuple[str, GraphState]:
        """Run one cell, or two in both directions, through time; see `add_recurrence`."""
        from throughtime.graphs.recurrence import add_recurrence

        return add_recurrence(self, cells, x, state, lengths)

    def step(self, cell: Cell, projected: str, state: GraphState) -> GraphState:
        """One step of a cell. A graph for a page notes its gates: results of activations, in their order."""
        begun = len(self.nodes)
        reached = cell.graph_step(self, projected, state)
        if self.for_page:
            found = [node.outputs[0] for node in self.nodes[begun:] if node.kind in ACTIVATIONS]
            named = len(found) == len(cell.activations)
            gates = [pair for pair in zip(found, cell.activations, strict=True) if pair[1]] if named else []
            self.marks.append(Mark(cell, tuple(gates), reached))
        return reached

    def show(self, value: str, name: str, dtype: str, shape: Sequence[int | str]) -> None:
        """Make a value an output of this name, if the graph is for a page and has no such output yet."""
        if self.for_page and all(name != output.name for output in self.outputs):
            self.output(value, name, dtype, shape)

    def program(self) -> list[Node]:
        """The nodes to run, in order; nodes that compute an output write it under the name of the output.

        Graphs with a loop keep the copies, because the loop may use the old name, as marks do.
        """
        if self.marks or any(node.body is not None for node in self.nodes):
            return self.nodes
        computed = {name for node in self.nodes for name in node.outputs if node.kind != "Identity"}
        outputs = {output.name for output in self.outputs}
        renamed: dict[str, str] = {}
        for node in self.nodes:
            if node.kind == "Identity" and node.outputs[0] in outputs and node.inputs[0] in computed:
                renamed.setdefault(node.inputs[0], node.outputs[0])

        def rename(names: Sequence[str]) -> tuple[str, ...]:
            return tuple(renamed.get(name, name) for name in names)

        copies = set(renamed.items())
        return [
            replace(node, inputs=rename(node.inputs), outputs=rename(node.outputs))
            for node in self.nodes
            if node.kind != "Identity" or (node.inputs[0], node.outputs[0]) not in copies
        ]

    def fresh(self, kind: str) -> str:
        """A new name."""
        self._root._count += 1
        return f"{kind.lower()}_{self._root._count}"

    def _transpose(self, table: str) -> str:
        """Transpose a table once, outside of loops; the file stores the table as it is."""
        root = self._root
        if ("transposed", table) not in root._known:
            root._known["transposed", table] = root.op("Transpose", table)
        return root._known["transposed", table]

    def _quantise(self, weight: Tensor) -> tuple[str, str]:
        """The names of a table [rows, columns] in int8 and of the scales of its rows."""
        known = self._root._known
        key = _identity(weight)
        self._root._alive.append(weight)
        if (*key, "int8") not in known:
            values, scale = quantise(to_array(weight))
            self._keep_once((*key, "int8"), values)
            self._keep_once((*key, "scale"), scale)
        return known[(*key, "int8")], known[(*key, "scale")]

    def _keep_once(self, key: tuple[Any, ...], array: Array) -> str:
        known = self._root._known
        if key not in known:
            known[key] = self._keep(array)
        return known[key]

    def _keep(self, array: Array) -> str:
        name = self.fresh("weight")
        self._root.constants[name] = array.copy(order="C")
        return name


def _identity(tensor: Tensor) -> tuple[Any, ...]:
    return (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()))


def to_array(tensor: Tensor) -> Array:
    """A weight as a float32 array."""
    return tensor.detach().float().cpu().numpy()


def quantise(table: Array) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantise a table [rows, columns] to int8; return the values and the scale of each row.

    >>> values, scale = quantise(np.array([[-1.26, 0.4], [0.0, 0.0]]))
    >>> values.tolist(), scale.tolist()
    ([[-63, 20], [0, 0]], [0.0199..., 1.0])
    """
    largest = np.abs(table).max(axis=1)
    scale = np.where(largest > 0, largest / MAX_INT8, 1.0).astype(np.float32)
    return np.rint(table / scale[:, None]).astype(np.int8), scale
