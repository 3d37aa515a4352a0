"""What a program consists of: tensors, which it knows by number, and stages, each a span of steps of a layer.

It allocates some of the tensors, looks at parts of them, and runs the stages one after the other or side by
side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from throughtime.gpu.batched_copies import Launch
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
        """Return the last dimension of a tensor that was allocated here."""
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
        """Return the view of one of these tensors."""
        tensor: Tensor = tensors[self.tensor]
        return tensor if self.size is None else tensor.as_strided(self.size, self.stride, self.offset)

    def transpose(self) -> View:
        """Return the same with rows and columns exchanged."""
        assert self.size is not None
        return View(self.tensor, self.size[::-1], self.stride[::-1], self.offset)


def allocate(shapes: Sequence[Shape], like: Tensor, kind: ElementKind) -> list[Tensor]:
    """Allocate tensors of these shapes, in the type of the computation or in float32."""
    dtype = DTYPES[kind]
    return [like.new_empty(shape, dtype=torch.float32 if float32 else dtype) for shape, float32 in shapes]


class Product(NamedTuple):
    """A product of two matrices, or of two pairs of them, that is written or added to a third."""

    multiply: Callable[..., Tensor]
    left: View
    right: View
    into: View
    bias: View | None = None  # a row that is added to each row

    def run(self, tensors: Sequence[Any]) -> None:
        """Multiply."""
        parts = [self.left.of(tensors), self.right.of(tensors)]
        if self.bias is not None:
            parts.insert(0, self.bias.of(tensors))
        self.multiply(*parts, out=self.into.of(tensors))


class Stage(NamedTuple):
    """A span of a layer: products with what the layer before has left, then launches."""

    products: list[Product]
    launches: list[Launch]


def run_stages(
    layers: Sequence[Sequence[Stage]], tensors: Sequence[Any], addresses: Sequence[int], device: int
) -> None:
    """Run all spans of all layers, in the order in which each layer follows the one before it.

    If layers have several spans, the launches of each layer have a stream of their own, and all products stay
    on the current one: torch keeps a workspace for each stream on which it multiplies.
    """
    waves = len(layers) + len(layers[0]) - 1
    aside = _open_streams(device, len(layers)) if waves > len(layers) and device >= 0 else None
    current = None if aside is None else torch.cuda.current_stream(device)
    reached: list[Any] = [None] * len(layers)  # events: where the launches of each layer have come to
    for wave in range(waves):
        # The later layers first: what a layer left in the wave before is read before it goes on.
        for number in reversed(range(len(layers))):
            span = wave - number
            if not 0 <= span < len(layers[number]):
                continue
            products, launches = layers[number][span]
            if aside is None or current is None:
                for product in products:
                    product.run(tensors)
                for launch in launches:
                    launch(addresses)
                continue
            if number:
                current.wait_event(reached[number - 1])
            for product in products:
                product.run(tensors)
            if products or not span:
                aside[number].wait_event(current.record_event())
            for launch in launches:
                launch(addresses, aside[number].cuda_stream)
            reached[number] = aside[number].record_event()
    if current is not None:
        current.wait_event(reached[-1])


_streams: dict[tuple[int, int], list[Any]] = {}
"""The streams beside each stream: what is recorded on one must not meet what another thread runs."""


def _open_streams(device: int, count: int) -> list[Any]:
    """Return streams for the launches of this number of layers, which no other stream's programs use."""
    found = _streams.setdefault((device, torch._C._cuda_getCurrentRawStream(device)), [])
    if len(found) < count:
        from throughtime.gpu import driver

        found += [
            torch.cuda.ExternalStream(driver.open_stream(device), device) for _ in range(count - len(found))
        ]
    return found
