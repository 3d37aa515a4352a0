"""The products that follow the backward launch of a persistent layer: gradients of its input and weights."""

from __future__ import annotations

import torch
from torch import Tensor

from throughtime.gpu.persistent_call import Call, StateLayout
from throughtime.gpu.persistent_memory import View
from throughtime.gpu.persistent_plan import Form
from throughtime.gpu.persistent_stages import Product


def _add_product(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    return out.addmm_(left, right)


def _select_fed(call: Call, sums: int, span: range) -> list[View]:
    """The gradients of the sums that the input enters at these steps: all but q of a GRU with reset after.

    Without those, what is left of two directions is apart.
    """
    count, pitch = len(span) * call.batch, call.directions * call.form.slots * call.width
    first = span.start * call.batch * pitch
    if call.form is not Form.GRU_AFTER:
        return [View(sums, (count, pitch), (pitch, 1), first)]
    size = count, 3 * call.width
    return [
        View(sums, size, (pitch, 1), first + (4 * part + 1) * call.width) for part in range(call.directions)
    ]


def _part(call: Call, layer: int, tensor: int, part: int) -> View:
    """The rows of one direction in the weights of a GRU's input."""
    blocks, _, padded = call.input_blocks(layer)
    rows, columns = call.form.gates * call.width, blocks * padded
    return View(tensor, (rows, columns), (columns, 1), part * rows * columns)


def multiply_back(call: Call, layer: int, sums: int, weight: int, into: int, span: range) -> list[Product]:
    """The gradient of the input of a layer at these steps."""
    fed = _select_fed(call, sums, span)
    blocks, _, padded = call.input_blocks(layer)
    rows, columns = len(span) * call.batch, blocks * padded
    view = View(into, (rows, columns), (columns, 1), span.start * call.batch * columns)
    if len(fed) == 1:
        return [Product(torch.mm, fed[0], View(weight), view)]
    return [
        Product(torch.mm, fed[0], _part(call, layer, weight, 0), view),
        Product(_add_product, fed[1], _part(call, layer, weight, 1), view),
    ]


def multiply_rows(call: Call, layer: int, sums: int, entering: View, into: int) -> list[Product]:
    """The gradient of the weights of a layer's input, whose rows are `entering`."""
    fed = _select_fed(call, sums, range(call.steps))
    return [
        Product(
            torch.mm,
            one.transpose(),
            entering,
            View(into) if len(fed) == 1 else _part(call, layer, into, part),
        )
        for part, one in enumerate(fed)
    ]


def multiply_states(call: Call, sums: int, states: int, kept: int, into: int) -> list[Product]:
    """The gradient of the recurrent weights, of both directions at once."""
    layout, width, both = StateLayout.of(call), call.width, call.directions > 1
    count, slots, gates = call.steps * call.batch, call.form.slots * width, call.form.gates
    first = layout.offset_before(0, call.reads_back)

    def view(tensor: int, size: tuple[int, int], stride: tuple[int, int], offset: int, apart: int) -> View:
        """A matrix, or with two directions a pair of them."""
        if not both:
            return View(tensor, size, stride, offset)
        return View(tensor, (2, *size), (apart, *stride), offset)

    def product(begin: int, number: int, other: View) -> Product:
        rows = number * width
        left = view(sums, (rows, count), (1, call.directions * slots), begin * width, slots)
        result = view(into, (rows, width), (width, 1), begin * width * width, gates * width * width)
        return Product(torch.bmm if both else torch.mm, left, other, result)

    apart = layout.offset_before(1, True) - first
    before = view(states, (count, width), (call.row, 1), first, apart)
    if call.form is not Form.GRU_BEFORE:
        return [product(0, gates, before)]
    reset = view(kept, (count, width), (width, 1), 0, count * width)
    return [product(0, 2, before), product(2, 1, reset)]
