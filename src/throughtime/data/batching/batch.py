"""What every batch is: tensors, and the count that its loss is divided by."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Tensors, time-major, that move together.

    `count` is the number of real targets in the whole batch, over all processes: a gradient is the sum over
    the rows at hand divided by this count, and adding the processes' gradients gives that of one process.
    """

    count: int

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """The same batch on another device."""
        moved: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                moved[field.name] = value.to(device, non_blocking=non_blocking)
        return replace(self, **moved)


def real_positions(steps: int, lengths: Tensor) -> Tensor:
    """Which positions [steps, batch] lie inside their row.

    >>> real_positions(3, torch.tensor([3, 1])).int()
    tensor([[1, 1],
            [1, 0],
            [1, 0]], dtype=torch.int32)
    """
    return torch.arange(steps, device=lengths.device).unsqueeze(1) < lengths
