"""The tensors of a program: it knows them by number, allocates some of them, and looks at parts of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from throughtime.gpu.elements import KINDS, ElementKind

DTYPES = {**{kind: dtype for dtype, kind in KINDS.items()}, ElementKind.TF32: torch.float32}
Shape = tuple[tuple[int, ...], bool]
"""The shape of a tensor to allocate, and whether it is float32 in any case."""


class Allocations:
    """Numbers the tensors that a program allocates, behind those that it is given."""

    def __init__(self, given: int) -> None:
        self.given = given
        self.shapes: list[Shape] = []

    def allocate(self, *shape: int, float32: bool = False) -> int:
        """Allocate a tensor; return its number."""
        self.shapes.append((shape, float32))
        return self.given + len(self.shapes) - 1

    def columns(self, tensor: int) -> int:
        """The last dimension of a tensor that was allocated here."""
        return self.shapes[tensor - self.given][0][-1]


def find_addresses(tensors: Sequence[Tensor | None]) -> list[int]:
    """Return the addresses of all tensors; 0 for one that is not there."""
    return [0 if tensor is None else tensor.data_ptr() for tensor in tensors]


class View(NamedTuple):
    """A tensor, or a part of one."""

    tensor: int
    size: tuple[int, ...] | None = None  # None: all of it
    stride: tuple[int, ...] = ()
    offset: int | None = 0  # in the memory of the tensor; None: where the tensor begins

    def of(self, tensors: Sequence[Any]) -> Tensor:
        """The view of one of these tensors."""
        tensor: Tensor = tensors[self.tensor]
        return tensor if self.size is None else tensor.as_strided(self.size, self.stride, self.offset)

    def transpose(self) -> View:
        """The same with rows and columns exchanged."""
        assert self.size is not None
        return View(self.tensor, self.size[::-1], self.stride[::-1], self.offset)


def allocate(shapes: Sequence[Shape], like: Tensor, kind: ElementKind) -> list[Tensor]:
    """Allocate tensors of these shapes, in the type of the computation or in float32."""
    dtype = DTYPES[kind]
    return [like.new_empty(shape, dtype=torch.float32 if float32 else dtype) for shape, float32 in shapes]
