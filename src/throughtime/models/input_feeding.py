"""Attention with input feeding as one differentiable function: few calls per step, one product per weight.

All sums of a step are in one block of columns: the projected query and the output of the step before, then
the gates of the step itself. So the state is multiplied only once per step, forward and backward, and the
gradients of all sums remain for one product per weight at the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from throughtime.cells.base import State
from throughtime.errors import InputError, ThroughtimeError
from throughtime.layers.attention import Attention
from throughtime.layers.layer import Layer
from throughtime.layers.stack import Stack
from throughtime.models.attention_steps import (
    SavedAttention,
    TorchAttention,
    find_attention,
    is_supported,
    prepare_scores,
)
from throughtime.models.gate_steps import Gates, find_gates
from throughtime.recurrence.layout import scratch


class LoopWeights(NamedTuple):
    """The weights of the loop; those of the cell have the cell's names.

    Additive attention is e' sigmoid(W q + k); without `query` and `energy` the scores are products q' k.
    """

    weight_ih: Tensor
    weight_hh: Tensor
    bias: Tensor
    bias_hn: Tensor | None
    query: Tensor | None
    energy: Tensor | None
    output: Tensor
    output_bias: Tensor


class Columns:
    """The columns of the query, the output and the gates in a block of sums.

    >>> from throughtime.models.gate_steps import GRUGates
    >>> columns = Columns(GRUGates, query=5, output=3, hidden=10)
    >>> columns.output, columns.from_state, columns.from_input, columns.width
    (slice(5, 8, None), slice(8, 38, None), slice(18, 48, None), 48)
    """

    def __init__(self, gates: Gates, query: int, output: int, hidden: int) -> None:
        shown = query + output
        self.query, self.output, self.shown = slice(0, query), slice(query, shown), slice(0, shown)
        self.from_state, self.from_input = (
            slice(shown + blocks.start * hidden, shown + blocks.stop * hidden)
            for blocks in (gates.from_state, gates.from_input)
        )
        self.all_from_state = slice(0, self.from_state.stop)
        self.gates, self.width = slice(shown, shown + 4 * hidden), shown + 4 * hidden


class InputFeedingLoop(torch.autograd.Function):
    """The whole loop: o = tanh(W s + sum_j a_j v_j + b), where the v are `values` times the output's weights.

    `hidden` [B, T] is added to the scores: 0, or the lowest number for padding. Energy, keys, values and
    hidden may be more precise than the rest; the comparison of queries with keys then is, too. What only
    backward needs is kept if `differentiable`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        gates: Gates,
        attention_type: type[TorchAttention],
        differentiable: bool,
        hidden: Tensor,
        x: Tensor,
        fed: Tensor,
        h: Tensor,
        c: Tensor | None,
        keys: Tensor,
        values: Tensor,
        *flat_weights: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The outputs [L, B, O], the weights [L, B, T] and the last state, each [B, H]."""
        w, steps, embedded = LoopWeights(*flat_weights), len(x), x.shape[2]  # type: ignore[arg-type]
        columns = Columns(gates, 0 if w.query is None else len(w.query), len(w.output), h.shape[1])
        sums = _first_sums(columns, x, w)
        parts = [w.output, w.weight_hh.roll(gates.rolled * h.shape[1], 0)]
        from_state = torch.cat(parts if w.query is None else [w.query, *parts]).t()
        from_fed = w.weight_ih[:, embedded:].t()
        states = [allocate_states(first, steps) for first in (h, c) if first is not None]
        outputs = allocate_states(fed, steps)
        attention = attention_type(keys, values, w.energy, hidden, steps, differentiable)
        sums[0, :, columns.from_state].addmm_(h, from_state[:, columns.from_state])
        for t in range(steps):
            own, following = sums[t], sums[t + 1]
            own[:, columns.from_input].addmm_(outputs[t], from_fed)
            reached = tuple(part[t + 1] for part in states)
            gates.advance(own[:, columns.gates], tuple(part[t] for part in states), reached)
            read = columns.all_from_state if t + 1 < steps else columns.shown
            following[:, read].addmm_(reached[0], from_state[:, read])
            query = reached[0] if w.query is None else following[:, columns.query]
            attention.advance(t, query, following[:, columns.output], outputs[t + 1])
        ctx.gates, ctx.attention_type, ctx.columns, ctx.device = gates, attention_type, columns, x.device.type
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, sums, outputs, from_state, *attention.saved, *flat_weights, *states)
        last = [part[-1].clone() for part in states]
        return outputs[1:], attention.saved.weights, last[0], last[1] if len(last) > 1 else None

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """First derivatives only."""
        if torch.is_grad_enabled():
            raise ThroughtimeError(
                "the fused loop of attention has first derivatives only; for create_graph=True set the "
                "decoder's `fused` to False"
            )
        with torch.autocast(ctx.device, enabled=False):  # backward may be called inside one
            return InputFeedingLoop._backward(ctx, *gradients)

    @staticmethod
    def _backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """From the last step to the first; the gradients of all sums are kept."""
        # Kernels read whole rows.
        from_outputs, from_weights, *from_last = (
            one if one is None else one.contiguous() for one in gradients
        )
        gates: Gates = ctx.gates
        columns: Columns = ctx.columns
        x, sums, outputs, from_state, *others = ctx.saved_tensors
        saved, w, states = SavedAttention(*others[:5]), LoopWeights(*others[5:13]), others[13:]
        steps, embedded = len(x), x.shape[2]
        slopes, rest = _slopes(gates, columns, sums, outputs, states)
        queries = states[0][1:] if w.query is None else sums[1:, :, columns.query]
        attention = ctx.attention_type.gradients(saved, queries)
        flowing = tuple(
            torch.zeros_like(part[0]) if given is None else given.clone()
            for part, given in zip(states, from_last, strict=False)
        )
        into_fed = torch.zeros_like(outputs[0])
        to_fed, to_state = w.weight_ih[:, embedded:], from_state.t()
        for t in reversed(range(steps)):
            own, following = slopes[t], slopes[t + 1]
            attention.retreat(
                *(t, following[:, columns.output]),
                (into_fed, None if from_outputs is None else from_outputs[t]),
                None if from_weights is None else from_weights[t],
                *(following[:, columns.query], flowing[0]),
            )
            read = columns.all_from_state if t + 1 < steps else columns.shown
            flowing[0].addmm_(following[:, read], to_state[read])
            gates.retreat(own[:, columns.gates], tuple(part[t] for part in rest), flowing)
            torch.mm(own[:, columns.from_input], to_fed, out=into_fed)
        flowing[0].addmm_(slopes[0, :, columns.from_state], to_state[columns.from_state])
        into_keys, into_values, into_energy = attention.result(slopes[1:, :, columns.output])
        into_x = (slopes[:-1, :, columns.from_input].flatten(0, 1) @ w.weight_ih[:, :embedded]).view_as(x)
        into_state = (flowing[0], flowing[1] if gates.states == 2 else None)
        of_weights = _weight_gradients(gates, columns, slopes, x, outputs, states[0], w, into_energy)
        return None, None, None, None, into_x, into_fed, *into_state, into_keys, into_values, *of_weights


def _first_sums(columns: Columns, x: Tensor, w: LoopWeights) -> Tensor:
    """The sums of all steps, [L + 1, B, columns], with the parts that need no state."""
    (steps, batch, embedded), size = x.shape, w.weight_hh.shape[1]
    sums = scratch((steps + 1, batch, columns.width), like=x)
    if w.bias_hn is not None:
        sums[:-1, :, columns.from_state][..., :size] = w.bias_hn
    inputs = sums[:-1].flatten(0, 1)[:, columns.from_input]
    torch.addmm(w.bias, x.flatten(0, 1), w.weight_ih[:, :embedded].t(), out=inputs)
    sums[1:, :, columns.query].zero_()
    sums[1:, :, columns.output] = w.output_bias
    return sums


def _slopes(
    gates: Gates, columns: Columns, sums: Tensor, outputs: Tensor, states: list[Tensor]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The slopes of gates and outputs, in the columns of the sums, and the other factors of the gates."""
    slopes = scratch(tuple(sums.shape), like=sums)
    before, after = tuple(part[:-1] for part in states), tuple(part[1:] for part in states)
    rest = gates.slopes(sums[:-1, :, columns.gates], before, after, slopes[:-1, :, columns.gates])
    one = outputs.new_ones(())
    torch.addcmul(one, outputs[1:], outputs[1:], value=-1, out=slopes[1:, :, columns.output])
    return slopes, rest


def _weight_gradients(
    gates: Gates,
    columns: Columns,
    gradients: Tensor,
    x: Tensor,
    outputs: Tensor,
    h: Tensor,
    w: LoopWeights,
    into_energy: Tensor | None,
) -> LoopWeights:
    """One product for each weight, from the gradients of all sums."""
    size, embedded = h.shape[2], x.shape[2]
    into_inputs = gradients[:-1, :, columns.from_input].flatten(0, 1)
    into_gates = gradients[:-1, :, columns.from_state].flatten(0, 1)
    into_shown = gradients[1:, :, columns.shown].flatten(0, 1)
    weight_ih = torch.empty_like(w.weight_ih)
    torch.mm(into_inputs.t(), x.flatten(0, 1), out=weight_ih[:, :embedded])
    torch.mm(into_inputs.t(), outputs[:-1].flatten(0, 1), out=weight_ih[:, embedded:])
    shown = into_shown.t() @ h[1:].flatten(0, 1)
    return LoopWeights(
        weight_ih=weight_ih,
        weight_hh=(into_gates.t() @ h[:-1].flatten(0, 1)).roll(-gates.rolled * size, 0),
        bias=into_inputs.sum(0),
        bias_hn=None if w.bias_hn is None else into_gates[:, :size].sum(0),
        query=None if w.query is None else shown[columns.query],
        energy=into_energy,
        output=shown[columns.output],
        output_bias=into_shown[:, columns.output].sum(0),
    )


def allocate_states(first: Tensor, steps: int) -> Tensor:
    """Allocate values before and after all steps, and set the first one."""
    room = scratch((steps + 1, *first.shape), like=first)
    room[0] = first
    return room


def refuses(stack: Stack, attention: Attention, norm: nn.Module | None) -> str | None:
    """The reason why the fused loop does not support these parts; None if it does."""
    if stack.num_layers > 1 or stack.norms or stack.residual or norm is not None:
        return "it supports one layer, without normalisation or a residual sum"
    layer = cast(Layer, stack.layers[0])
    weight = next(layer.from_left.parameters())
    if find_gates(layer.from_left, weight.device, weight.dtype) is None:
        return "it supports only GRU (reset after) and LSTM"
    if not is_supported(attention):
        return "it supports only additive attention and products"
    return "recurrent weights are dropped" if layer.weight_drop and layer.training else None


def run_input_feeding(
    x: Tensor, state: State, stack: Stack, attention: Attention, output: nn.Linear, kept: State
) -> tuple[Tensor, Tensor, State]:
    """Outputs [L, B, O], weights [L, B, T] and the last state with o_L, for embedded inputs [L, B, E].

    `state` ends with o_0; `kept` are keys, values times the output's weights, and padding. Under autocast,
    products are in its precision, the comparison with the keys and the softmax in float32.
    """
    cell = cast(Layer, stack.layers[0]).from_left
    keys, values, padding = kept
    *first, fed = state
    own, device = next(cell.parameters()).dtype, x.device.type
    narrow = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else own
    wide = torch.promote_types(narrow, torch.float32)
    gates = find_gates(cell, x.device, narrow)
    if gates is None:
        raise InputError("fused", f"does not support {type(cell).__name__}")
    with torch.autocast(device, enabled=False):
        keys, query, energy = prepare_scores(attention, keys, wide)
        attention_type = find_attention(narrow, keys, values.shape[2])
        w = cell.weights()
        inputs = (x, fed, first[0], first[1] if len(first) > 1 else None)
        weights = LoopWeights(
            *(w["weight_ih"], w["weight_hh"], w["bias"], w.get("bias_hn")),
            *(query, energy, output.weight, output.bias),
        )
        outputs, looks, *last = InputFeedingLoop.apply(  # type: ignore[no-untyped-call]
            gates,
            attention_type,
            torch.is_grad_enabled(),
            padding.to(wide) * torch.finfo(wide).min,
            *(None if part is None else part.to(narrow) for part in inputs),
            *(keys.to(wide), values.to(narrow if attention_type.narrow_values else wide)),
            *(part if part is None or part is energy else part.to(narrow) for part in weights),
        )
    return outputs, looks, (*(part.to(own) for part in last if part is not None), outputs[-1])
