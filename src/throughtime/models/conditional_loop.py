"""The conditional decoder as one differentiable function: few launches per step, one product per weight.

As in `input_feeding`, the state is multiplied once by all weights that read it: those of the query and of the
second cell together. The context is never formed inside the loop. The second cell reads W c_t, which is the
weighted sum of W h_j, computed once per sentence; the contexts that the output needs follow from the weights
of all steps afterwards.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from throughtime.cells.base import Cell, State
from throughtime.errors import InputError, ThroughtimeError
from throughtime.layers.attention import Attention
from throughtime.models.attention_steps import (
    SavedAttention,
    TorchAttention,
    find_attention,
    is_supported,
    prepare_scores,
)
from throughtime.models.gate_steps import Gates, find_gates
from throughtime.models.input_feeding import Columns, allocate_states
from throughtime.recurrence.layout import scratch


class ConditionalWeights(NamedTuple):
    """The weights of the loop: of the first cell, of the attention's query and energy, of the second cell."""

    first_hh: Tensor
    first_hn: Tensor | None
    query: Tensor | None
    energy: Tensor | None
    second_hh: Tensor
    second_bias: Tensor
    second_hn: Tensor | None


class ConditionalLoop(torch.autograd.Function):
    """Both cells and the attention between them, through all steps.

    `projected` [L, B, P] is what the first cell reads, W y + b; `values` [B, T, P] are what the second cell
    reads of each position, without its bias. See `InputFeedingLoop` for the other arguments.
    """

    @staticmethod
    def forward(
        ctx: Any,
        gates: Gates,
        attention_type: type[TorchAttention],
        differentiable: bool,
        hidden: Tensor,
        projected: Tensor,
        h: Tensor,
        c: Tensor | None,
        keys: Tensor,
        values: Tensor,
        *flat_weights: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The states h [L, B, H] after all steps, the weights [L, B, T] and the last state, each [B, H]."""
        w, steps, size = ConditionalWeights(*flat_weights), len(projected), h.shape[1]  # type: ignore[arg-type]
        first = Columns(gates, 0, 0, size)
        second = Columns(gates, 0 if w.query is None else len(w.query), 0, size)
        sums = _first_sums(first, second, projected, w)
        into_first, into_second = _recurrent_weights(gates, w, size)
        states = [allocate_states(part, steps) for part in (h, c) if part is not None]
        between = [scratch((steps, *part.shape[1:]), like=part) for part in states]
        attention = attention_type(keys, values, w.energy, hidden, steps, differentiable)
        for t in range(steps):
            own, other = sums[0][t], sums[1][t]
            entering, asking = (tuple(part[t] for part in parts) for parts in (states, between))
            own[:, first.from_state].addmm_(entering[0], into_first.t())
            gates.advance(own, entering, asking)
            other[:, second.all_from_state].addmm_(asking[0], into_second.t())
            query = asking[0] if w.query is None else other[:, second.query]
            attention.advance(t, query, other[:, second.from_input], None)
            gates.advance(other[:, second.gates], asking, tuple(part[t + 1] for part in states))
        ctx.gates, ctx.attention_type = gates, attention_type
        ctx.columns, ctx.device = (first, second), h.device.type
        ctx.set_materialize_grads(False)
        kept = (*sums, into_first, into_second, *attention.saved, *flat_weights, *states, *between)
        ctx.save_for_backward(*kept)
        last = [part[-1].clone() for part in states]
        return states[0][1:], attention.saved.weights, last[0], last[1] if len(last) > 1 else None

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """First derivatives only."""
        if torch.is_grad_enabled():
            raise ThroughtimeError(
                "the fused loop of the conditional decoder has first derivatives only; for create_graph=True "
                "set the decoder's `fused` to False"
            )
        with torch.autocast(ctx.device, enabled=False):  # backward may be called inside one
            return ConditionalLoop._backward(ctx, *gradients)

    @staticmethod
    def _backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """From the last step to the first; the gradients of all sums are kept."""
        gates: Gates = ctx.gates
        first, second = ctx.columns
        # Kernels read whole rows.
        from_states, from_weights, *from_last = (
            one if one is None else one.contiguous() for one in gradients
        )
        first_sums, second_sums, into_first, into_second, *others = ctx.saved_tensors
        saved, w, states = SavedAttention(*others[:5]), ConditionalWeights(*others[5:12]), others[12:]
        sums, states, between = (first_sums, second_sums), states[: gates.states], states[gates.states :]
        slopes = [scratch(tuple(part.shape), like=part) for part in sums]
        before, after = (tuple(part[:-1] for part in states), tuple(part[1:] for part in states))
        rests = (
            gates.slopes(sums[0], before, tuple(between), slopes[0]),
            gates.slopes(sums[1][..., second.gates], tuple(between), after, slopes[1][..., second.gates]),
        )
        queries = between[0] if w.query is None else sums[1][..., second.query]
        attention = ctx.attention_type.gradients(saved, queries)
        flowing = tuple(
            torch.zeros_like(part[0]) if given is None else given.clone()
            for part, given in zip(states, from_last, strict=False)
        )
        for t in reversed(range(len(between[0]))):
            own, other = slopes[0][t], slopes[1][t]
            more = None if from_states is None else from_states[t]
            gates.retreat(other[:, second.gates], tuple(part[t] for part in rests[1]), flowing, more)
            attention.retreat(
                *(t, other[:, second.from_input], None),
                None if from_weights is None else from_weights[t],
                *(other[:, second.query], flowing[0]),
            )
            flowing[0].addmm_(other[:, second.all_from_state], into_second)
            gates.retreat(own, tuple(part[t] for part in rests[0]), flowing)
            flowing[0].addmm_(own[:, first.from_state], into_first)
        into_keys, into_values, into_energy = attention.result(slopes[1][..., second.from_input])
        of_weights = _weight_gradients(gates, (first, second), slopes, states[0], between[0], w, into_energy)
        into_state = (flowing[0], flowing[1] if gates.states == 2 else None)
        into_projected = slopes[0][..., first.from_input]
        return None, None, None, None, into_projected, *into_state, into_keys, into_values, *of_weights


def _first_sums(
    first: Columns, second: Columns, projected: Tensor, w: ConditionalWeights
) -> tuple[Tensor, Tensor]:
    """The sums of all steps of both cells, with the parts that need no state."""
    (steps, batch, _), size = projected.shape, w.first_hh.shape[1]
    sums = tuple(scratch((steps, batch, one.width), like=projected) for one in (first, second))
    for part, columns, bias_hn in zip(sums, (first, second), (w.first_hn, w.second_hn), strict=True):
        if bias_hn is not None:
            part[..., columns.from_state][..., :size] = bias_hn
    sums[0][..., first.from_input] = projected
    sums[1][..., second.query] = 0
    sums[1][..., second.from_input] = w.second_bias
    return sums[0], sums[1]


def _recurrent_weights(gates: Gates, w: ConditionalWeights, size: int) -> tuple[Tensor, Tensor]:
    """What multiplies the state before each cell, in the order of its columns."""
    first, second = (weight.roll(gates.rolled * size, 0) for weight in (w.first_hh, w.second_hh))
    return first, second if w.query is None else torch.cat([w.query, second])


def _weight_gradients(
    gates: Gates,
    columns: tuple[Columns, Columns],
    gradients: list[Tensor],
    h: Tensor,
    between: Tensor,
    w: ConditionalWeights,
    into_energy: Tensor | None,
) -> ConditionalWeights:
    """One product for each weight, from the gradients of all sums."""
    first, second = columns
    size = h.shape[2]
    into_first = gradients[0][..., first.from_state].flatten(0, 1)
    into_second = gradients[1][..., second.all_from_state].flatten(0, 1)
    shown = into_second.t() @ between.flatten(0, 1)
    into_gates = into_second[:, second.from_state]
    return ConditionalWeights(
        first_hh=(into_first.t() @ h[:-1].flatten(0, 1)).roll(-gates.rolled * size, 0),
        first_hn=None if w.first_hn is None else into_first[:, :size].sum(0),
        query=None if w.query is None else shown[second.query],
        energy=into_energy,
        second_hh=shown[second.from_state].roll(-gates.rolled * size, 0),
        second_bias=gradients[1][..., second.from_input].flatten(0, 1).sum(0),
        second_hn=None if w.second_hn is None else into_gates[:, :size].sum(0),
    )


def refuses(first: Cell, second: Cell, attention: Attention) -> str | None:
    """The reason why the fused loop does not support these parts; None if it does."""
    weight = next(first.parameters())
    found = {find_gates(cell, weight.device, weight.dtype) for cell in (first, second)}
    if len(found) > 1 or None in found:
        return "it supports only two GRUs (reset after) or two LSTMs"
    if not is_supported(attention):
        return "it supports only additive attention and products"
    return None


def run_conditional(
    projected: Tensor, state: State, first: Cell, second: Cell, attention: Attention, kept: State
) -> tuple[Tensor, Tensor, State]:
    """States [L, B, H], weights [L, B, T] and the last state, for projected inputs [L, B, P].

    `kept` are keys, values and padding. Under autocast, products are in its precision, the comparison with
    the keys and the softmax in float32.
    """
    keys, outputs, padding = kept
    own, device = next(first.parameters()).dtype, projected.device.type
    narrow = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else own
    wide = torch.promote_types(narrow, torch.float32)
    gates = find_gates(first, projected.device, narrow)
    if gates is None:
        raise InputError("fused", f"does not support {type(first).__name__}")
    w, other = first.weights(), second.weights()
    values = linear(outputs, other["weight_ih"])
    with torch.autocast(device, enabled=False):
        keys, query, energy = prepare_scores(attention, keys, wide)
        attention_type = find_attention(narrow, keys, values.shape[2])
        weights = ConditionalWeights(
            *(w["weight_hh"], w.get("bias_hn"), query, energy),
            *(other["weight_hh"], other["bias"], other.get("bias_hn")),
        )
        states, looks, *last = ConditionalLoop.apply(  # type: ignore[no-untyped-call]
            gates,
            attention_type,
            torch.is_grad_enabled(),
            padding.to(wide) * torch.finfo(wide).min,
            *(None if part is None else part.to(narrow) for part in (projected, *state, None)[:3]),
            *(keys.to(wide), values.to(narrow if attention_type.narrow_values else wide)),
            *(part if part is None or part is energy else part.to(narrow) for part in weights),
        )
    return states, looks, tuple(part.to(own) for part in last if part is not None)
