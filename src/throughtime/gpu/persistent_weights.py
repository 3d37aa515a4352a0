"""The gradients of the input and the weights of persistent layers, from those of their sums."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from throughtime.gpu.batched_copies import At, Copies, Launch, Matrix
from throughtime.gpu.persistent_call import Call, StateLayout
from throughtime.gpu.persistent_forward import OWN
from throughtime.gpu.persistent_memory import Allocations, Product, View
from throughtime.gpu.persistent_plan import Form
from throughtime.gpu.weight_gradients import JointProducts, count_tiles, is_joined


def _add_product(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    return out.addmm_(left, right)


def _select_fed(call: Call, sums: int, span: range) -> list[View]:
    """Select the gradients of the sums that the input enters: all but q of a GRU with reset after.

    Without those, what is left of two directions is apart.
    """
    count, pitch = len(span) * call.batch, call.directions * call.form.slots * call.width
    first = span.start * call.batch * pitch
    if call.form is not Form.GRU_AFTER:
        return [View(sums, (count, pitch), (pitch, 1), first)]
    size = count, 3 * call.width
    return [
        View(sums, size, (pitch, 1), first + (4 * direction + 1) * call.width)
        for direction in range(call.directions)
    ]


def _part(call: Call, layer: int, tensor: int, direction: int) -> View:
    """Return the rows of one direction in the weights of a GRU's input."""
    blocks, _, padded = call.input_blocks(layer)
    rows, columns = call.form.gates * call.width, blocks * padded
    return View(tensor, (rows, columns), (columns, 1), direction * rows * columns)


def multiply_back(call: Call, layer: int, sums: int, weight: int, into: int, span: range) -> list[Product]:
    """Return the gradient of the input of a layer at these steps."""
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
    """Return the gradient of the weights of a layer's input, whose rows are `entering`."""
    fed = _select_fed(call, sums, range(call.steps))
    return [
        Product(
            torch.mm,
            sums_of.transpose(),
            entering,
            View(into) if len(fed) == 1 else _part(call, layer, into, direction),
        )
        for direction, sums_of in enumerate(fed)
    ]


def multiply_states(call: Call, sums: int, states: int, kept: int, into: int) -> list[Product]:
    """Return the gradient of the recurrent weights, of both directions at once."""
    layout, width, both = StateLayout.of(call), call.width, call.directions > 1
    count, slots, gates = call.steps * call.batch, call.form.slots * width, call.form.gates
    first = layout.offset_before(0, call.reads_back)

    def view(tensor: int, size: tuple[int, int], stride: tuple[int, int], offset: int, apart: int) -> View:
        """Return a matrix, or with two directions a pair of them."""
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


class Wide(NamedTuple):
    """A gradient with padding, as it is computed, or in parts in float32 that remain to be added up."""

    tensor: int
    element: int  # bytes
    parts: int = 0
    apart: int = 0  # numbers from one part to the next

    def behind(self, count: int) -> At:
        """Return the address of what comes after this many numbers."""
        return At(self.tensor, count * self.element)


class WeightsBuilder:
    """Works out the gradients of all weights that are wanted.

    Small products and all sums of biases are one launch of ours; other products are torch's.
    """

    def __init__(self, call: Call, wanted: tuple[bool, ...], memory: Allocations, closing: Copies) -> None:
        from throughtime.gpu import driver

        self.call, self.memory, self.closing = call, memory, closing
        self.layers = [layer for layer in range(call.layers) if self._is_wanted(layer, wanted)]
        self.products: list[Product] = []
        self.results: dict[int, View] = {}  # by their numbers among the gradients that are wanted
        self._multiprocessors = driver.limits(call.device)[0]
        biases = count_tiles(call.directions * call.form.slots * call.width, 1)
        tiles = sum(
            biases + sum(tiles for tiles in self._count_tiles(layer) if self._joins(tiles))
            for layer in self.layers
        )
        rows = call.steps * call.batch
        self._joint = JointProducts(call.kind, call.device, rows, tiles, self._multiprocessors)

    def _is_wanted(self, layer: int, wanted: tuple[bool, ...]) -> bool:
        return any(wanted[1 + cell * len(OWN) + name] for cell in self._cells(layer) for name in range(4))

    def _cells(self, layer: int) -> range:
        return range(layer * self.call.directions, (layer + 1) * self.call.directions)

    def _count_tiles(self, layer: int) -> tuple[int, int]:
        """Return the tiles of the gradients of the input's weights and of the recurrent ones."""
        call, (blocks, _, padded) = self.call, self.call.input_blocks(layer)
        rows = call.form.gates * call.width
        return (
            call.directions * count_tiles(rows, blocks * padded),
            call.directions * count_tiles(rows, call.width),
        )

    def _joins(self, tiles: int) -> bool:
        return is_joined(self.call.kind, self.call.steps * self.call.batch, tiles, self._multiprocessors)

    def add(self, layer: int, sums: int, states: int, kept: int, entering: View) -> None:
        """Compute the gradients of a layer's weights, and describe what each cell gets."""
        if layer not in self.layers:
            return
        call, form, width = self.call, self.call.form, self.call.width
        blocks, _, padded = call.input_blocks(layer)
        rows, (tiles_ih, tiles_hh) = call.directions * form.gates * width, self._count_tiles(layer)
        into_ih = self._allocate(rows, blocks * padded, joined=self._joins(tiles_ih))
        into_hh = self._allocate(rows, width, joined=self._joins(tiles_hh))
        into_bias = self._add_rows(sums)
        self._multiply(multiply_rows(call, layer, sums, entering, into_ih.tensor), into_ih, tiles_ih)
        self._multiply(multiply_states(call, sums, states, kept, into_hh.tensor), into_hh, tiles_hh)
        for direction, cell in enumerate(self._cells(layer)):
            number = 1 + cell * len(OWN)
            self.results[number] = self._tighten_ih(layer, into_ih, direction)
            self.results[number + 1] = self._tighten_hh(into_hh, direction)
            after = form is Form.GRU_AFTER  # its q comes first, whose gradient is that of bias_hn
            begin = direction * form.slots
            self.results[number + 2] = self._tighten_bias(into_bias, begin + after, form.gates)
            if after:
                self.results[number + 3] = self._tighten_bias(into_bias, begin, 1)

    def prepare(self) -> list[Launch]:
        """Return the launches, which come before the closing copies."""
        return self._joint.prepare()

    def _allocate(self, rows: int, columns: int, joined: bool) -> Wide:
        kind, parts = self.call.kind, self._joint.parts
        if not joined or (parts == 1 and kind.size == 4):
            return Wide(self.memory.allocate(rows, columns), kind.size)
        return Wide(self.memory.allocate(parts, rows, columns, float32=True), 4, parts, rows * columns)

    def _multiply(self, products: list[Product], into: Wide, tiles: int) -> None:
        if self._joins(tiles):
            for product in products:
                self._join(product, into.apart)
        else:
            self.products += products

    def _join(self, product: Product, apart: int) -> None:
        """Compute a product, or each of a pair of them, together with others."""
        left, right, into = product.left, product.right, product.into
        assert left.size is not None
        assert right.size is not None
        pair, size = len(left.size) > 2, self.call.kind.size

        def count(view: View, direction: int) -> int:
            return (view.offset or 0) + (direction * view.stride[0] if pair else 0)

        for direction in range(1 + pair):
            self._joint.multiply(
                (At(left.tensor, size * count(left, direction)), left.stride[-1], left.size[-2]),
                (At(right.tensor, size * count(right, direction)), right.stride[-2], right.size[-1]),
                At(into.tensor, 4 * count(into, direction)),
                apart,
            )

    def _add_rows(self, sums: int) -> Wide:
        """Add up the gradients of all sums, those of biases.

        torch's sum would allocate twice the memory of the matrix in 16 bits; a product with ones in float32
        might round to tf32.
        """
        columns = self.call.directions * self.call.form.slots * self.call.width
        into = self._allocate(1, columns, joined=True)
        self._joint.add_rows((At(sums), columns, columns), At(into.tensor))
        return into

    def _tighten(self, into: Matrix, wide: Wide, source: Matrix, groups: int = 1) -> None:
        """Add up the parts of a gradient, or copy it, without its padding."""
        conversion = self.call.convert_weights(back=True)
        if wide.parts:
            self.closing.add_up(into, source, wide.parts, wide.apart, groups, conversion)
        else:
            self.closing.copy(into, source, groups, conversion)

    def _tighten_ih(self, layer: int, wide: Wide, direction: int) -> View:
        call, gates, width = self.call, self.call.form.gates, self.call.width
        blocks, width_given, padded = call.input_blocks(layer)
        if self._is_tight(wide) and width_given == padded:
            return self._share(wide, direction)
        tight = self.memory.allocate(gates * call.size, blocks * width_given, float32=call.float_weights)
        element = 4 if call.float_weights else call.kind.size
        for block in range(blocks):
            source = wide.behind((direction * gates * width * blocks + block) * padded)
            self._tighten(
                Matrix(
                    At(tight, block * width_given * element), call.size, width_given, blocks * width_given
                ),
                wide,
                Matrix(source, width, padded, blocks * padded),
                gates,
            )
        return View(tight)

    def _tighten_hh(self, wide: Wide, direction: int) -> View:
        call, gates, width, size = self.call, self.call.form.gates, self.call.width, self.call.size
        after = call.form is Form.GRU_AFTER
        if self._is_tight(wide) and not after:
            return self._share(wide, direction)
        tight = self.memory.allocate(gates * size, size, float32=call.float_weights)
        element, begin, square = 4 if call.float_weights else call.kind.size, direction * gates, width * width
        into, source = (
            Matrix(At(tight), size, size, size),
            Matrix(wide.behind(begin * square), width, width, width),
        )
        if not after:
            self._tighten(into, wide, source, gates)
        else:  # from q, r, z to r, z, n
            self._tighten(into, wide, source._replace(at=wide.behind((begin + 1) * square)), 2)
            self._tighten(into._replace(at=At(tight, 2 * size * size * element)), wide, source)
        return View(tight)

    def _tighten_bias(self, wide: Wide, begin: int, gates: int) -> View:
        call, width = self.call, self.call.width
        if self._is_tight(wide):
            return View(wide.tensor, (gates * width,), (1,), begin * width)
        tight = self.memory.allocate(gates * call.size, float32=call.float_weights)
        self._tighten(
            Matrix(At(tight), gates, call.size, call.size),
            wide,
            Matrix(wide.behind(begin * width), gates, width, width),
        )
        return View(tight)

    def _is_tight(self, wide: Wide) -> bool:
        """Return whether the rows of a gradient need no copy."""
        return self.call.reads_weights and not wide.parts

    def _share(self, wide: Wide, direction: int) -> View:
        """Return the rows of one direction."""
        if self.call.directions == 1:
            return View(wide.tensor)
        rows, columns = self.call.form.gates * self.call.width, self.memory.columns(wide.tensor)
        return View(wide.tensor, (rows, columns), (columns, 1), direction * rows * columns)
