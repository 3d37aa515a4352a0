"""Decoders: with one context for all steps, or with attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from throughtime.cells.base import Cell, GraphState, Ops, State
from throughtime.errors import InputError, unknown
from throughtime.layers.attention import Attention, attend, build_memory
from throughtime.layers.layer import check_probability, graph_norm
from throughtime.layers.pooling import POOLINGS, Pooling
from throughtime.layers.stack import Stack
from throughtime.models.heads import product_dtype
from throughtime.models.seq2seq import (
    Bridge,
    Decoder,
    DecoderMemory,
    DecoderOutput,
    EncoderOutput,
    GraphDecoded,
    GraphEncoded,
)
from throughtime.recurrence.steps import AlikeRows
from throughtime.search.generate import Memory

CONTEXTS = ("last", "mean", "max")
"""How the whole source becomes one vector c [B, H]: the encoder's last output, or a pooling."""


class ContextDecoder(Decoder):
    r"""s_t = g(y_{t-1}, c, s_{t-1}), where each of the three may be left out.

    - The first state is the encoder's, through `bridge`; without a bridge it is the stack's own: zero or
    learned. - c is an input of every step if `context` names one of CONTEXTS. - y_{t-1} is an input if there
    is an `embedding`.

    A stack without inputs reads a zero at each step, and knows the source only from its first state. If
    `output_size` differs from that of the stack, a linear layer adapts it, as a tied narrower embedding
    needs.

    >>> stack = Stack("gru", 8 + 32, 16, initial="learned")
    >>> ContextDecoder(stack, nn.Embedding(20, 8), context="mean", context_size=32).output_size
    16
    """

    def __init__(
        self,
        stack: Stack,
        embedding: nn.Embedding | None = None,
        *,
        context: str | None = None,
        context_size: int = 0,
        bridge: Bridge | None = None,
        output_size: int | None = None,
        dropout: float = 0.0,
        output_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if context is not None and context not in CONTEXTS:
            raise unknown("context", context, CONTEXTS)
        input_size = (embedding.embedding_dim if embedding else 0) + (context_size if context else 0)
        check_stack(stack, max(1, input_size))
        if bridge is None and context is None:
            raise InputError("decoder", "has neither a bridge nor a context, so it would not see the source")
        self.stack, self.embedding, self.bridge, self.context = stack, embedding, bridge, context
        self.pooling: Pooling | None = None
        if context in ("mean", "max"):
            self.pooling = POOLINGS[context](0)  # no weights, any size
        self.dropout = nn.Dropout(check_probability("dropout", dropout))
        self.output_dropout = nn.Dropout(check_probability("output_dropout", output_dropout))
        self.output_size = output_size or stack.output_size
        resized = self.output_size != stack.output_size
        self.output = nn.Linear(stack.output_size, self.output_size) if resized else None

    def start(self, encoded: EncoderOutput) -> tuple[State, DecoderMemory]:
        """Return the first state, and c."""
        state = first_state(self.stack, self.bridge, encoded)
        if self.context is None:
            return state, ()
        if self.pooling is None:
            return state, (encoded.final,)
        return state, (self.pooling(encoded.outputs, encoded.final, encoded.lengths),)

    def step(self, last: Tensor, state: State, memory: Memory) -> DecoderOutput:
        """Read one token per row."""
        context = None if self.context is None else memory.kept[0].index_select(0, memory.owner)
        outputs, reached = self.stack.step(self._input(last, context), state)
        return DecoderOutput(self._output(outputs), reached)

    def run(self, inputs: Tensor, state: State, memory: Memory) -> DecoderOutput:
        """Read a whole target in one scan."""
        context = None if self.context is None else memory.kept[0]
        outputs, reached = self.stack(self._input(inputs, context), state)
        return DecoderOutput(self._output(outputs), reached)

    def _output(self, outputs: Tensor) -> Tensor:
        result: Tensor = self.output_dropout(outputs if self.output is None else self.output(outputs))
        return result

    def _input(self, ids: Tensor, context: Tensor | None) -> Tensor:
        """Join the stack's input for ids [rows] or [L, rows] and the context of each row, if it has one."""
        parts: list[Tensor] = []
        if self.embedding is not None:
            parts.append(self.dropout(self.embedding(ids)))
        if context is not None:
            parts.append(context.expand(*ids.shape, -1))
        if not parts:
            return next(self.parameters()).new_zeros(*ids.shape, 1)
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def graph_start(self, ops: Ops, encoded: GraphEncoded) -> tuple[GraphState, GraphState]:
        """See `Decoder`."""
        state = graph_first_state(ops, self.stack, self.bridge, encoded)
        if self.context is None:
            return state, ()
        if self.pooling is None:
            return state, (encoded.final,)
        return state, (self.pooling.graph(ops, encoded.outputs, encoded.final, encoded.lengths),)

    def graph_step(self, ops: Ops, last: str, state: GraphState, kept: GraphState) -> GraphDecoded:
        """See `Decoder`."""
        parts, rows = [], ops.size(last, 0)
        if self.embedding is not None:
            parts.append(ops.lookup(self.embedding.weight, last))
        if self.context is not None:
            sentences, width = ops.size(kept[0], 0), ops.size(kept[0], 1)
            shape = ops.sizes(sentences, ops.op("Div", rows, sentences), width)
            whole = ops.op("Expand", ops.op("Unsqueeze", kept[0], ops.axes(1)), shape)
            parts.append(ops.op("Reshape", whole, ops.sizes(-1, width)))
        if not parts:
            parts.append(ops.op("Expand", ops.constant([[0.0]]), ops.sizes(rows, 1)))
        y, reached = self.stack.graph_step(ops, ops.concat(parts), state)
        if self.output is not None:
            y = ops.linear(y, self.output.weight, self.output.bias)
        return GraphDecoded(y, reached)


def first_state(first: Stack | Cell, bridge: Bridge | None, encoded: EncoderOutput) -> State:
    """Return the encoder's state through the bridge; without a bridge the stack's own: zero or learned."""
    return bridge(encoded.state) if bridge is not None else first.initial_state(len(encoded.lengths))


def graph_first_state(
    ops: Ops, first: Stack | Cell, bridge: Bridge | None, encoded: GraphEncoded
) -> GraphState:
    """`first_state` in a graph."""
    if bridge is not None:
        return bridge.graph(ops, encoded.state)
    return first.graph_initial_state(ops, ops.size(encoded.final, 0))


def check_stack(stack: Stack, input_size: int) -> None:
    """Refuse a stack that cannot generate from left to right, or has another input size."""
    if stack.refuses_generation is not None:
        raise InputError("decoder", stack.refuses_generation)
    if stack.input_size != input_size:
        raise InputError("decoder", f"its stack reads {stack.input_size} values, but gets {input_size}")


class AttentionDecoder(Decoder):
    r"""The output combines the state with a context, for which the state is the query (Luong et al., 2015).

    .. math::
        s_t &= g([y_{t-1}; o_{t-1}], s_{t-1}) \\
        a_t &= \mathrm{attention}(s_t; h_1 \ldots h_T) \\
        o_t &= \tanh(W s_t + \sum_j a_{tj} C h_j + b)

    C h_j is computed once per sentence, as the keys are, not at each step and for each row of a beam.
    `input_feeding` makes o_{t-1} an input, so that a step knows where the one before it attended; the steps
    then run one after another. Without it, the target is one scan, and one product computes the attention of
    all steps. Dropout applies to the embedded tokens and to the outputs that the head sees, not to those that
    are fed back. `layer_norm` normalises the sum inside o_t.

    >>> from throughtime.layers.attention import Dot
    >>> stack = Stack("gru", 8 + 16, 16)
    >>> decoder = AttentionDecoder(nn.Embedding(20, 8), stack, Dot(16, 16), output_size=16)
    >>> decoder.output_size
    16
    """

    attends = True

    def __init__(
        self,
        embedding: nn.Embedding,
        stack: Stack,
        attention: Attention,
        *,
        output_size: int,
        input_feeding: bool = True,
        bridge: Bridge | None = None,
        dropout: float = 0.0,
        output_dropout: float = 0.0,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        check_stack(stack, embedding.embedding_dim + (output_size if input_feeding else 0))
        check_query(attention, stack.output_size)
        self.embedding, self.stack, self.attention, self.bridge = embedding, stack, attention, bridge
        self.input_feeding, self.output_size = input_feeding, output_size
        self.from_state = nn.Linear(stack.output_size, output_size)
        self.from_context = nn.Linear(attention.memory_size, output_size, bias=False)
        self.norm = nn.LayerNorm(output_size) if layer_norm else None
        self.dropout = nn.Dropout(check_probability("dropout", dropout))
        self.output_dropout = nn.Dropout(check_probability("output_dropout", output_dropout))
        self.fused = True
        """Whether a whole target may run as one fused function, if that supports its parts."""

    def start(self, encoded: EncoderOutput) -> tuple[State, DecoderMemory]:
        """Return the first state, with o_0 = 0 if it is fed; keys, C h and padding."""
        state = first_state(self.stack, self.bridge, encoded)
        keys, values, padding = build_memory(self.attention, encoded.outputs, encoded.lengths)
        if self.input_feeding:
            state = (*state, state[0].new_zeros(len(state[0]), self.output_size))
        return state, (keys, self.from_context(values), padding)

    def step(self, last: Tensor, state: State, memory: Memory) -> DecoderOutput:
        """Read one token per row."""
        x = self.dropout(self.embedding(last))
        # A subclass of `Stack` need not take it.
        alike = () if self.training or type(self.stack) is not Stack else (AlikeRows(last, x.shape[1]),)
        if self.input_feeding:
            x, state = torch.cat([x, state[-1]], dim=-1), state[:-1]
        seen, reached = self.stack.step(x, state, *alike)
        asking = seen
        if seen.is_cuda and not torch.is_grad_enabled():  # one conversion for two products
            asking = seen.to(product_dtype(self.from_state.weight))
        sums, show = self.from_state(asking), self.norm is None
        output, weights = attend(self.attention, asking, memory, sums, show=show)
        output = output if show else self._show(output)
        if self.input_feeding:
            reached = (*reached, output)
        return DecoderOutput(self.output_dropout(output), reached, {"attention": weights})

    def run(self, inputs: Tensor, state: State, memory: Memory) -> DecoderOutput:
        """Read a whole target: in one scan, or step by step if outputs are fed back."""
        if not self.input_feeding:
            seen, reached = self.stack(self.dropout(self.embedding(inputs)), state)
            context, weights = self.attention(seen.transpose(0, 1), *memory.kept)
            output = self._show(self.from_state(seen) + context.transpose(0, 1))
            return DecoderOutput(self.output_dropout(output), reached, {"attention": weights.transpose(0, 1)})
        from throughtime.models.decoder_loop import refuses, run_input_feeding

        if not self.fused or refuses(self.stack, self.attention, self.norm):
            return super().run(inputs, state, memory)
        x = self.dropout(self.embedding(inputs))
        outputs, weights, reached = run_input_feeding(
            x, state, self.stack, self.attention, self.from_state, memory.kept
        )
        return DecoderOutput(self.output_dropout(outputs), reached, {"attention": weights})

    def _show(self, mixed: Tensor) -> Tensor:
        return torch.tanh(mixed if self.norm is None else self.norm(mixed))

    def graph_start(self, ops: Ops, encoded: GraphEncoded) -> tuple[GraphState, GraphState]:
        """See `Decoder`."""
        state = graph_first_state(ops, self.stack, self.bridge, encoded)
        keys, values, padding = self.attention.graph_memory(ops, encoded.outputs, encoded.lengths)
        if self.input_feeding:
            nothing = ops.constant([[0.0] * self.output_size])
            shape = ops.sizes(ops.size(encoded.final, 0), self.output_size)
            state += (ops.op("Expand", nothing, shape),)
        return state, (keys, ops.linear(values, self.from_context.weight), padding)

    def graph_step(self, ops: Ops, last: str, state: GraphState, kept: GraphState) -> GraphDecoded:
        """See `Decoder`."""
        x = ops.lookup(self.embedding.weight, last)
        if self.input_feeding:
            x, state = ops.concat([x, state[-1]]), state[:-1]
        seen, reached = self.stack.graph_step(ops, x, state)
        context, weights = self.attention.graph(ops, seen, kept)
        mixed = ops.op("Add", ops.linear(seen, self.from_state.weight, self.from_state.bias), context)
        output = ops.op("Tanh", graph_norm(ops, self.norm, mixed))
        return GraphDecoded(output, (*reached, output) if self.input_feeding else reached, weights)


def check_query(attention: Attention, width: int) -> None:
    """Refuse an attention for queries of another width."""
    if attention.query_size != width:
        problem = f"expects queries of {attention.query_size} values, but those of the decoder have {width}"
        raise InputError("attention", problem)
