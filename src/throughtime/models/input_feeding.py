"""Attention with input feeding as one differentiable function: few calls per step, one product per weight.

All sums of a step are in one block of columns: the projected query and the output of the step before, then
the gates of the step itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from throughtime.cells.base import State
from throughtime.layers.attention import Attention
from throughtime.layers.layer import Layer
from throughtime.layers.stack import Stack
from throughtime.models.attention_steps import SavedAttention, is_supported
from throughtime.models.decoder_loop import Columns, DecoderLoop, Gradients, allocate_states
from throughtime.models.gate_steps import find_gates
from throughtime.recurrence.layout import scratch


class LoopWeights(NamedTuple):
    """The weights of the loop; those of the cell have the cell's names.

    Additive attention is e' sigmoid(W q + k); without `query` and `energy` the scores are products q' k.
    """

    query: Tensor | None
    energy: Tensor | None
    weight_ih: Tensor
    weight_hh: Tensor
    bias: Tensor
    bias_hn: Tensor | None
    output: Tensor
    output_bias: Tensor


class InputFeedingLoop(DecoderLoop):
    """All steps: o = tanh(W s + sum_j a_j v_j + b), where v are the values times the output's weights."""

    name = "the fused loop of attention"
    columns: Columns

    def forward(
        self, hidden: Tensor, keys: Tensor, values: Tensor, h: Tensor, c: Tensor | None, *others: Any
    ) -> tuple[Gradients, tuple[Tensor | None, ...]]:
        """Return the outputs [L, B, O], the weights and the last state, for inputs x [L, B, E] and o_0."""
        x, fed, *flat_weights = others
        w, steps, embedded = LoopWeights(*flat_weights), len(x), x.shape[2]
        self.columns = columns = Columns(
            self.gates, 0 if w.query is None else len(w.query), len(w.output), h.shape[1]
        )
        sums = _first_sums(columns, x, w)
        into_sums = [w.output, self.roll(w.weight_hh, h.shape[1])]
        from_state = torch.cat(into_sums if w.query is None else [w.query, *into_sums]).t()
        from_fed = w.weight_ih[:, embedded:].t()
        states = [allocate_states(first, steps) for first in (h, c) if first is not None]
        outputs = allocate_states(fed, steps)
        attention = self.attention(keys, values, w.energy, hidden, steps, self.differentiable)
        sums[0, :, columns.from_state].addmm_(h, from_state[:, columns.from_state])
        for t in range(steps):
            current, following = sums[t], sums[t + 1]
            current[:, columns.from_input].addmm_(outputs[t], from_fed)
            reached = tuple(values[t + 1] for values in states)
            self.gates.advance(current[:, columns.gates], tuple(values[t] for values in states), reached)
            read = columns.all_from_state if t + 1 < steps else columns.shown
            following[:, read].addmm_(reached[0], from_state[:, read])
            query = reached[0] if w.query is None else following[:, columns.query]
            attention.advance(t, query, following[:, columns.output], outputs[t + 1])
        saved = (x, sums, outputs, from_state, *attention.saved, *flat_weights, *states)
        return (outputs[1:], attention.saved.weights, *self.last_state(states)), saved

    def backward(
        self, saved: Sequence[Tensor], results: Tensor | None, looks: Tensor | None, *last: Tensor | None
    ) -> Gradients:
        """From the last step to the first; the gradients of all sums are kept."""
        columns = self.columns
        x, sums, outputs, from_state, *others = saved
        kept, w, states = SavedAttention(*others[:5]), LoopWeights(*others[5:13]), others[13:]
        steps, embedded = len(x), x.shape[2]
        slopes, rest = self._slopes(sums, outputs, states)
        queries = states[0][1:] if w.query is None else sums[1:, :, columns.query]
        attention = self.attention.gradients(kept, queries)
        flowing = self.begin_flow(states, last)
        into_fed = torch.zeros_like(outputs[0])
        to_fed, to_state = w.weight_ih[:, embedded:], from_state.t()
        for t in reversed(range(steps)):
            current, following = slopes[t], slopes[t + 1]
            attention.retreat(
                *(t, following[:, columns.output]),
                (into_fed, None if results is None else results[t]),
                None if looks is None else looks[t],
                *(following[:, columns.query], flowing[0]),
            )
            read = columns.all_from_state if t + 1 < steps else columns.shown
            flowing[0].addmm_(following[:, read], to_state[read])
            self.gates.retreat(current[:, columns.gates], tuple(factor[t] for factor in rest), flowing)
            torch.mm(current[:, columns.from_input], to_fed, out=into_fed)
        flowing[0].addmm_(slopes[0, :, columns.from_state], to_state[columns.from_state])
        into_keys, into_values, into_energy = attention.result(slopes[1:, :, columns.output])
        into_x = (slopes[:-1, :, columns.from_input].flatten(0, 1) @ w.weight_ih[:, :embedded]).view_as(x)
        of_weights = self._weight_gradients(slopes, x, outputs, states[0], w, into_energy)
        return into_keys, into_values, *self.end_flow(flowing), into_x, into_fed, *of_weights

    def _slopes(
        self, sums: Tensor, outputs: Tensor, states: Sequence[Tensor]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the slopes of gates and outputs, in the columns of sums, and the gates' other factors."""
        columns, slopes = self.columns, scratch(tuple(sums.shape), like=sums)
        before, after = tuple(values[:-1] for values in states), tuple(values[1:] for values in states)
        gates = (sums[:-1, :, columns.gates], before, after, slopes[:-1, :, columns.gates])
        rest = self.gates.slopes(*gates)
        unit = outputs.new_ones(())
        torch.addcmul(unit, outputs[1:], outputs[1:], value=-1, out=slopes[1:, :, columns.output])
        return slopes, rest

    def _weight_gradients(
        self, slopes: Tensor, x: Tensor, outputs: Tensor, h: Tensor, w: LoopWeights, energy: Tensor | None
    ) -> LoopWeights:
        """One product for each weight, from the gradients of all sums; that of the energy is known."""
        columns, size, embedded = self.columns, h.shape[2], x.shape[2]
        into_inputs = slopes[:-1, :, columns.from_input].flatten(0, 1)
        into_gates = slopes[:-1, :, columns.from_state].flatten(0, 1)
        into_shown = slopes[1:, :, columns.shown].flatten(0, 1)
        weight_ih = torch.empty_like(w.weight_ih)
        torch.mm(into_inputs.t(), x.flatten(0, 1), out=weight_ih[:, :embedded])
        torch.mm(into_inputs.t(), outputs[:-1].flatten(0, 1), out=weight_ih[:, embedded:])
        shown = into_shown.t() @ h[1:].flatten(0, 1)
        return LoopWeights(
            query=None if w.query is None else shown[columns.query],
            energy=energy,
            weight_ih=weight_ih,
            weight_hh=self.roll(into_gates.t() @ h[:-1].flatten(0, 1), size, -1),
            bias=into_inputs.sum(0),
            bias_hn=None if w.bias_hn is None else into_gates[:, :size].sum(0),
            output=shown[columns.output],
            output_bias=into_shown[:, columns.output].sum(0),
        )


def _first_sums(columns: Columns, x: Tensor, w: LoopWeights) -> Tensor:
    """Return the sums of all steps, [L + 1, B, columns], with what needs no state."""
    (steps, batch, embedded), size = x.shape, w.weight_hh.shape[1]
    sums = scratch((steps + 1, batch, columns.width), like=x)
    if w.bias_hn is not None:
        sums[:-1, :, columns.from_state][..., :size] = w.bias_hn
    inputs = sums[:-1].flatten(0, 1)[:, columns.from_input]
    torch.addmm(w.bias, x.flatten(0, 1), w.weight_ih[:, :embedded].t(), out=inputs)
    sums[1:, :, columns.query].zero_()
    sums[1:, :, columns.output] = w.output_bias
    return sums


def refuses(stack: Stack, attention: Attention, norm: nn.Module | None) -> str | None:
    """Return the reason why the fused loop does not support these layers; None if it does."""
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
    """Return outputs [L, B, O], weights [L, B, T] and the last state with o_L, for embedded inputs [L, B, E].

    `state` ends with o_0; `kept` are keys, values times the output's weights, and padding.
    """
    cell = cast(Layer, stack.layers[0]).from_left
    *first, fed = state
    loop = InputFeedingLoop(cell, x.device)
    with torch.autocast(loop.device, enabled=False):
        w = cell.weights()
    weights = (w["weight_ih"], w["weight_hh"], w["bias"], w.get("bias_hn"), output.weight, output.bias)
    outputs, looks, last = loop.run(attention, kept, tuple(first), (x, fed), weights)
    return outputs, looks, (*last, outputs[-1])
