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
from throughtime.layers.attention import Additive, Attention, Dot, General
from throughtime.layers.layer import Layer
from throughtime.layers.stack import Stack
from throughtime.models.input_feeding_steps import (
    AdditiveGradients,
    Gates,
    ProductGradients,
    additive_scores,
    find_gates,
    product_scores,
)
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

    >>> from throughtime.models.input_feeding_steps import GRUGates
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
        states = [_allocate(first, steps) for first in (h, c) if first is not None]
        outputs = _allocate(fed, steps)
        kept = 0 if w.energy is None else steps if differentiable else 1
        seen = scratch((kept, *keys.shape), like=keys)
        weights, real = scratch((steps, *keys.shape[:2]), like=keys), hidden == 0
        sums[0, :, columns.from_state].addmm_(h, from_state[:, columns.from_state])
        for t in range(steps):
            own, following = sums[t], sums[t + 1]
            own[:, columns.from_input].addmm_(outputs[t], from_fed)
            reached = tuple(part[t + 1] for part in states)
            gates.advance(own[:, columns.gates], tuple(part[t] for part in states), reached)
            read = columns.all_from_state if t + 1 < steps else columns.shown
            following[:, read].addmm_(reached[0], from_state[:, read])
            if w.energy is None:
                scores = product_scores(reached[0], keys)
            else:
                scores = additive_scores(following[:, columns.query], keys, w.energy, seen[min(t, kept - 1)])
            torch.mul(torch.softmax(scores + hidden, dim=-1), real, out=weights[t])
            output = following[:, columns.output]
            output += torch.bmm(weights[t, :, None], values)[:, 0]
            torch.tanh(output, out=outputs[t + 1])
        ctx.gates, ctx.columns, ctx.device = gates, columns, x.device.type
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(
            x, sums, outputs, weights, seen, from_state, keys, values, *flat_weights, *states
        )
        last = [part[-1].clone() for part in states]
        return outputs[1:], weights, last[0], last[1] if len(last) > 1 else None

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
        from_outputs, from_weights, *from_last = gradients
        gates: Gates = ctx.gates
        columns: Columns = ctx.columns
        x, sums, outputs, weights, seen, from_state, keys, values, *others = ctx.saved_tensors
        w, states = LoopWeights(*others[:8]), others[8:]
        steps, embedded = len(x), x.shape[2]
        slopes, rest = _slopes(gates, columns, sums, outputs, states)
        score_gradients: AdditiveGradients | ProductGradients = (
            ProductGradients(keys, states[0][1:])
            if w.energy is None
            else AdditiveGradients(keys, w.energy, seen)
        )
        flowing = tuple(
            torch.zeros_like(part[0]) if given is None else given.clone()
            for part, given in zip(states, from_last, strict=False)
        )
        into_fed = torch.zeros_like(outputs[0])
        to_fed, to_state = w.weight_ih[:, embedded:], from_state.t()
        for t in reversed(range(steps)):
            own, following = slopes[t], slopes[t + 1]
            if from_outputs is not None:
                into_fed += from_outputs[t]
            output = following[:, columns.output].mul_(into_fed)
            into_weights = product_scores(output, values)
            if from_weights is not None:
                into_weights += from_weights[t]
            into_scores = _softmax_gradient(weights[t], into_weights)
            score_gradients.step(t, into_scores, following[:, columns.query], flowing[0])
            read = columns.all_from_state if t + 1 < steps else columns.shown
            flowing[0].addmm_(following[:, read], to_state[read])
            gates.retreat(own[:, columns.gates], tuple(part[t] for part in rest), flowing)
            torch.mm(own[:, columns.from_input], to_fed, out=into_fed)
        flowing[0].addmm_(slopes[0, :, columns.from_state], to_state[columns.from_state])
        into_keys, into_energy = score_gradients.result()
        into_values = torch.bmm(
            weights.permute(1, 2, 0), slopes[1:, :, columns.output].transpose(0, 1).to(values.dtype)
        )
        into_x = (slopes[:-1, :, columns.from_input].flatten(0, 1) @ w.weight_ih[:, :embedded]).view_as(x)
        into_state = (flowing[0], flowing[1] if gates.states == 2 else None)
        of_weights = _weight_gradients(gates, columns, slopes, x, outputs, states[0], w, into_energy)
        return None, None, None, into_x, into_fed, *into_state, into_keys, into_values, *of_weights


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


def _allocate(first: Tensor, steps: int) -> Tensor:
    """Allocate values before and after all steps, and set the first one."""
    room = scratch((steps + 1, *first.shape), like=first)
    room[0] = first
    return room


def _softmax_gradient(weights: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of scores from that of their softmax."""
    product = weights * gradient
    return product.addcmul_(weights, product.sum(1, keepdim=True), value=-1)


def refuses(stack: Stack, attention: Attention, norm: nn.Module | None) -> str | None:
    """The reason why the fused loop does not support these parts; None if it does."""
    if stack.num_layers > 1 or stack.norms or stack.residual or norm is not None:
        return "it supports one layer, without normalisation or a residual sum"
    layer = cast(Layer, stack.layers[0])
    if find_gates(layer.from_left) is None:
        return "it supports only GRU (reset after) and LSTM"
    if type(attention) not in (Additive, Dot, General):
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
    gates = find_gates(cell)
    if gates is None:
        raise InputError("fused", f"does not support {type(cell).__name__}")
    keys, values, padding = kept
    *first, fed = state
    own, device = next(cell.parameters()).dtype, x.device.type
    narrow = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else own
    wide = torch.promote_types(narrow, torch.float32)
    with torch.autocast(device, enabled=False):
        query = energy = None
        if isinstance(attention, Additive):
            # The keys are doubled already; adding a number to all scores does not change their softmax.
            query, energy = 2 * attention.query.weight, 2 * attention.scale * attention.energy.to(wide)
        elif attention.scaled:
            keys = keys * attention.scale
        w = cell.weights()
        inputs = (x, fed, first[0], first[1] if len(first) > 1 else None)
        weights = LoopWeights(
            *(w["weight_ih"], w["weight_hh"], w["bias"], w.get("bias_hn")),
            *(query, energy, output.weight, output.bias),
        )
        outputs, looks, *last = InputFeedingLoop.apply(  # type: ignore[no-untyped-call]
            gates,
            torch.is_grad_enabled(),
            padding.to(wide) * torch.finfo(wide).min,
            *(None if part is None else part.to(narrow) for part in inputs),
            *(keys.to(wide), values.to(wide)),
            *(part if part is None or part is energy else part.to(narrow) for part in weights),
        )
    return outputs, looks, (*(part.to(own) for part in last if part is not None), outputs[-1])
