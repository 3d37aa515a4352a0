"""Weights as numpy has them, and in one byte each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators: products in int8 are among them."""
LARGEST = 63
"""Seven bits of the eight: processors without instructions of their own for int8 add two products in 16 bits,
where two of 127 times 255 would not fit."""

Array = NDArray[Any]


def as_array(tensor: Tensor) -> Array:
    """A weight as numpy has it."""
    return tensor.detach().float().cpu().numpy()


def quantise(table: Array) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """A table [rows, columns] as whole numbers and the scale of each row.

    >>> values, scale = quantise(np.array([[-1.26, 0.4], [0.0, 0.0]]))
    >>> values.tolist(), scale.tolist()
    ([[-63, 20], [0, 0]], [0.0199..., 1.0])
    """
    largest = np.abs(table).max(axis=1)
    scale = np.where(largest > 0, largest / LARGEST, 1.0).astype(np.float32)
    return np.rint(table / scale[:, None]).astype(np.int8), scale
