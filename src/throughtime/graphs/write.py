"""Write a model to a folder that needs no torch, as ONNX; it is checked against torch first."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from throughtime.errors import InputError, ThroughtimeError, import_optional
from throughtime.files import check_new
from throughtime.folder import ModelFolder
from throughtime.graphs.graph import MICROSOFT, Array, Graph, Node, Value
from throughtime.runtime.session import FORMAT, VERSION, import_onnxruntime
from throughtime.version import __version__

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
    inputs, outputs = ([_value(value) for value in values] for values in (graph.inputs, graph.outputs))
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


TOLERANCE = {"float32": 1e-4, "int8": 0.15}
"""Maximum relative error: see `difference`."""


class Case(NamedTuple):
    """Inputs of one graph, and the outputs of the torch model for them."""

    part: str
    what: str  # the shapes, in words
    given: Mapping[str, Array]
    expected: Mapping[str, Array]

    @classmethod
    def of(cls, part: str, what: str, inputs: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> Case:
        """A case from tensors."""
        arrays = [
            {name: value.cpu().contiguous().numpy() for name, value in tensors.items()}
            for tensors in (inputs, expected)
        ]
        return cls(part, what, *arrays)


@dataclass(frozen=True)
class ModelExport:
    """The parts of an exported model. Building graphs is cheap, so they are built when needed."""

    graphs: Callable[[bool], dict[str, Graph]]
    """Builds the graph of each part, by name; with True, weights are int8."""
    settings: dict[str, Any]
    """The settings of the runner."""
    save: Callable[[Path], None]
    """Writes vocabularies and tokenizers into a folder."""
    cases: Callable[[], Iterable[Case]]
    usage: str
    """A line of Python that shows how to use the runner."""
    page: Callable[[bool], dict[str, Any]] = lambda sample: {}
    """Gives the settings that only a page in a browser reads; with True, with a sample of the data."""
    refusal: InputError | None = None
    """Why the runner cannot use this model, although a page in a browser can."""


def number_names(stem: str, values: Iterable[Any]) -> dict[str, Any]:
    """Number values: `stem_0`, `stem_1` and so on.

    >>> number_names("state", ["h", "c"])
    {'state_0': 'h', 'state_1': 'c'}
    """
    return {f"{stem}_{number}": value for number, value in enumerate(values)}


def draw_ragged(
    low: int, high: int, longest: int, batch: int, draws: torch.Generator, *, least: int = 0
) -> tuple[Tensor, Tensor]:
    """Ids in [low, high), [longest, batch], and lengths of `least` or more; the first row is whole."""
    ids = torch.randint(low, high, (longest, batch), generator=draws)
    lengths = torch.randint(least, longest + 1, (batch,), generator=draws)
    lengths[0] = longest
    return ids, lengths


def copy_to_cpu(predictor: Any) -> Any:
    """Return a model as it is on the CPU, where exports are built and checked; a copy if it is elsewhere."""
    if predictor.device.type == "cpu":
        return predictor
    copied = copy.copy(predictor)
    copied.model = copy.deepcopy(predictor.model).cpu()
    return copied


def write_export(
    exported: ModelExport, task: str, out: Path, *, name: str, int8: bool = False
) -> dict[str, Any]:
    """Write a model to a folder for `throughtime.runtime`; return the contents of its export.json.

    `int8` stores weights in one byte each: the model is smaller and faster, but a little less exact. `name`
    is the title of its card.
    """
    if exported.refusal is not None:
        raise exported.refusal
    check_new(out)
    models, checks = {}, {}
    for precision in ("float32", "int8")[: 1 + int8]:
        models = {part: to_onnx(graph) for part, graph in exported.graphs(precision == "int8").items()}
        checks[precision] = verify(models, exported.cases(), precision)
    values = {
        "format": FORMAT,
        "version": VERSION,
        "throughtime": __version__,
        "task": task,
        "precision": "int8" if int8 else "float32",
        "parts": {part: f"{part}.onnx" for part in models},
        "bytes": {part: len(model) for part, model in models.items()},
        "settings": exported.settings,
        "verified": checks,
    }
    with ModelFolder.create(out) as folder:
        for part, model in models.items():
            (folder.path / f"{part}.onnx").write_bytes(model)
        exported.save(folder.path)
        folder.write_json("export.json", values)
        folder.write_card(write_card(name, values, exported.usage))
    return values


def verify(models: Mapping[str, bytes], cases: Iterable[Case], precision: str) -> list[dict[str, Any]]:
    """The error of each output of each case; raise an error if it is above the tolerance."""
    onnxruntime = import_onnxruntime()
    sessions = {
        name: onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        for name, model in models.items()
    }
    checks = []
    for part, what, inputs, expected in cases:
        outputs = sessions[part].run(list(expected), dict(inputs))
        for name, ours, theirs in zip(expected, outputs, expected.values(), strict=True):
            off = difference(ours, theirs)
            if not off <= TOLERANCE[precision]:
                raise ThroughtimeError(
                    f"the export differs from the model: {name} of the {part} at {what} is off by {off:.2g} "
                    f"in {precision}, more than {TOLERANCE[precision]:g}; nothing was written"
                )
            largest = float(np.abs(ours.astype(float) - theirs).max()) if ours.size else 0.0
            checks.append({"part": part, "shape": what, "output": name, "off": off, "largest": largest})
    return checks


def difference(ours: Array, theirs: Array) -> float:
    """The root mean square of the difference, relative to that of `theirs`.

    >>> difference(np.array([1.0, 2.2]), np.array([1.0, 2.0])).__round__(3)
    0.089
    """
    if ours.shape != theirs.shape:
        return float("inf")
    if not ours.size:
        return 0.0
    square = np.square(ours.astype(np.float64) - theirs).mean()
    return float(np.sqrt(square / max(np.square(theirs.astype(np.float64)).mean(), 1e-12)))


def write_card(name: str, values: Mapping[str, Any], usage: str) -> str:
    """The text of README.md: what the model is, how exact it is, and how to run it without torch."""
    precision = values["precision"]
    checks = values["verified"][precision]
    worst = max(check["off"] for check in checks)
    sizes = "\n".join(
        f"| {values['parts'][part]} | {size / 1e6:.2f} MB |" for part, size in values["bytes"].items()
    )
    elsewhere = (
        "Inputs and outputs have names, and the graphs are plain ONNX: other runtimes can run them too."
    )
    if precision == "int8":
        elsewhere = "Products in int8 are onnxruntime's own operators, which other runtimes may lack."
    return f"""# {name}, exported to ONNX

A model of the task `{values["task"]}` in {precision}, exported by throughtime {values["throughtime"]}.

| | |
|---|---|
{sizes}
| checked against torch | {len(checks)} outputs at several shapes, off by {worst:.2g} at most |

It runs on onnxruntime, numpy and tokenizers; torch is not needed:

    pip install PATH_TO_THE_THROUGHTIME_REPOSITORY/runtime

    import throughtime_runtime
    model = throughtime_runtime.load("FOLDER")
    model.{usage}

Where throughtime itself is installed, `throughtime.runtime.load` does the same.

{elsewhere} All numbers of the check are in export.json.
"""
