"""The backward pass of persistent layers as a program, and the gradients of their weights."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from throughtime.kernels.elements import ElementKind
from throughtime.recurrence.batched_copies import At, Copies, Launch, Matrix
from throughtime.recurrence.persistent_call import Call, StateLayout, prepare_kernel, set_precision
from throughtime.recurrence.persistent_forward import (
    CARRY,
    LENGTHS,
    OWN,
    describe_kept,
    find_candidate_weights,
    view_outputs,
)
from throughtime.recurrence.persistent_memory import Allocations, Shape, View, find_addresses
from throughtime.recurrence.persistent_plan import Form
from throughtime.recurrence.persistent_products import Product, multiply_back, multiply_rows, multiply_states

ENTERING, FIRST_RECURRENT = 2, 3
"""The numbers of saved tensors: the rows of the input, and the recurrent weights of all cells. Four of each
layer follow: weight, gates, states, and what else is kept. Then come the gradients of outputs and ends."""


class LayerGradients(NamedTuple):
    """One layer: a launch for all its steps, then products."""

    launches: list[Launch]
    products: list[Product]
    sums: int  # gradients of all sums [T * B, directions * slots * width]
    into_bias: int | None  # where those of all rows are added: [directions * slots * width]

    def run(self, tensors: Sequence[Any], addresses: Sequence[int]) -> None:
        """Compute the gradients of all sums, and then those of the input and the weights."""
        for launch in self.launches:
            launch(addresses)
        for multiply, left, right, into in self.products:
            multiply(left.of(tensors), right.of(tensors), out=into.of(tensors))
        if self.into_bias is not None:
            add_rows(tensors[self.sums], tensors[self.into_bias])


def add_rows(rows: torch.Tensor, into: torch.Tensor) -> None:
    """Add all rows of a matrix.

    In 16 bits this is a product with ones: torch's sum would allocate twice the memory of the matrix. A
    product in float32 might round to tf32.
    """
    if rows.dtype.itemsize == 2:
        torch.mm(rows.new_ones(1, len(rows)), rows, out=into[None])
    else:
        torch.sum(rows, 0, out=into)


class BackwardProgram(NamedTuple):
    """All layers, the top one first."""

    kind: ElementKind
    shapes: list[Shape]
    copies: list[Launch]
    layers: list[LayerGradients]
    closing_copies: list[Launch]
    results: list[View | None]  # the gradients of x and of the tensors named in OWN of each cell

    def run(self, tensors: Sequence[Any]) -> None:
        """Run it with these tensors, those that it allocates among them."""
        addresses = find_addresses(tensors)
        for launch in self.copies:
            launch(addresses)
        with set_precision(self.kind):
            for layer in self.layers:
                layer.run(tensors, addresses)
        for launch in self.closing_copies:
            launch(addresses)


@functools.lru_cache(1024)
def build_backward(call: Call, given: tuple[bool, ...], wanted: tuple[bool, ...]) -> BackwardProgram:
    """Work out the backward pass.

    `given` says which gradients come in, `wanted` which are needed: of x, and of the tensors named in OWN of
    each cell.
    """
    return _Builder(call, given, wanted).build()


class _Builder:
    def __init__(self, call: Call, given: tuple[bool, ...], wanted: tuple[bool, ...]) -> None:
        self.call, self.given, self.wanted = call, given, wanted
        self.first_layer = FIRST_RECURRENT + call.cells
        self.first_gradient = self.first_layer + 4 * call.layers
        self.copies, self.closing = Copies(call.kind, call.device), Copies(call.kind, call.device)
        self.memory = Allocations(self.first_gradient + len(given))
        self.results: list[View | None] = [None] * len(wanted)

    def build(self) -> BackwardProgram:
        call = self.call
        flowing = self._take_outputs()
        layers = []
        free: int | None = None  # memory that the layer above no longer needs
        for layer in reversed(range(call.layers)):
            blocks, _, padded = call.input_blocks(layer)
            into_rows: int | None = None
            if layer or self.wanted[0]:
                reusable = free is not None and layer > 0
                into_rows = (
                    free if reusable else self.memory.allocate(call.steps * call.batch, blocks * padded)
                )
            layers.append(self._add_layer(layer, flowing, into_rows))
            free = flowing if layer < call.layers - 1 else None
            if into_rows is not None:
                flowing = into_rows
        if self.wanted[0]:
            self.results[0] = self._tighten_rows(flowing)
        shapes = self.memory.shapes
        copies, closing = self.copies.prepare(), self.closing.prepare()
        return BackwardProgram(call.kind, shapes, copies, layers, closing, self.results)

    def _take_outputs(self) -> int:
        """The gradient of the outputs, padded; zeros if there is none."""
        call = self.call
        rows = call.steps * call.batch * call.directions
        if self.given[0] and call.size == call.width:
            return self.first_gradient
        outputs = self.memory.allocate(call.steps, call.batch, call.row)
        into = Matrix(At(outputs), rows, call.width, call.width)
        if self.given[0]:
            self.copies.copy(into, Matrix(At(self.first_gradient), rows, call.size, call.size))
        else:
            self.copies.clear(into)
        return outputs

    def _take_end(self, cell: int, part: int) -> int | At:
        """The address of the gradient of a last state, padded; 0 if there is none."""
        call, number = self.call, 1 + cell * self.call.form.parts + part
        if part >= call.form.parts or not self.given[number]:
            return 0
        given = self.first_gradient + number
        if call.size == call.width and not call.float_weights:
            return At(given)
        end = self.memory.allocate(call.batch, call.width)
        self.copies.copy(
            Matrix(At(end), call.batch, call.width, call.width),
            Matrix(At(given), call.batch, call.size, call.size),
            conversion=call.convert_weights(),
        )
        return At(end)

    def _add_layer(self, layer: int, outputs: int, into_rows: int | None) -> LayerGradients:
        call, form, width = self.call, self.call.form, self.call.width
        weight, gates, states, kept = range(self.first_layer + 4 * layer, self.first_layer + 4 * layer + 4)
        sums = self.memory.allocate(call.steps * call.batch, call.directions * form.slots * width)
        size = call.steps * call.batch * call.directions * form.slots * width * call.kind.size
        self.copies.mark_unwritten(At(sums), size)
        kernel = prepare_kernel(call, True)
        described: list[int | At] = []
        layout = StateLayout.of(call)
        for direction in range(call.directions):
            cell, back = layer * call.directions + direction, call.reads_backwards(direction)
            transposed = self._transpose_weights(FIRST_RECURRENT + cell)
            memories = describe_kept(call, None if form <= Form.RELU else kept, direction)
            described += (
                int(back),
                At(gates, direction * form.gates * width * call.kind.size),
                layout.first(states, direction, back),
                layout.outputs(states, direction),
                *memories,
                At(transposed),
                find_candidate_weights(call, transposed),
                At(outputs, direction * width * call.kind.size),
                self._take_end(cell, 0),
                self._take_end(cell, 1),
                At(sums, direction * form.slots * width * call.kind.size),
                self._give_initial(cell, "h"),
                self._give_initial(cell, "c"),
                self._share_parts(kernel.split),
            )
        shared = call.steps, call.batch, kernel.pause, At(LENGTHS), At(CARRY)
        launches = [
            Launch(kernel.launch, kernel.blocks, (*shared, first, *described))
            for first in kernel.first_directions
        ]
        products = [] if into_rows is None else multiply_back(call, layer, sums, weight, into_rows)
        into_bias = self._add_weights(layer, sums, states, kept, products)
        return LayerGradients(launches, products, sums, into_bias)

    def _share_parts(self, split: int) -> int | At:
        """The address where blocks that share their units exchange parts of sums; 0 if none share theirs."""
        if split == 1:
            return 0
        parts = self.memory.allocate(2 * self.call.batch, split * self.call.width, float32=True)
        self.copies.mark_unwritten(At(parts), 2 * self.call.batch * split * self.call.width * 4)
        return At(parts)

    def _transpose_weights(self, recurrent: int) -> int:
        """Transpose the recurrent weights of a cell, gates in the order of the slots."""
        call, form, width, element = self.call, self.call.form, self.call.width, self.call.kind.size
        given = 4 if call.float_weights else element
        conversion, weights = call.convert_weights(), self.memory.allocate(form.gates * width, width)
        two, all_gates = 2 * width, form.gates * width
        square = Matrix(At(recurrent), call.size, call.size, call.size)
        last = square._replace(at=At(recurrent, 2 * call.size**2 * given))
        if form is Form.GRU_AFTER:  # from r, z, n to q, r, z
            self.copies.transpose(At(weights), all_gates, width, last, 1, conversion)
            self.copies.transpose(At(weights, width * element), all_gates, width, square, 2, conversion)
        elif form is Form.GRU_BEFORE:  # r and z, and n for itself
            self.copies.transpose(At(weights), two, width, square, 2, conversion)
            self.copies.transpose(At(weights, two * width * element), width, width, last, 1, conversion)
        else:
            self.copies.transpose(At(weights), all_gates, width, square, form.gates, conversion)
        return weights

    def _give_initial(self, cell: int, name: str) -> int | At:
        """The address for the gradient of a first state; 0 if it is not wanted."""
        call, number = self.call, 1 + cell * len(OWN) + OWN.index(name)
        if not call.stateful or not self.wanted[number]:
            return 0
        wide = self.memory.allocate(call.batch, call.width)
        self.results[number] = View(wide)
        if call.size < call.width or call.float_weights:
            tight = self.memory.allocate(call.batch, call.size, float32=call.float_weights)
            self.closing.copy(
                Matrix(At(tight), call.batch, call.size, call.size),
                Matrix(At(wide), call.batch, call.width, call.width),
                conversion=call.convert_weights(back=True),
            )
            self.results[number] = View(tight)
        return At(wide)

    def _add_weights(
        self, layer: int, sums: int, states: int, kept: int, products: list[Product]
    ) -> int | None:
        """Add the products that give the gradients of a layer's weights, and describe what each cell gets."""
        call, form, width = self.call, self.call.form, self.call.width
        cells = range(layer * call.directions, (layer + 1) * call.directions)
        if not any(self.wanted[1 + cell * len(OWN) + name] for cell in cells for name in range(4)):
            return None
        blocks, _, padded = call.input_blocks(layer)
        rows = form.gates * width
        into_ih = self.memory.allocate(call.directions * rows, blocks * padded)
        into_hh = self.memory.allocate(call.directions * rows, width)
        into_bias = self.memory.allocate(call.directions * form.slots * width)
        rows_below = view_outputs(call, self.first_layer + 4 * layer - 2) if layer else View(ENTERING)
        products += multiply_rows(call, layer, sums, rows_below, into_ih)
        products += multiply_states(call, sums, states, kept, into_hh)
        for direction, cell in enumerate(cells):
            number = 1 + cell * len(OWN)
            self.results[number] = self._tighten_ih(layer, into_ih, direction)
            self.results[number + 1] = self._tighten_hh(into_hh, direction)
            after = form is Form.GRU_AFTER  # its q comes first, whose gradient is that of bias_hn
            begin = direction * form.slots
            self.results[number + 2] = self._tighten_bias(into_bias, begin + after, form.gates)
            if after:
                self.results[number + 3] = self._tighten_bias(into_bias, begin, 1)
        return into_bias

    def _tighten_ih(self, layer: int, wide: int, direction: int) -> View:
        call, gates, width, element = self.call, self.call.form.gates, self.call.width, self.call.kind.size
        blocks, given, padded = call.input_blocks(layer)
        if call.size == width and given == padded and not call.float_weights:
            return self._share(wide, direction)
        tight = self.memory.allocate(gates * call.size, blocks * given, float32=call.float_weights)
        own = 4 if call.float_weights else element
        for block in range(blocks):
            source = At(wide, (direction * gates * width * blocks * padded + block * padded) * element)
            self.closing.copy(
                Matrix(At(tight, block * given * own), call.size, given, blocks * given),
                Matrix(source, width, padded, blocks * padded),
                gates,
                call.convert_weights(back=True),
            )
        return View(tight)

    def _tighten_hh(self, wide: int, direction: int) -> View:
        call, gates, width, size = self.call, self.call.form.gates, self.call.width, self.call.size
        after = call.form is Form.GRU_AFTER
        if size == width and not after and not call.float_weights:
            return self._share(wide, direction)
        tight = self.memory.allocate(gates * size, size, float32=call.float_weights)
        own, conversion = 4 if call.float_weights else call.kind.size, call.convert_weights(back=True)
        first = At(wide, direction * gates * width * width * call.kind.size)
        into, source = Matrix(At(tight), size, size, size), Matrix(first, width, width, width)
        if not after:
            self.closing.copy(into, source, gates, conversion)
        else:  # from q, r, z to r, z, n
            behind = source._replace(at=first.behind(width * width * call.kind.size))
            self.closing.copy(into, behind, 2, conversion)
            last = into._replace(at=At(tight, 2 * size * size * own))
            self.closing.copy(last, source, 1, conversion)
        return View(tight)

    def _share(self, wide: int, direction: int) -> View:
        """The rows of one direction."""
        if self.call.directions == 1:
            return View(wide)
        rows, columns = self.call.form.gates * self.call.width, self.memory.columns(wide)
        return View(wide, (rows, columns), (columns, 1), direction * rows * columns)

    def _tighten_bias(self, wide: int, begin: int, gates: int) -> View:
        call, width = self.call, self.call.width
        if call.size == width and not call.float_weights:
            whole = call.directions == 1 and gates == call.form.slots
            return View(wide) if whole else View(wide, (gates * width,), (1,), begin * width)
        tight = self.memory.allocate(gates * call.size, float32=call.float_weights)
        self.closing.copy(
            Matrix(At(tight), gates, call.size, call.size),
            Matrix(At(wide, begin * width * call.kind.size), gates, width, width),
            conversion=call.convert_weights(back=True),
        )
        return View(tight)

    def _tighten_rows(self, wide: int) -> View:
        """The gradient of the input, without padding and in its own type."""
        call, (_, given, padded), rows = (
            self.call,
            self.call.input_blocks(0),
            self.call.steps * self.call.batch,
        )
        size, stride = (call.steps, call.batch, given), (call.batch * given, given, 1)
        if given == padded and not call.float_x:
            return View(wide, size, stride)
        tight = self.memory.allocate(rows, given, float32=call.float_x)
        self.closing.copy(
            Matrix(At(tight), rows, given, given),
            Matrix(At(wide), rows, padded, padded),
            conversion=call.convert_x(back=True),
        )
        return View(tight, size, stride)
