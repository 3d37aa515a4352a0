"""The conditional decoder, with attention between two cells, and its steps as one differentiable function.

In that function few kernels are launched per step, and there is one product per weight. The state is
multiplied once by all weights that read it: those of the query and of the second cell together. The context
is never formed inside the loop. The second cell reads W c_t, which is the weighted sum of W h_j, computed
once per sentence; the contexts that the output needs follow from the weights of all steps afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from throughtime.cells.base import Cell, GraphState, Ops, State
from throughtime.errors import InputError
from throughtime.layers.attention import Attention, attend, build_memory
from throughtime.layers.layer import check_probability, graph_norm
from throughtime.models.attention_steps import SavedAttention, is_supported
from throughtime.models.decoder_loop import Columns, DecoderLoop, Gradients, allocate_states
from throughtime.models.decoders import check_query, first_state, graph_first_state
from throughtime.models.gate_steps import find_gates
from throughtime.models.seq2seq import (
    Bridge,
    Decoder,
    DecoderMemory,
    DecoderOutput,
    EncoderOutput,
    GraphDecoded,
    GraphEncoded,
)
from throughtime.recurrence.layout import scratch
from throughtime.search.generate import Memory


class ConditionalDecoder(Decoder):
    r"""The first cell reads the last token; its state is the query. The second cell reads the context.

    .. math::
        s'_t &= g_1(y_{t-1}, s_{t-1}) \\
        c_t &= \mathrm{attention}(s'_t; h_1 \ldots h_T) \\
        s_t &= g_2(c_t, s'_t) \\
        o_t &= \tanh(W_1 s_t + W_2 y_{t-1} + W_3 c_t + b)

    `layer_norm` normalises the sum inside o_t. Dropout applies to the embedded tokens and the outputs.
    """

    attends = True

    def __init__(
        self,
        embedding: nn.Embedding,
        first: Cell,
        second: Cell,
        attention: Attention,
        *,
        output_size: int,
        bridge: Bridge | None = None,
        dropout: float = 0.0,
        output_dropout: float = 0.0,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        if first.state_sizes != second.state_sizes:
            sizes = f"{first.state_sizes} and {second.state_sizes}"
            raise InputError("decoder", f"its cells have states of {sizes}, expected the same")
        if (first.input_size, second.input_size) != (embedding.embedding_dim, attention.memory_size):
            raise InputError(
                "decoder",
                f"its cells read {first.input_size} and {second.input_size} values, but get "
                f"{embedding.embedding_dim} (a token) and {attention.memory_size} (the context)",
            )
        check_query(attention, first.output_size)
        self.embedding, self.first, self.second = embedding, first, second
        self.attention, self.bridge, self.output_size = attention, bridge, output_size
        width = second.output_size + embedding.embedding_dim + attention.memory_size
        self.mix = nn.Linear(width, output_size)  # W_1, W_2, W_3
        self.norm = nn.LayerNorm(output_size) if layer_norm else None
        self.dropout = nn.Dropout(check_probability("dropout", dropout))
        self.output_dropout = nn.Dropout(check_probability("output_dropout", output_dropout))
        self.fused: bool | None = None
        """Whether a target may run as one fused function, if that supports its parts; None: on a GPU."""

    def start(self, encoded: EncoderOutput) -> tuple[State, DecoderMemory]:
        """Return the first state (the encoder's, or the first cell's own); keys, values and padding."""
        state = first_state(self.first, self.bridge, encoded)
        return state, build_memory(self.attention, encoded.outputs, encoded.lengths)

    def step(self, last: Tensor, state: State, memory: Memory) -> DecoderOutput:
        """Read one token per row."""
        y = self.dropout(self.embedding(last))
        state, context, weights = self._finish_step(self.first.step_from(y, state), memory)
        output = self._output(state[0], y, context)
        return DecoderOutput(output, state, {"attention": weights})

    def run(self, inputs: Tensor, state: State, memory: Memory) -> DecoderOutput:
        """Read a whole target, with one product before and one after all steps."""
        y = self.dropout(self.embedding(inputs))
        fused = inputs.is_cuda if self.fused is None else self.fused
        if fused and not refuses(self.first, self.second, self.attention):
            states, looks, reached = run_conditional(
                self.first.project(y), state, self.first, self.second, self.attention, memory.kept
            )
            values = memory.kept[1]
            context = torch.bmm(looks.transpose(0, 1).to(values.dtype), values).transpose(0, 1)
            return DecoderOutput(self._output(states, y, context), reached, {"attention": looks})
        seen, contexts, attention = [], [], []
        for projected in self.first.project(y).unbind():
            state, context, weights = self._finish_step(self.first.step(projected, state), memory)
            seen.append(state[0])
            contexts.append(context)
            attention.append(weights)
        output = self._output(torch.stack(seen), y, torch.stack(contexts))
        return DecoderOutput(output, state, {"attention": torch.stack(attention)})

    def _finish_step(self, query_state: State, memory: Memory) -> tuple[State, Tensor, Tensor]:
        """Run the attention and the second cell: the next state, the context, the weights."""
        context, weights = attend(self.attention, query_state[0], memory)
        return self.second.step_from(context, query_state), context, weights

    def _output(self, seen: Tensor, y: Tensor, context: Tensor) -> Tensor:
        mixed = self.mix(torch.cat([seen, y, context], dim=-1))
        output: Tensor = self.output_dropout(torch.tanh(mixed if self.norm is None else self.norm(mixed)))
        return output

    def graph_start(self, ops: Ops, encoded: GraphEncoded) -> tuple[GraphState, GraphState]:
        """See `Decoder`."""
        memory = self.attention.graph_memory(ops, encoded.outputs, encoded.lengths)
        return graph_first_state(ops, self.first, self.bridge, encoded), memory

    def graph_step(self, ops: Ops, last: str, state: GraphState, kept: GraphState) -> GraphDecoded:
        """See `Decoder`."""
        y = ops.lookup(self.embedding.weight, last)
        query_state = self.first.graph_step_from(ops, y, state)
        context, weights = self.attention.graph(ops, query_state[0], kept)
        reached = self.second.graph_step_from(ops, context, query_state)
        mixed = ops.linear(ops.concat([reached[0], y, context]), self.mix.weight, self.mix.bias)
        return GraphDecoded(ops.op("Tanh", graph_norm(ops, self.norm, mixed)), reached, weights)


class ConditionalWeights(NamedTuple):
    """The weights of the loop: of the attention's query and energy, of the first cell, of the second cell."""

    query: Tensor | None
    energy: Tensor | None
    first_hh: Tensor
    first_hn: Tensor | None
    second_hh: Tensor
    second_bias: Tensor
    second_hn: Tensor | None


class ConditionalLoop(DecoderLoop):
    """Both cells and the attention between them, through all steps.

    `values` [B, T, P] are what the second cell reads of each position, without its bias.
    """

    name = "the fused loop of the conditional decoder"
    first: Columns
    second: Columns

    def forward(
        self, hidden: Tensor, keys: Tensor, values: Tensor, h: Tensor, c: Tensor | None, *others: Any
    ) -> tuple[Gradients, tuple[Tensor | None, ...]]:
        """Return the states h [L, B, H] after all steps, the weights and the last state.

        The input [L, B, P] is what the first cell reads, W y + b.
        """
        projected, *flat_weights = others
        w, steps, size = ConditionalWeights(*flat_weights), len(projected), h.shape[1]
        self.first = first = Columns(self.gates, 0, 0, size)
        self.second = second = Columns(self.gates, 0 if w.query is None else len(w.query), 0, size)
        sums = _first_sums(first, second, projected, w)
        into_first, into_second = self.roll(w.first_hh, size), self.roll(w.second_hh, size)
        if w.query is not None:
            into_second = torch.cat([w.query, into_second])
        states = [allocate_states(start, steps) for start in (h, c) if start is not None]
        between = [scratch((steps, *values.shape[1:]), like=values) for values in states]
        attention = self.attention(keys, values, w.energy, hidden, steps, self.differentiable)
        for t in range(steps):
            first_sums, second_sums = sums[0][t], sums[1][t]
            entering, asking = (tuple(values[t] for values in parts) for parts in (states, between))
            first_sums[:, first.from_state].addmm_(entering[0], into_first.t())
            self.gates.activate(first_sums, entering, asking)
            second_sums[:, second.all_from_state].addmm_(asking[0], into_second.t())
            query = asking[0] if w.query is None else second_sums[:, second.query]
            attention.look(t, query, second_sums[:, second.from_input], None)
            reached = tuple(values[t + 1] for values in states)
            self.gates.activate(second_sums[:, second.gates], asking, reached)
        saved = (*sums, into_first, into_second, *attention.saved, *flat_weights, *states, *between)
        return (states[0][1:], attention.saved.weights, *self.last_state(states)), saved

    def backward(
        self, saved: Sequence[Tensor], results: Tensor | None, looks: Tensor | None, *last: Tensor | None
    ) -> Gradients:
        """From the last step to the first; the gradients of all sums are kept."""
        gates, first, second = self.gates, self.first, self.second
        first_sums, second_sums, into_first, into_second, *others = saved
        kept, w, states = SavedAttention(*others[:5]), ConditionalWeights(*others[5:12]), others[12:]
        states, between = states[: gates.states], tuple(states[gates.states :])
        slopes = [scratch(tuple(sums.shape), like=sums) for sums in (first_sums, second_sums)]
        before, after = (tuple(values[:-1] for values in states), tuple(values[1:] for values in states))
        rests = (
            gates.slopes(first_sums, before, between, slopes[0]),
            gates.slopes(second_sums[..., second.gates], between, after, slopes[1][..., second.gates]),
        )
        queries = between[0] if w.query is None else second_sums[..., second.query]
        attention = self.attention.gradients(kept, queries)
        flowing = self.begin_flow(states, last)
        for t in reversed(range(len(between[0]))):
            into_sums, into_query = slopes[1][t], slopes[1][t][:, second.query]
            more = None if results is None else results[t]
            gates.retreat(into_sums[:, second.gates], tuple(factor[t] for factor in rests[1]), flowing, more)
            attention.retreat(
                *(t, into_sums[:, second.from_input], None),
                *(None if looks is None else looks[t], into_query, flowing[0]),
            )
            flowing[0].addmm_(into_sums[:, second.all_from_state], into_second)
            gates.retreat(slopes[0][t], tuple(factor[t] for factor in rests[0]), flowing)
            flowing[0].addmm_(slopes[0][t][:, first.from_state], into_first)
        into_keys, into_values, into_energy = attention.result(slopes[1][..., second.from_input])
        of_weights = self._weight_gradients(slopes, states[0], between[0], w, into_energy)
        into_projected = slopes[0][..., first.from_input]
        return into_keys, into_values, *self.end_flow(flowing), into_projected, *of_weights

    def _weight_gradients(
        self, slopes: list[Tensor], h: Tensor, between: Tensor, w: ConditionalWeights, energy: Tensor | None
    ) -> ConditionalWeights:
        """One product for each weight, from the gradients of all sums; that of the energy is known."""
        first, second, size = self.first, self.second, h.shape[2]
        into_first = slopes[0][..., first.from_state].flatten(0, 1)
        into_second = slopes[1][..., second.all_from_state].flatten(0, 1)
        shown = into_second.t() @ between.flatten(0, 1)
        into_gates = into_second[:, second.from_state]
        return ConditionalWeights(
            query=None if w.query is None else shown[second.query],
            energy=energy,
            first_hh=self.roll(into_first.t() @ h[:-1].flatten(0, 1), size, -1),
            first_hn=None if w.first_hn is None else into_first[:, :size].sum(0),
            second_hh=self.roll(shown[second.from_state], size, -1),
            second_bias=slopes[1][..., second.from_input].flatten(0, 1).sum(0),
            second_hn=None if w.second_hn is None else into_gates[:, :size].sum(0),
        )


def _first_sums(
    first: Columns, second: Columns, projected: Tensor, w: ConditionalWeights
) -> tuple[Tensor, Tensor]:
    """Return the sums of all steps of both cells, with what needs no state."""
    (steps, batch, _), size = projected.shape, w.first_hh.shape[1]
    sums = tuple(scratch((steps, batch, columns.width), like=projected) for columns in (first, second))
    for values, columns, bias_hn in zip(sums, (first, second), (w.first_hn, w.second_hn), strict=True):
        if bias_hn is not None:
            values[..., columns.from_state][..., :size] = bias_hn
    sums[0][..., first.from_input] = projected
    sums[1][..., second.query] = 0
    sums[1][..., second.from_input] = w.second_bias
    return sums[0], sums[1]


def refuses(first: Cell, second: Cell, attention: Attention) -> str | None:
    """Return the reason why the fused loop does not support these layers; None if it does."""
    weight = next(first.parameters())
    kinds = {find_gates(cell, weight.device, weight.dtype) for cell in (first, second)}
    if len(kinds) > 1 or None in kinds:
        return "it supports only two GRUs (reset after) or two LSTMs"
    if not is_supported(attention):
        return "it supports only additive attention and products"
    return None


def run_conditional(
    projected: Tensor, state: State, first: Cell, second: Cell, attention: Attention, kept: State
) -> tuple[Tensor, Tensor, State]:
    """Return states [L, B, H], weights [L, B, T] and the last state, for projected inputs [L, B, P].

    `kept` are keys, values and padding.
    """
    keys, outputs, padding = kept
    w, other = first.weights(), second.weights()
    memory = (keys, linear(outputs, other["weight_ih"]), padding)
    weights = (w["weight_hh"], w.get("bias_hn"), other["weight_hh"], other["bias"], other.get("bias_hn"))
    return ConditionalLoop(first, projected.device).run(attention, memory, state, (projected,), weights)
