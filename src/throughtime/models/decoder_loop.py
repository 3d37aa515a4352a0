"""Fused loops of decoders, one differentiable function over all steps of a target: input feeding is one.

A loop is one block of columns of sums for each step, so that the state is multiplied once by all weights that
read it, forward and backward, and the gradients of all sums remain for one product per weight at the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from throughtime.cells.base import Cell, State
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

Gradients = tuple[Tensor | None, ...]


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


class DecoderLoop(ABC):
    """All steps of one target, forward and backward; a subclass has the equations.

    Under autocast, products are in its precision, the comparison with the keys and the softmax in float32.
    What only the backward pass needs is kept if `differentiable`.
    """

    name: str
    """What errors call the loop."""

    def __init__(self, cell: Cell, device: torch.device) -> None:
        self.dtype, self.device = next(cell.parameters()).dtype, device.type
        in_autocast = torch.is_autocast_enabled(self.device)
        self.narrow = torch.get_autocast_dtype(self.device) if in_autocast else self.dtype
        gates = find_gates(cell, device, self.narrow)
        if gates is None:
            raise InputError("fused", f"does not support {type(cell).__name__}")
        self.gates, self.differentiable = gates, torch.is_grad_enabled()
        self.attention: type[TorchAttention] = TorchAttention

    @abstractmethod
    def forward(
        self, hidden: Tensor, keys: Tensor, values: Tensor, h: Tensor, c: Tensor | None, *others: Any
    ) -> tuple[Gradients, tuple[Tensor | None, ...]]:
        """Compute the results of all steps, the weights [L, B, T], the last state, and what `backward` needs.

        `hidden` [B, T] is added to the scores: 0, or the lowest number for padding. Energy, keys, values and
        hidden may be more precise than the rest; the comparison of queries with keys then is, too.
        """

    @abstractmethod
    def backward(
        self, saved: Sequence[Tensor], results: Tensor | None, looks: Tensor | None, *last: Tensor | None
    ) -> Gradients:
        """Return the gradients of the arguments of `forward` but `hidden`, from those of what it returns."""

    def run(
        self,
        attention: Attention,
        memory: State,
        state: State,
        inputs: Sequence[Tensor],
        weights: Sequence[Tensor | None],
    ) -> tuple[Tensor, Tensor, State]:
        """Return the results, the weights and the last state.

        `memory` are keys, values and padding; query and energy of the attention come before `weights`.
        """
        keys, values, padding = memory
        with torch.autocast(self.device, enabled=False):
            wide = torch.promote_types(self.narrow, torch.float32)
            keys, query, energy = prepare_scores(attention, keys, wide)
            self.attention = find_attention(self.narrow, keys, values.shape[2])
            h, c = (*state, None)[:2]
            narrow = (None if x is None else x.to(self.narrow) for x in (h, c, *inputs, query))
            results, looks, *last = _FusedLoop.apply(  # type: ignore[no-untyped-call]
                self,
                padding.to(wide) * torch.finfo(wide).min,
                keys.to(wide),
                values.to(self.narrow if self.attention.narrow_values else wide),
                *narrow,
                energy,
                *(None if weight is None else weight.to(self.narrow) for weight in weights),
            )
        return results, looks, tuple(tensor.to(self.dtype) for tensor in last if tensor is not None)

    def last_state(self, states: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
        """Return the state after all steps, as `forward` returns it."""
        h, c = ([*states, None])[:2]
        assert h is not None
        return h[-1].clone(), None if c is None else c[-1].clone()

    def begin_flow(self, states: Sequence[Tensor], last: Sequence[Tensor | None]) -> State:
        """Return the gradient of the state after all steps, which flows back from there."""
        return tuple(
            torch.zeros_like(values[0]) if gradient is None else gradient.clone()
            for values, gradient in zip(states, last, strict=False)
        )

    def end_flow(self, flowing: State) -> tuple[Tensor, Tensor | None]:
        """Return the gradients of h and c before the first step."""
        return flowing[0], flowing[1] if self.gates.states == 2 else None

    def roll(self, weight: Tensor, hidden: int, sign: int = 1) -> Tensor:
        """Return the rows of weight_hh in the order of the blocks of gates; with a `sign` of -1 back."""
        return weight.roll(sign * self.gates.rolled * hidden, 0)


class _FusedLoop(torch.autograd.Function):
    """A `DecoderLoop` for autograd."""

    @staticmethod
    def forward(ctx: Any, loop: DecoderLoop, *tensors: Any) -> Gradients:
        results, saved = loop.forward(*tensors)
        ctx.loop = loop
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*saved)
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Gradients:
        """First derivatives only."""
        loop: DecoderLoop = ctx.loop
        if torch.is_grad_enabled():
            raise ThroughtimeError(
                f"{loop.name} has first derivatives only; for create_graph=True set the decoder's `fused` to "
                "False"
            )
        # Kernels read whole rows.
        whole = [gradient if gradient is None else gradient.contiguous() for gradient in gradients]
        with torch.autocast(loop.device, enabled=False):  # backward may be called inside one
            return None, None, *loop.backward(ctx.saved_tensors, *whole)


def allocate_states(first: Tensor, steps: int) -> Tensor:
    """Allocate values before and after all steps, and set the first one."""
    room = scratch((steps + 1, *first.shape), like=first)
    room[0] = first
    return room


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
    """All steps: o = tanh(W s + sum_j a_j v_j + b), where v are the values times the output's weights.

    All sums of a step are in one block of columns: the projected query and the output of the step before,
    then the gates of the step itself.
    """

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
            self.gates.activate(current[:, columns.gates], tuple(values[t] for values in states), reached)
            read = columns.all_from_state if t + 1 < steps else columns.shown
            following[:, read].addmm_(reached[0], from_state[:, read])
            query = reached[0] if w.query is None else following[:, columns.query]
            attention.look(t, query, following[:, columns.output], outputs[t + 1])
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
