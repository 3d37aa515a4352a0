"""The forward pass of persistent layers as a program, worked out once for a shape."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from throughtime.gpu.batched_copies import At, Copies, Launch, Matrix
from throughtime.gpu.elements import ElementKind
from throughtime.gpu.persistent_call import Call, Kernel, StateLayout, prepare_kernel, set_precision
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

OWN = ("weight_ih", "weight_hh", "bias", "bias_hn", "h", "c")
"""The inputs of a cell: weights, and the state before the first step. Only a GRU with reset after has
bias_hn, only an LSTM has c; without h and c the state is zero."""
LENGTHS, CARRY, X, FIRST_OWN = range(4)
"""The numbers of the tensors that a call gives; the inputs of all cells follow."""


class ForwardProgram(NamedTuple):
    """All layers: products with what enters them, and launches. Tensors are numbers."""

    kind: ElementKind
    device: int
    shapes: list[Shape]
    copies: list[Launch]  # before everything else
    layers: list[list[Stage]]
    closing_copies: list[Launch]
    outputs: View
    ends: list[int]
    saved: list[int | None]  # for the backward pass, as `persistent_backward` numbers them

    def run(self, tensors: Sequence[Any]) -> None:
        """Run it with these tensors, those that it allocates among them."""
        addresses = find_addresses(tensors)
        for launch in self.copies:
            launch(addresses)
        with set_precision(self.kind):
            run_stages(self.layers, tensors, addresses, self.device)
        for launch in self.closing_copies:
            launch(addresses)


class _Cell(NamedTuple):
    """The tensors of one direction of a layer."""

    recurrent: int
    bias_hn: int | None
    ends: list[int]


@functools.lru_cache(1024)
def build_forward(call: Call) -> ForwardProgram:
    """Work out the forward pass of this call."""
    copies, memory = Copies(call.kind, call.device), Allocations(FIRST_OWN + call.cells * len(OWN))
    entering, kernel = _enter(call, copies, memory), prepare_kernel(call, False)
    tensors = []
    for layer in range(call.layers):
        weight, bias = _join_weights(call, layer, copies, memory)
        cells = [_prepare_cell(call, number, copies, memory) for number in _cells_of(call, layer)]
        tensors.append((weight, bias, *_prepare_states(call, layer, kernel, copies, memory), cells))
    closing = Copies(call.kind, call.device)
    outputs = _tighten_outputs(call, tensors[-1][2], closing, memory)
    ends = [
        _tighten_end(call, end, closing, memory)
        for *_, cells in tensors
        for cell in cells
        for end in cell.ends
    ]
    layers = []
    saved: list[int | None] = [
        LENGTHS,
        CARRY,
        entering,
        *(_own(cell, "weight_hh") for cell in range(call.cells)),
    ]
    gates, below = -1, -1
    for layer, (weight, bias, states, kept, cells) in enumerate(tensors):
        if call.keeps or layer == 0:
            gates = memory.allocate(call.steps * call.batch, call.directions * call.form.gates * call.width)
        running = allocate_running(call, kernel, memory)
        stages = []
        for span in kernel.spans:
            launches = _prepare_launches(call, kernel, span, running, gates, states, kept, cells)
            products = []
            if layer:
                products.append(
                    _enter_layer(call, layer, view_outputs(call, below, span), weight, bias, gates, span)
                )
            elif not span.start:  # what enters the first layer is there from the beginning
                every = range(call.steps)
                products.append(_enter_layer(call, layer, View(entering), weight, bias, gates, every))
            stages.append(Stage(products, launches))
        layers.append(stages)
        saved += (weight, gates, states, kept)
        below = states
    return ForwardProgram(
        call.kind,
        call.device,
        memory.shapes,
        copies.prepare(),
        layers,
        closing.prepare(),
        outputs,
        ends,
        saved,
    )


def view_outputs(call: Call, states: int, span: range) -> View:
    """Return the rows of the outputs of these steps among the states of a layer."""
    layout, rows = StateLayout.of(call), len(span) * call.batch
    return View(states, (rows, call.row), (call.row, 1), layout.offset(layout.first_output + span.start))


def allocate_running(call: Call, kernel: Kernel, memory: Allocations) -> int | At:
    """Return the address of the running values of a layer between spans; 0 if one launch runs all."""
    if len(kernel.spans) == 1:
        return 0
    return At(memory.allocate(2, call.batch, call.width, float32=True))


def _enter_layer(
    call: Call, layer: int, rows: View, weight: int, bias: int, gates: int, span: range
) -> Product:
    """Return the product of the rows that enter a layer at these steps with its weights, transposed."""
    blocks, _, padded = call.input_blocks(layer)
    inputs, width = blocks * padded, call.directions * call.form.gates * call.width
    turned = View(weight, (inputs, width), (1, inputs), None)
    into = View(gates, (len(span) * call.batch, width), (width, 1), span.start * call.batch * width)
    return Product(torch.addmm, rows, turned, into, View(bias))


def _own(cell: int, name: str) -> int:
    return FIRST_OWN + cell * len(OWN) + OWN.index(name)


def _cells_of(call: Call, layer: int) -> range:
    return range(layer * call.directions, (layer + 1) * call.directions)


def _enter(call: Call, copies: Copies, memory: Allocations) -> int:
    """Pad the rows of the input: those that are not aligned are multiplied at half the speed."""
    _, unpadded, width = call.input_blocks(0)
    if unpadded == width and not call.float_x:
        return X
    rows = call.steps * call.batch
    entering = memory.allocate(rows, width)
    copies.copy(
        Matrix(At(entering), rows, width, width),
        Matrix(At(X), rows, unpadded, unpadded),
        conversion=call.convert_x(),
    )
    return entering


def _join_weights(call: Call, layer: int, copies: Copies, memory: Allocations) -> tuple[int, int]:
    """Make the input's weights and biases of all directions one matrix and one row, padded with zeros."""
    gates, size, width, element = call.form.gates, call.size, call.width, call.kind.size
    blocks, unpadded, padded = call.input_blocks(layer)
    first, *others = _cells_of(call, layer)
    as_given = size == width and unpadded == padded and not (others or call.float_weights)
    if as_given:
        return _own(first, "weight_ih"), _own(first, "bias")
    rows, columns, conversion = gates * width, blocks * padded, call.convert_weights()
    given_element = 4 if call.float_weights else element
    weight, bias = memory.allocate(call.directions * rows, columns), memory.allocate(call.directions * rows)
    for direction, cell in enumerate(_cells_of(call, layer)):
        for block in range(blocks):
            into = At(weight, (direction * rows * columns + block * padded) * element)
            source = At(_own(cell, "weight_ih"), block * unpadded * given_element)
            copies.copy(
                Matrix(into, width, padded, columns),
                Matrix(source, size, unpadded, blocks * unpadded),
                gates,
                conversion,
            )
        copies.copy(
            Matrix(At(bias, direction * rows * element), gates, width, width),
            Matrix(At(_own(cell, "bias")), gates, size, size),
            conversion=conversion,
        )
    return weight, bias


def _prepare_cell(call: Call, cell: int, copies: Copies, memory: Allocations) -> _Cell:
    """Pad what the kernel itself reads of a cell's weights, and allocate its last state."""
    gates, size, width, conversion = call.form.gates, call.size, call.width, call.convert_weights()
    ends = [memory.allocate(call.batch, width) for _ in range(call.form.parts)]
    recurrent = _own(cell, "weight_hh")
    bias_hn = _own(cell, "bias_hn") if call.form is Form.GRU_AFTER else None
    if size < width or call.float_weights:
        plain, recurrent = recurrent, memory.allocate(gates * width, width)
        copies.copy(
            Matrix(At(recurrent), width, width, width), Matrix(At(plain), size, size, size), gates, conversion
        )
        if bias_hn is not None:
            plain, bias_hn = bias_hn, memory.allocate(width)
            copies.copy(
                Matrix(At(bias_hn), 1, width, width), Matrix(At(plain), 1, size, size), conversion=conversion
            )
    return _Cell(recurrent, bias_hn, ends)


def _prepare_states(
    call: Call, layer: int, kernel: Kernel, copies: Copies, memory: Allocations
) -> tuple[int, int | None]:
    """Allocate the states of a layer, and memories or what only GRUs keep; fill in the first of them."""
    form, steps, batch, width, element = call.form, call.steps, call.batch, call.width, call.kind.size
    layout, state_bytes = StateLayout.of(call), call.batch * call.width * call.kind.size
    states, kept = memory.allocate(layout.blocks, batch, call.row), None
    if not kernel.alone:
        copies.mark_unwritten(layout.outputs(states), steps * batch * call.row * element)
    if form is Form.LSTM:
        kept = memory.allocate(call.directions, steps + 1 if call.keeps else 1, batch, width)
    elif form is Form.GRU_BEFORE or (form is Form.GRU_AFTER and call.keeps):
        kept = memory.allocate(call.directions, steps, batch, width)
        if form is Form.GRU_BEFORE and not kernel.alone:  # it is exchanged
            copies.mark_unwritten(At(kept), call.directions * steps * state_bytes)
    for direction, cell in enumerate(_cells_of(call, layer)):
        first = layout.first(states, direction, call.reads_backwards(direction))
        _write_first(call, copies, Matrix(first, batch, width, call.row), _own(cell, "h"))
        if form is Form.LSTM:
            assert kept is not None
            memory_rows = Matrix(_memory(call, kept, direction), batch, width, width)
            _write_first(call, copies, memory_rows, _own(cell, "c"))
    return states, kept


def _write_first(call: Call, copies: Copies, into: Matrix, tensor: int) -> None:
    """Fill in a first state, as given or with zeros."""
    if call.stateful:
        source = Matrix(At(tensor), call.batch, call.size, call.size)
        copies.copy(into, source, conversion=call.convert_weights())
    else:
        copies.clear(into)


def _memory(call: Call, kept: int, direction: int) -> At:
    """Return the address of an LSTM's first memory; those after each step follow."""
    blocks = call.steps + 1 if call.keeps else 1
    return At(kept, direction * blocks * call.batch * call.width * call.kind.size)


def describe_kept(
    call: Call, kept: int | None, direction: int, step: int
) -> tuple[int | At, int | At, int | At]:
    """Return addresses: the memory before a step, the next ones, and what only GRUs keep; 0 for none."""
    state_bytes = call.batch * call.width * call.kind.size
    if kept is None:
        return 0, 0, 0
    if call.form is Form.LSTM:
        first = _memory(call, kept, direction).behind(step * state_bytes)
        return first, first.behind(state_bytes), 0
    return 0, 0, At(kept, (direction * call.steps + step) * state_bytes)


def find_candidate_weights(call: Call, weight: int) -> int | At:
    """Return the address of the weights of n, which only a GRU with reset before has separately; else 0."""
    return At(weight, 2 * call.width**2 * call.kind.size) if call.form is Form.GRU_BEFORE else 0


def _prepare_launches(
    call: Call,
    kernel: Kernel,
    span: range,
    running: int | At,
    gates: int,
    states: int,
    kept: int | None,
    cells: list[_Cell],
) -> list[Launch]:
    """Describe the launches of a layer for these steps, in the order of `Forward` in forward.cu."""
    layout, step, gate = StateLayout.of(call), span.start, call.form.gates * call.width * call.kind.size
    directions: list[int | At] = []
    for direction, cell in enumerate(cells):
        back = call.reads_backwards(direction)
        directions += (
            int(back),
            At(gates, (direction + step * call.batch * call.directions) * gate),
            At(cell.recurrent),
            find_candidate_weights(call, cell.recurrent),
            0 if cell.bias_hn is None else At(cell.bias_hn),
            layout.first(states, direction, back, step),
            layout.outputs(states, direction, step),
            *describe_kept(call, kept, direction, step),
            At(cell.ends[0]),
            At(cell.ends[1]) if call.form is Form.LSTM else 0,
        )
    shared = len(span), call.batch, kernel.pause, int(call.keeps), At(LENGTHS)
    position = step, int(step > 0), running
    return [
        Launch(kernel.launch, kernel.blocks, (*shared, first, *position, *directions))
        for first in kernel.first_directions
    ]


def _tighten_outputs(call: Call, states: int, copies: Copies, memory: Allocations) -> View:
    """Remove the padding of the outputs, if there is any."""
    if call.size == call.width:
        layout, size = StateLayout.of(call), (call.steps, call.batch, call.row)
        return View(states, size, (call.batch * call.row, call.row, 1), layout.offset(layout.first_output))
    rows = call.steps * call.batch * call.directions
    outputs = memory.allocate(call.steps, call.batch, call.directions * call.size)
    source = Matrix(StateLayout.of(call).outputs(states), rows, call.width, call.width)
    copies.copy(Matrix(At(outputs), rows, call.size, call.size), source)
    return View(outputs)


def _tighten_end(call: Call, end: int, copies: Copies, memory: Allocations) -> int:
    """Remove the padding of a last state, and convert it to the type of the first."""
    if call.size == call.width and not call.float_weights:
        return end
    tight = memory.allocate(call.batch, call.size, float32=call.float_weights)
    copies.copy(
        Matrix(At(tight), call.batch, call.size, call.size),
        Matrix(At(end), call.batch, call.width, call.width),
        conversion=call.convert_weights(back=True),
    )
    return tight
