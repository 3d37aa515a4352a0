"""One layer of a persistent recurrence: the arguments of its launches, and the gradients of its weights."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from throughtime.kernels.elements import round_up_units
from throughtime.recurrence.batched_copies import Moves
from throughtime.recurrence.persistent_plan import Form

OWN = ("weight_ih", "weight_hh", "bias", "bias_hn", "h", "c")
"""The inputs of a layer: weights, and the state before the first step. Only a GRU with reset after has
bias_hn, only an LSTM has c; without h and c the state is zero."""


class LayerTensors(NamedTuple):
    """The tensors of a layer, all rows wide; its launch fills the last three."""

    into_gates: Tensor  # [gates * width, inputs]
    recurrent: Tensor  # [gates * width, width]
    shift: Tensor
    shift_n: Tensor | None
    states: Tensor  # [T + 1, B, width], the first before all steps
    memories: Tensor | None  # the same of an LSTM's memory; the first alone where no gradient is wanted
    extra: Tensor | None  # [T, B, width] that only GRUs have


class SavedLayer(NamedTuple):
    """What the backward pass of a layer needs."""

    into_gates: Tensor
    recurrent: Tensor
    gates: Tensor  # [T * B, gates * width]
    states: Tensor
    memories: Tensor | None
    extra: Tensor | None


class Sums(NamedTuple):
    """What the launch of a backward pass reads and writes."""

    gradients: Tensor  # of all sums [T * B, slots * width]
    initial: Tensor  # of the state before the first step [1 or 2, B, width]
    transposed: Tensor  # the recurrent weights transposed, in the order of the slots
    ends: Sequence[Tensor | None]  # gradients of the last state that come in
    parts: Tensor | None  # of sums [2, B, split, width], where blocks share their units


def allocate_layer(
    moves: Moves, form: Form, size: int, own: Sequence[Tensor | None], x: Tensor, inputs: int, keeps: bool
) -> LayerTensors:
    """Allocate a layer for the steps of x [T, B, ...]; the next launch of `moves` makes its tensors wide."""
    weight_ih, weight_hh, bias, bias_hn, h, c = own
    assert weight_ih is not None
    assert weight_hh is not None
    assert bias is not None
    (steps, batch, _), width = x.shape, round_up_units(size)
    one = batch * width * moves.element  # bytes of one state
    states = _write_first_state(moves, h, size, x.new_empty(steps + 1, batch, width))
    moves.mark_unwritten(states.data_ptr() + one, steps * one)
    memories = extra = None
    if form is Form.LSTM:
        memories = _write_first_state(moves, c, size, x.new_empty(steps + 1 if keeps else 1, batch, width))
    elif form is Form.GRU_BEFORE or (form is Form.GRU_AFTER and keeps):
        extra = x.new_empty(steps, batch, width)
        if form is Form.GRU_BEFORE:  # it is exchanged
            moves.mark_unwritten(extra.data_ptr(), steps * one)
    return LayerTensors(
        moves.widen_gates(weight_ih, size, width, inputs),
        moves.widen_gates(weight_hh, size, width, width),
        moves.widen(bias, size, width),
        None if bias_hn is None else moves.widen(bias_hn, size, width),
        states,
        memories,
        extra,
    )


def _write_first_state(moves: Moves, first: Tensor | None, size: int, into: Tensor) -> Tensor:
    """Fill in the first of these states, as given or with zeros."""
    _, batch, width = into.shape
    if first is None:
        moves.zero(into, batch, width)
        return into
    return moves.widen(first, size, width, into)


_Numbers = tuple[int, ...]
_FORWARD, _BACKWARD = ctypes.c_longlong * 15, ctypes.c_longlong * 19


def forward_arguments(
    numbers: _Numbers,
    form: Form,
    layer: LayerTensors,
    gates: Tensor,
    ends: Sequence[Tensor],
    lengths: Tensor | None,
) -> ctypes.Array[ctypes.c_longlong]:
    """Return the arguments in the order of `Forward` in forward.cu."""
    recurrent, states, memories = layer.recurrent, layer.states, layer.memories
    return _FORWARD.from_buffer(
        array(
            "q",
            (
                *numbers,
                gates.data_ptr(),
                recurrent.data_ptr(),
                _find_candidate_weights(form, recurrent),
                _get_address(layer.shift_n),
                states.data_ptr(),
                _get_address(memories),
                _find_second_state(memories),
                _get_address(layer.extra),
                ends[0].data_ptr(),
                _get_address(ends[1] if memories is not None else None),
                _get_address(lengths),
            ),
        )
    )


def prepare_backward(
    moves: Moves, form: Form, layer: SavedLayer, ends: Sequence[Tensor | None], split: int
) -> Sums:
    """Allocate the gradients of the sums; the next launch of `moves` transposes the recurrent weights."""
    states, recurrent = layer.states, layer.recurrent
    after, batch, width = states.shape
    gradients = states.new_empty((after - 1) * batch, form.slots * width)
    moves.mark_unwritten(gradients.data_ptr(), gradients.numel() * moves.element)
    rows, before_n = len(recurrent), 2 * width
    weight = recurrent.new_empty(rows * width)
    at = weight.data_ptr()
    if form is Form.GRU_AFTER:  # from r, z, n to q, r, z
        moves.transpose(at, recurrent, before_n, rows, rows)
        moves.transpose(at + width * moves.element, recurrent, 0, before_n, rows)
    elif form is Form.GRU_BEFORE:  # r and z, and n for itself
        moves.transpose(at, recurrent, 0, before_n, before_n)
        moves.transpose(at + before_n * width * moves.element, recurrent, before_n, rows, width)
    else:
        moves.transpose(at, recurrent, 0, rows, rows)
    parts = None
    if split > 1:
        parts = states.new_empty(2, batch, split, width, dtype=torch.float32)
        moves.mark_unwritten(parts.data_ptr(), parts.numel() * parts.element_size())
    return Sums(gradients, states.new_empty(len(ends), batch, width), weight, ends, parts)


def backward_arguments(
    numbers: _Numbers,
    form: Form,
    layer: SavedLayer,
    sums: Sums,
    outputs: Tensor,
    lengths: Tensor | None,
    carry: Tensor | None,
) -> ctypes.Array[ctypes.c_longlong]:
    """Return the arguments in the order of `Backward` in backward.cu."""
    memories, initial, has_memory = layer.memories, sums.initial, layer.memories is not None
    return _BACKWARD.from_buffer(
        array(
            "q",
            (
                *numbers,
                layer.gates.data_ptr(),
                layer.states.data_ptr(),
                _get_address(memories),
                _find_second_state(memories),
                _get_address(layer.extra),
                sums.transposed.data_ptr(),
                _find_candidate_weights(form, sums.transposed.view(-1, layer.states.shape[2])),
                outputs.data_ptr(),
                _get_address(sums.ends[0]),
                _get_address(sums.ends[1] if has_memory else None),
                sums.gradients.data_ptr(),
                initial.data_ptr(),
                _find_second_state(initial) if has_memory else 0,
                _get_address(lengths),
                _get_address(carry),
                _get_address(sums.parts),
            ),
        )
    )


def compute_weight_gradients(form: Form, layer: SavedLayer, sums: Sums, rows: Tensor) -> list[Tensor | None]:
    """Return the gradients of the weights, wide, from those of all sums and the inputs of the layer."""
    states, gradients = layer.states, sums.gradients
    width, after = states.shape[2], form is Form.GRU_AFTER
    before, fed = states[:-1].view(-1, width), select_input_gradients(form, gradients).t()
    into_ih = fed.mm(rows)
    if form is Form.GRU_BEFORE:
        assert layer.extra is not None
        into_hh = gradients.new_empty(3 * width, width)
        torch.mm(fed[: 2 * width], before, out=into_hh[: 2 * width])
        torch.mm(fed[2 * width :], layer.extra.view(-1, width), out=into_hh[2 * width :])
    else:
        into_hh = (gradients.narrow(1, 0, 3 * width).t() if after else fed).mm(before)
    into_bias = gradients.sum(0)
    return (
        [into_ih, into_hh, into_bias[width:], into_bias[:width]]
        if after
        else [into_ih, into_hh, into_bias, None]
    )


def select_input_gradients(form: Form, gradients: Tensor) -> Tensor:
    """Return the gradients of the sums that the input enters: all but q of a GRU with reset after."""
    if form is not Form.GRU_AFTER:
        return gradients
    width = gradients.shape[1] // 4
    return gradients.narrow(1, width, 3 * width)


def tighten_gradients(
    moves: Moves, form: Form, size: int, input_size: int, weights: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Make the gradients of weights tight at the next launch: `size` units and `input_size` inputs."""
    into_ih, into_hh, into_bias, into_bias_hn = weights
    assert into_ih is not None
    assert into_hh is not None
    assert into_bias is not None
    width, after = into_hh.shape[1], form is Form.GRU_AFTER
    if size < width or input_size < into_ih.shape[1]:
        into_ih = moves.tighten_gates(into_ih, size, width, input_size)
    if size < width or after:
        into_hh = moves.tighten_gates(into_hh, size, width, size, first=int(after))  # from q, r, z to r, z, n
    if size < width:
        into_bias = moves.tighten(into_bias, size, width)
        into_bias_hn = None if into_bias_hn is None else moves.tighten(into_bias_hn, size, width)
    return [into_ih, into_hh, into_bias, into_bias_hn]


def _find_candidate_weights(form: Form, weight: Tensor) -> int:
    """Return the address of the weights of n, which only a GRU with reset before has separately; else 0."""
    return weight[2 * weight.shape[1] :].data_ptr() if form is Form.GRU_BEFORE else 0


def _find_second_state(states: Tensor | None) -> int:
    """Return the address of the second of several states; 0 without states."""
    return 0 if states is None else states.data_ptr() + states.stride(0) * states.element_size()


def _get_address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
