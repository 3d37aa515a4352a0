"""Memory that torch has freed, given back to the system."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

import torch

LARGE = 128 * 2**20
"""Bytes of weights from which on an update takes so long that giving memory back costs nothing beside it."""


def giving_back(weights: int, device: torch.device) -> Callable[[], object]:
    """What to call after each update of a model of so many bytes.

    The C library keeps what was freed in pieces below 32 MB, and in an order that differs from update to
    update: over a few hundred of them a large model grows by a tenth. Elsewhere than with glibc nothing is
    done, nor for small models, whose freed memory is better used again at once.
    """
    if device.type != "cpu" or weights < LARGE or not sys.platform.startswith("linux"):
        return lambda: None
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return (lambda: None) if trim is None else (lambda: trim(0))
