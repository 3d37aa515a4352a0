"""Write a graph as an ONNX model. Only this module imports onnx."""

from __future__ import annotations

from typing import Any

import numpy as np

from throughtime.errors import import_optional
from throughtime.graphs.graph import MICROSOFT, Graph, Node, Value

OPSET, IR_VERSION = 18, 9


def to_onnx(graph: Graph) -> bytes:
    """The bytes of the ONNX file, checked."""
    onnx = import_onnx()
    nodes = graph.program()
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in graph.constants.items()]
    opsets = [onnx.helper.make_opsetid("", OPSET)]
    if any(node.domain == MICROSOFT for node in nodes):
        opsets.append(onnx.helper.make_opsetid(MICROSOFT, 1))
    model = onnx.helper.make_model(
        _graph(graph, nodes, constants),
        opset_imports=opsets,
        ir_version=IR_VERSION,
        producer_name="throughtime",
    )
    onnx.checker.check_model(model)
    serialised: bytes = model.SerializeToString()
    return serialised


def import_onnx() -> Any:
    """Import onnx; if it is missing, the error names the extra."""
    return import_optional("onnx", feature="exporting a model", extra="onnx")


def _graph(graph: Graph, nodes: list[Node], constants: list[Any]) -> Any:
    inputs, outputs = ([_value(one) for one in values] for values in (graph.inputs, graph.outputs))
    return import_onnx().helper.make_graph(
        [_node(node) for node in nodes], graph.name, inputs, outputs, initializer=constants
    )


def _node(node: Node) -> Any:
    attributes = dict(node.attributes)
    if node.kind == "Cast":
        attributes["to"] = _type(attributes["to"])
    if node.body is not None:
        attributes["body"] = _graph(node.body, node.body.nodes, [])
    return import_onnx().helper.make_node(
        node.kind, node.inputs, node.outputs, domain=node.domain, **attributes
    )


def _value(value: Value) -> Any:
    return import_onnx().helper.make_tensor_value_info(value.name, _type(value.dtype), value.shape)


def _type(dtype: str) -> int:
    kind: int = import_onnx().helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return kind
