"""An ONNX graph under construction, with weights in float32 or in int8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from throughtime.export.quantise import quantised

OPSET, IR_VERSION = 18, 9
MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators: products in int8 are among them."""
TYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}

Shape = Sequence[int | str]
Array = NDArray[Any]


class Graph:
    """Nodes one after another. A value is known by its name, a string.

    With `int8` the products of `linear` and the tables of `lookup` have weights of one byte, each row of a
    table and each output of a product with a scale of its own.

    >>> import torch
    >>> graph = Graph("double")
    >>> x = graph.input("x", "float32", ["batch", 3])
    >>> graph.output(graph.linear(x, 2 * torch.eye(3)), "y", "float32", ["batch", 3])
    >>> [node.op_type for node in graph.model().graph.node]
    ['Transpose', 'MatMul']
    """

    def __init__(self, name: str, *, int8: bool = False, around: Graph | None = None) -> None:
        self.name, self.int8 = name, int8
        self._root: Graph = self if around is None else around._root
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._known: dict[tuple[Any, ...], str] = {}
        self._alive: list[Tensor] = []  # weights are known by their address, which must not be used again
        self._count = 0

    def input(self, name: str, kind: str, shape: Shape) -> str:
        """A value that is given to the graph; a size that may vary has a name in its shape."""
        self._inputs.append(helper.make_tensor_value_info(name, TYPES[kind], shape))
        return name

    def output(self, value: str, name: str, kind: str, shape: Shape) -> None:
        """Give a value out under this name."""
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, TYPES[kind], shape))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The one value that an operator gives."""
        return self.ops(kind, inputs, 1, attributes)[0]

    def ops(
        self,
        kind: str,
        inputs: Sequence[str],
        count: int,
        attributes: Mapping[str, Any] | None = None,
        domain: str = "",
    ) -> list[str]:
        """The several values that an operator gives."""
        outputs = [self.fresh(kind) for _ in range(count)]
        self._nodes.append(helper.make_node(kind, list(inputs), outputs, domain=domain, **(attributes or {})))
        return outputs

    def constant(self, values: Any, kind: str = "float32") -> str:
        """A value that never changes; equal small ones are kept once."""
        array = np.asarray(values, dtype=kind)
        if array.size > 64:
            return self._kept(array)
        key = ("constant", array.shape, kind, array.tobytes())
        return self._once(key, array)

    def weight(self, tensor: Tensor) -> str:
        """A weight of the model; one that is used twice is kept once."""
        self._root._alive.append(tensor)
        return self._once(_identity(tensor), as_array(tensor))

    def linear(self, x: str, weight: Tensor, bias: Tensor | None = None) -> str:
        """W x + b, for x [..., I] and W [O, I]. In a loop errors would add up: there it is in float32."""
        if self.int8:
            table, scale = self._in_bytes(weight)
            given = [x, self._turned(table), scale, "", "" if bias is None else self.weight(bias)]
            while not given[-1]:
                given.pop()
            return self.ops("DynamicQuantizeMatMul", given, 1, domain=MICROSOFT)[0]
        product = self.op("MatMul", x, self._turned(self.weight(weight)))
        return product if bias is None else self.op("Add", product, self.weight(bias))

    def lookup(self, table: Tensor, ids: str) -> str:
        """The rows of a table [V, E] for ids [...]: [..., E]."""
        if self.int8:
            values, scale = self._in_bytes(table)
            rows = self.op("Cast", self.op("Gather", values, ids), to=TensorProto.FLOAT)
            return self.op("Mul", rows, self.op("Unsqueeze", self.op("Gather", scale, ids), self.axes(-1)))
        return self.op("Gather", self.weight(table), ids)

    def layer_norm(self, x: str, gain: Tensor, bias: Tensor | None = None, epsilon: float = 1e-5) -> str:
        """Layer normalisation over the last axis."""
        shift = self.constant(np.zeros(len(gain))) if bias is None else self.weight(bias)
        return self.op("LayerNormalization", x, self.weight(gain), shift, axis=-1, epsilon=epsilon)

    def split(self, value: str, parts: int) -> list[str]:
        """The equal parts of the last axis."""
        return self.ops("Split", [value], parts, {"axis": -1, "num_outputs": parts})

    def axes(self, *numbers: int) -> str:
        """Axes or sizes, as operators take them."""
        return self.constant(list(numbers), "int64")

    def size(self, value: str, axis: int) -> str:
        """The size of one axis, as a vector of one number."""
        return self.op("Shape", value, start=axis, end=axis + 1)

    def sizes(self, *parts: str | int) -> str:
        """A shape of given numbers and of sizes that are known only when the graph runs."""
        names = [part if isinstance(part, str) else self.axes(part) for part in parts]
        return self.op("Concat", *names, axis=0) if len(names) > 1 else names[0]

    def slice(self, value: str, start: int, end: int, axis: int = -1) -> str:
        """A part of one axis."""
        return self.op("Slice", value, self.axes(start), self.axes(end), self.axes(axis))

    def inside(self, name: str) -> Graph:
        """The body of a loop in this graph; it sees all that stands here, and its weights stand here."""
        return Graph(name, around=self)

    def body(self) -> onnx.GraphProto:
        """What an operator that runs other graphs takes."""
        return helper.make_graph(self._nodes, self.name, self._inputs, self._outputs)

    def model(self) -> onnx.ModelProto:
        """The whole, checked."""
        self._name_outputs()
        graph = helper.make_graph(
            self._nodes, self.name, self._inputs, self._outputs, initializer=list(self._constants.values())
        )
        opsets = [helper.make_opsetid("", OPSET)]
        if any(node.domain == MICROSOFT for node in self._nodes):
            opsets.append(helper.make_opsetid(MICROSOFT, 1))
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="throughtime"
        )
        onnx.checker.check_model(model)
        return model

    def _name_outputs(self) -> None:
        """Let the nodes whose values are given out write them under those names, without a copy.

        Graphs with a loop keep the copies: what stands in the loop may go by the first name.
        """
        if any(attribute.HasField("g") for node in self._nodes for attribute in node.attribute):
            return
        made = {name for node in self._nodes for name in node.output if node.op_type != "Identity"}
        given_out = {output.name for output in self._outputs}
        renamed: dict[str, str] = {}
        for node in self._nodes:
            if node.op_type == "Identity" and node.output[0] in given_out and node.input[0] in made:
                renamed.setdefault(node.input[0], node.output[0])
        copies = set(renamed.items())
        self._nodes = [
            node
            for node in self._nodes
            if node.op_type != "Identity" or (node.input[0], node.output[0]) not in copies
        ]
        for node in self._nodes:
            for names in (node.input, node.output):
                names[:] = [renamed.get(name, name) for name in names]

    def _turned(self, table: str) -> str:
        """A table's columns as rows: once, outside of any loop; the file keeps the table as it is."""
        root = self._root
        if ("turned", table) not in root._known:
            root._known["turned", table] = root.op("Transpose", table)
        return root._known["turned", table]

    def _in_bytes(self, weight: Tensor) -> tuple[str, str]:
        """A table [rows, columns] in int8 and the scale of each row."""
        known = self._root._known
        key = _identity(weight)
        self._root._alive.append(weight)
        if (*key, "int8") not in known:
            values, scale = quantised(as_array(weight))
            self._once((*key, "int8"), values)
            self._once((*key, "scale"), scale)
        return known[(*key, "int8")], known[(*key, "scale")]

    def _once(self, key: tuple[Any, ...], array: Array) -> str:
        known = self._root._known
        if key not in known:
            known[key] = self._kept(array)
        return known[key]

    def _kept(self, array: Array) -> str:
        name = self.fresh("weight")
        self._root._constants[name] = numpy_helper.from_array(array.copy(order="C"), name)
        return name

    def fresh(self, kind: str) -> str:
        """A name that no other value has."""
        self._root._count += 1
        return f"{kind.lower()}_{self._root._count}"


def as_array(tensor: Tensor) -> Array:
    """A weight as numpy has it."""
    return tensor.detach().float().cpu().numpy()


def _identity(tensor: Tensor) -> tuple[Any, ...]:
    return (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()))
