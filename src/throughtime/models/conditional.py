"""The conditional decoder, with attention between two cells."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from throughtime.cells.base import Cell, GraphState, Ops, State
from throughtime.errors import InputError
from throughtime.layers.attention import Attention, attend, build_memory
from throughtime.layers.layer import check_probability, graph_norm
from throughtime.models.decoders import check_query, first_state, graph_first_state
from throughtime.models.seq2seq import (
    Bridge,
    Decoder,
    DecoderMemory,
    DecoderOutput,
    EncoderOutput,
    GraphDecoded,
    GraphEncoded,
)
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
        from throughtime.models.conditional_loop import refuses, run_conditional

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
