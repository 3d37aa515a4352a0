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
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=non_blocking) for name, value in self.tensors().items()
        }
        return replace(self, **moved)

    def tensors(self) -> dict[str, Tensor]:
        """Its tensors by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def pinned(self) -> Self:
        """The same in memory that a GPU can copy from while it computes."""
        pinned: dict[str, Any] = {name: value.pin_memory() for name, value in self.tensors().items()}
        return replace(self, **pinned)

    @property
    def rows(self) -> int:
        """How many rows this process has of it: axis 1, as everything is time-major."""
        return next(value.shape[1] for value in self.tensors().values() if value.dim() > 1)


def real_positions(steps: int, lengths: Tensor) -> Tensor:
    """Which positions [steps, batch] lie inside their row.

    >>> real_positions(3, torch.tensor([3, 1])).int()
    tensor([[1, 1],
            [1, 0],
            [1, 0]], dtype=torch.int32)
    """
    return torch.arange(steps, device=lengths.device).unsqueeze(1) < lengths
