"""The backward pass of persistent layers as a program, and the gradients of their weights."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from throughtime.gpu.batched_copies import At, Copies, Launch, Matrix
from throughtime.gpu.elements import ElementKind
from throughtime.gpu.persistent_call import Call, StateLayout, prepare_kernel, set_precision
from throughtime.gpu.persistent_forward import (
    CARRY,
    LENGTHS,
    OWN,
    allocate_running,
    describe_kept,
    find_candidate_weights,
    view_outputs,
)
from throughtime.gpu.persistent_memory import (
    Allocations,
    Product,
    Shape,
    Stage,
    View,
    find_addresses,
    run_stages,
)
from throughtime.gpu.persistent_plan import Form
from throughtime.gpu.persistent_weights import WeightsBuilder, multiply_back

ENTERING, FIRST_RECURRENT = 2, 3
"""The numbers of saved tensors: the rows of the input, and the recurrent weights of all cells. Four of each
layer follow: weight, gates, states, and what else is kept. Then come the gradients of outputs and ends."""


class BackwardProgram(NamedTuple):
    """All layers, the top one first, each from its last span to its first; then the gradients of weights."""

    kind: ElementKind
    device: int
    shapes: list[Shape]
    copies: list[Launch]
    layers: list[list[Stage]]
    products: list[Product]  # with all sums: the gradients of x and of weights
    closing: list[Launch]  # more gradients of weights, then copies
    results: list[View | None]  # the gradients of x and of the tensors named in OWN of each cell

    def run(self, tensors: Sequence[Any]) -> None:
        """Run it with these tensors, those that it allocates among them."""
        addresses = find_addresses(tensors)
        for launch in self.copies:
            launch(addresses)
        with set_precision(self.kind):
            run_stages(self.layers, tensors, addresses, self.device)
            for product in self.products:
                product.run(tensors)
        for launch in self.closing:
            launch(addresses)


@functools.lru_cache(1024)
def build_backward(call: Call, present: tuple[bool, ...], wanted: tuple[bool, ...]) -> BackwardProgram:
    """Work out the backward pass.

    `present` says which gradients come in, `wanted` which are needed: of x, and of the tensors named in OWN
    of each cell.
    """
    return _Builder(call, present, wanted).build()


class _Builder:
    def __init__(self, call: Call, present: tuple[bool, ...], wanted: tuple[bool, ...]) -> None:
        self.call, self.present, self.wanted = call, present, wanted
        self.first_layer = FIRST_RECURRENT + call.cells
        self.first_gradient = self.first_layer + 4 * call.layers
        self.copies, self.closing = Copies(call.kind, call.device), Copies(call.kind, call.device)
        self.memory = Allocations(self.first_gradient + len(present))
        self.results: list[View | None] = [None] * len(wanted)
        self.kernel = prepare_kernel(call, True)

    def build(self) -> BackwardProgram:
        call = self.call
        flowing = self._take_outputs()
        layers: list[list[Stage]] = []
        weights = WeightsBuilder(call, self.wanted, self.memory, self.closing)
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
            layers.append([Stage(entering.get(span, []), launch) for span, launch in launches.items()])
            states, kept = self.first_layer + 4 * layer + 2, self.first_layer + 4 * layer + 3
            weights.add(layer, sums, states, kept, self._view_entering(layer))
            free = flowing if layer < call.layers - 1 else None
            entering = {}
            if into_rows is not None:
                flowing, weight = into_rows, self.first_layer + 4 * layer
                spans = launches if layer else [range(call.steps)]
                entering = {span: multiply_back(call, layer, sums, weight, into_rows, span) for span in spans}
        if self.wanted[0]:
            self.results[0] = self._tighten_rows(flowing)
        for number, view in weights.results.items():
            self.results[number] = view
        products = [product for products in entering.values() for product in products] + weights.products
        return BackwardProgram(
            call.kind,
            call.device,
            self.memory.shapes,
            self.copies.prepare(),
            layers,
            products,
            [*weights.prepare(), *self.closing.prepare()],
            self.results,
        )

    def _view_entering(self, layer: int) -> View:
        """Return the rows that enter a layer at all steps."""
        if layer:
            return view_outputs(self.call, self.first_layer + 4 * layer - 2, range(self.call.steps))
        rows, (_, _, padded) = self.call.steps * self.call.batch, self.call.input_blocks(0)
        return View(ENTERING, (rows, padded), (padded, 1), None)

    def _take_outputs(self) -> int:
        """Return the gradient of the outputs, padded; zeros if there is none."""
        call = self.call
        rows = call.steps * call.batch * call.directions
        if self.present[0] and call.size == call.width:
            return self.first_gradient
        outputs = self.memory.allocate(call.steps, call.batch, call.row)
        into = Matrix(At(outputs), rows, call.width, call.width)
        if self.present[0]:
            self.copies.copy(into, Matrix(At(self.first_gradient), rows, call.size, call.size))
        else:
            self.copies.clear(into)
        return outputs

    def _take_end(self, cell: int, state_number: int) -> int | At:
        """Return the address of the gradient of a last state, padded; 0 if there is none."""
        call, number = self.call, 1 + cell * self.call.form.parts + state_number
        if state_number >= call.form.parts or not self.present[number]:
            return 0
        tensor = self.first_gradient + number
        if call.size == call.width and not call.float_weights:
            return At(tensor)
        end = self.memory.allocate(call.batch, call.width)
        self.copies.copy(
            Matrix(At(end), call.batch, call.width, call.width),
            Matrix(At(tensor), call.batch, call.size, call.size),
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
            position = step, int(span.stop < call.steps), running
            launches[span] = [
                Launch(self.kernel.launch, self.kernel.blocks, (*shared, first, *position, *described))
                for first in self.kernel.first_directions
            ]
        return sums, launches

    def _describe_forward(self, layer: int, direction: int, step: int) -> tuple[int | At, ...]:
        """Return the addresses of what the forward pass left of a layer from a step on."""
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
        """Return the address where blocks that share units exchange parts of sums; 0 if none do."""
        if split == 1:
            return 0
        parts = self.memory.allocate(2 * self.call.batch, split * self.call.width, float32=True)
        self.copies.mark_unwritten(At(parts), 2 * self.call.batch * split * self.call.width * 4)
        return At(parts)

    def _transpose_weights(self, recurrent: int) -> int:
        """Transpose the recurrent weights of a cell, gates in the order of the slots."""
        call, form, width, element = self.call, self.call.form, self.call.width, self.call.kind.size
        element_bytes = 4 if call.float_weights else element
        conversion, weights = call.convert_weights(), self.memory.allocate(form.gates * width, width)
        two, all_gates = 2 * width, form.gates * width
        square = Matrix(At(recurrent), call.size, call.size, call.size)
        last = square._replace(at=At(recurrent, 2 * call.size**2 * element_bytes))
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
        """Return the address for the gradient of a first state; 0 if it is not wanted."""
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

    def _tighten_rows(self, wide: int) -> View:
        """Return the gradient of the input, without padding and in its own type."""
        call, (_, unpadded, padded), rows = (
            self.call,
            self.call.input_blocks(0),
            self.call.steps * self.call.batch,
        )
        size, stride = (call.steps, call.batch, unpadded), (call.batch * unpadded, unpadded, 1)
        if unpadded == padded and not call.float_x:
            return View(wide, size, stride)
        tight = self.memory.allocate(rows, unpadded, float32=call.float_x)
        self.closing.copy(
            Matrix(At(tight), rows, unpadded, unpadded),
            Matrix(At(wide), rows, padded, padded),
            conversion=call.convert_x(back=True),
        )
        return View(tight, size, stride)
