"""Weights as numpy arrays, and quantised to int8."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators, such as products in int8."""
LARGEST = 63
"""Seven of the eight bits: processors without int8 instructions add two products in 16 bits, where two of
127 times 255 would not fit."""

Array = NDArray[Any]


def as_array(tensor: Tensor) -> Array:
    """A weight as a float32 array."""
    return tensor.detach().float().cpu().numpy()


def quantise(table: Array) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantise a table [rows, columns] to int8; return the values and the scale of each row.

    >>> values, scale = quantise(np.array([[-1.26, 0.4], [0.0, 0.0]]))
    >>> values.tolist(), scale.tolist()
    ([[-63, 20], [0, 0]], [0.0199..., 1.0])
    """
    largest = np.abs(table).max(axis=1)
    scale = np.where(largest > 0, largest / LARGEST, 1.0).astype(np.float32)
    return np.rint(table / scale[:, None]).astype(np.int8), scale
