"""The element types of tensors, as the kernels number them (elements.cuh)."""

from __future__ import annotations

from enum import IntEnum

import torch


class ElementKind(IntEnum):
    """How numbers are multiplied: exact float32, float32 rounded to tf32, bfloat16, float16."""

    FLOAT = 0
    TF32 = 1
    BF16 = 2
    F16 = 3

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return 4 if self <= ElementKind.TF32 else 2


KINDS = {torch.float32: ElementKind.FLOAT, torch.bfloat16: ElementKind.BF16, torch.float16: ElementKind.F16}


def round_up_units(size: int) -> int:
    """Round a number of units up so that each row begins on a boundary of 16 bytes.

    >>> round_up_units(650)
    656
    """
    return -(-size // 8) * 8
