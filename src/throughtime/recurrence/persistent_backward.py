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
    allocate_running,
    describe_kept,
    find_candidate_weights,
    view_outputs,
)
from throughtime.recurrence.persistent_memory import Allocations, Shape, View, find_addresses
from throughtime.recurrence.persistent_plan import Form
from throughtime.recurrence.persistent_products import multiply_back, multiply_rows, multiply_states
from throughtime.recurrence.persistent_stages import Product, Stage, run_stages

ENTERING, FIRST_RECURRENT = 2, 3
"""The numbers of saved tensors: the rows of the input, and the recurrent weights of all cells. Four of each
layer follow: weight, gates, states, and what else is kept. Then come the gradients of outputs and ends."""


class WeightGradients(NamedTuple):
    """The gradients of one layer's weights, from those of its sums."""

    products: list[Product]
    sums: int  # gradients of all sums [T * B, directions * slots * width]
    into_bias: int  # where those of all rows are added: [directions * slots * width]

    def run(self, tensors: Sequence[Any]) -> None:
        """Compute them."""
        for product in self.products:
            product.run(tensors)
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
    """All layers, the top one first, each from its last span to its first; then the gradients of weights."""

    kind: ElementKind
    device: int
    shapes: list[Shape]
    copies: list[Launch]
    layers: list[list[Stage]]
    into_x: list[Product]
    weights: list[WeightGradients]
    closing_copies: list[Launch]
    results: list[View | None]  # the gradients of x and of the tensors named in OWN of each cell

    def run(self, tensors: Sequence[Any]) -> None:
        """Run it with these tensors, those that it allocates among them."""
        addresses = find_addresses(tensors)
        for launch in self.copies:
            launch(addresses)
        with set_precision(self.kind):
            run_stages(self.layers, tensors, addresses, self.device)
            for product in self.into_x:
                product.run(tensors)
            for layer in self.weights:
                layer.run(tensors)
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
        self.kernel = prepare_kernel(call, True)

    def build(self) -> BackwardProgram:
        call = self.call
        flowing = self._take_outputs()
        layers: list[list[Stage]] = []
        weights: list[WeightGradients] = []
        entering: dict[range, list[Product]] = {}  # what gives a layer the gradients of its outputs
        free: int | None = None  # memory that the layer above no longer needs
        for layer in reversed(range(call.layers)):
            blocks, _, padded = call.input_blocks(layer)
            into_rows: int | None = None
            if layer or self.wanted[0]:
                reusable = free is not None and layer > 0
                into_rows = (
                    free if reusable else self.memory.allocate(call.steps * call.batch, blocks * padded)
                )
            sums, launches = self._add_launches(layer, flowing)
            layers.append([Stage(entering.get(span, []), one) for span, one in launches.items()])
            weights += self._add_weights(layer, sums)
            free = flowing if layer < call.layers - 1 else None
            entering = {}
            if into_rows is not None:
                flowing, weight = into_rows, self.first_layer + 4 * layer
                spans = launches if layer else [range(call.steps)]
                entering = {span: multiply_back(call, layer, sums, weight, into_rows, span) for span in spans}
        if self.wanted[0]:
            self.results[0] = self._tighten_rows(flowing)
        shapes = self.memory.shapes
        copies, closing = self.copies.prepare(), self.closing.prepare()
        into_x = [product for products in entering.values() for product in products]
        return BackwardProgram(
            call.kind, call.device, shapes, copies, layers, into_x, weights, closing, self.results
        )

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

    def _add_launches(self, layer: int, outputs: int) -> tuple[int, dict[range, list[Launch]]]:
        """Return where the gradients of a layer's sums go, and its launches for each span, the last first."""
        call, form, width = self.call, self.call.form, self.call.width
        sums = self.memory.allocate(call.steps * call.batch, call.directions * form.slots * width)
        size = call.steps * call.batch * call.directions * form.slots * width * call.kind.size
        if not self.kernel.alone:
            self.copies.mark_unwritten(At(sums), size)
        cells = range(layer * call.directions, (layer + 1) * call.directions)
        transposed = [self._transpose_weights(FIRST_RECURRENT + cell) for cell in cells]
        ends = [(self._take_end(cell, 0), self._take_end(cell, 1)) for cell in cells]
        initial = [(self._give_initial(cell, "h"), self._give_initial(cell, "c")) for cell in cells]
        running = allocate_running(call, self.kernel, self.memory)
        launches = {}
        for span in reversed(self.kernel.spans):
            step, rows = span.start, span.start * call.batch * call.directions
            described: list[int | At] = []
            for direction, weights in enumerate(transposed):
                described += (
                    *self._describe_forward(layer, direction, step),
                    At(weights),
                    find_candidate_weights(call, weights),
                    At(outputs, (rows + direction) * width * call.kind.size),
                    *ends[direction],
                    At(sums, (rows + direction) * form.slots * width * call.kind.size),
                    *(initial[direction] if not step else (0, 0)),
                    self._share_parts(self.kernel.split),
                )
            shared = len(span), call.batch, self.kernel.pause, At(LENGTHS), At(CARRY)
            place = step, int(span.stop < call.steps), running
            launches[span] = [
                Launch(self.kernel.launch, self.kernel.blocks, (*shared, first, *place, *described))
                for first in self.kernel.first_directions
            ]
        return sums, launches

    def _describe_forward(self, layer: int, direction: int, step: int) -> tuple[int | At, ...]:
        """The addresses of what the forward pass left of a layer from a step on."""
        call, layout = self.call, StateLayout.of(self.call)
        _, gates, states, kept = range(self.first_layer + 4 * layer, self.first_layer + 4 * layer + 4)
        back, rows = call.reads_backwards(direction), step * call.batch * call.directions
        return (
            int(back),
            At(gates, (rows + direction) * call.form.gates * call.width * call.kind.size),
            layout.first(states, direction, back, step),
            layout.outputs(states, direction, step),
            *describe_kept(call, None if call.form <= Form.RELU else kept, direction, step),
        )

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

    def _add_weights(self, layer: int, sums: int) -> list[WeightGradients]:
        """The gradients of a layer's weights, if any is wanted; and describe what each cell gets."""
        call, form, width = self.call, self.call.form, self.call.width
        states, kept = self.first_layer + 4 * layer + 2, self.first_layer + 4 * layer + 3
        cells = range(layer * call.directions, (layer + 1) * call.directions)
        if not any(self.wanted[1 + cell * len(OWN) + name] for cell in cells for name in range(4)):
            return []
        blocks, _, padded = call.input_blocks(layer)
        rows = form.gates * width
        into_ih = self.memory.allocate(call.directions * rows, blocks * padded)
        into_hh = self.memory.allocate(call.directions * rows, width)
        into_bias = self.memory.allocate(call.directions * form.slots * width)
        below = self.first_layer + 4 * layer - 2
        rows_below = view_outputs(call, below, range(call.steps)) if layer else View(ENTERING)
        products = multiply_rows(call, layer, sums, rows_below, into_ih)
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
        return [WeightGradients(products, sums, into_bias)]

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
