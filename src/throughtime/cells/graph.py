"""How a cell corresponds to an operator of ONNX, and the error for a module that has no graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from throughtime.errors import InputError


@dataclass(frozen=True)
class GraphOperator:
    """An operator of ONNX that runs a cell through time."""

    kind: str
    gates: tuple[str, ...]
    """The cell's names for its gates, in the operator's order."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    activations: tuple[str, ...] = ()
    """The activations of one direction, if the operator takes them."""


def no_graph(module: nn.Module, method: str) -> InputError:
    """Return the error for a module that cannot be exported because it lacks a method."""
    return InputError("export", f"{type(module).__name__} has no graph; add `{method}` to export it")
