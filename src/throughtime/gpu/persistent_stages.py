"""The stages of a program, each a span of steps of one layer, run one after the other or side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from throughtime.gpu.batched_copies import Launch
from throughtime.gpu.persistent_memory import View


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
