"""An export beside the model that it was made of: how far their numbers lie apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx

from throughtime.errors import ThroughtimeError
from throughtime.export.exported import Case
from throughtime.export.graph import Array
from throughtime.runtime.session import import_onnxruntime

TOLERANCE = {"float32": 1e-4, "int8": 0.15}
"""The root of the mean squared difference, as a share of the numbers' own size."""


def verified(
    models: Mapping[str, onnx.ModelProto], cases: Iterable[Case], precision: str
) -> list[dict[str, Any]]:
    """How far each output of each case is off; a difference above the tolerance is an error."""
    onnxruntime = import_onnxruntime()
    sessions = {
        name: onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for name, model in models.items()
    }
    found = []
    for part, what, given, expected in cases:
        outputs = sessions[part].run(list(expected), dict(given))
        for name, ours, theirs in zip(expected, outputs, expected.values(), strict=True):
            off = difference(ours, theirs)
            if not off <= TOLERANCE[precision]:
                raise ThroughtimeError(
                    f"the export would compute another thing: {name} of the {part} at {what} is off by "
                    f"{off:.2g} in {precision}, more than {TOLERANCE[precision]:g}; nothing was written"
                )
            largest = float(np.abs(ours.astype(float) - theirs).max()) if ours.size else 0.0
            found.append({"part": part, "shape": what, "output": name, "off": off, "largest": largest})
    return found


def difference(ours: Array, theirs: Array) -> float:
    """The root of the mean squared difference, as a share of that of the second's values.

    >>> difference(np.array([1.0, 2.2]), np.array([1.0, 2.0])).__round__(3)
    0.089
    """
    if ours.shape != theirs.shape:
        return float("inf")
    if not ours.size:
        return 0.0
    square = np.square(ours.astype(np.float64) - theirs).mean()
    return float(np.sqrt(square / max(np.square(theirs.astype(np.float64)).mean(), 1e-12)))
