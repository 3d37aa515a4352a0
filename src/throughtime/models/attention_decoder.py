"""A decoder that looks at the whole source at every step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from throughtime.cells.base import State
from throughtime.errors import InputError
from throughtime.layers.attention import Attention, attend, remembered
from throughtime.layers.dropout import checked_probability
from throughtime.layers.stack import Stack
from throughtime.models.bridge import Bridge
from throughtime.models.context_decoder import check_stack, first_state
from throughtime.models.input_feeding_decoder import fed_attention, refuses
from throughtime.models.seq2seq import Decoded, Decoder, Encoded, Kept
from throughtime.search.interface import Memory


class AttentionDecoder(Decoder):
    r"""The output mixes the state with a context that the state itself asked for (Luong et al., 2015).

    .. math::
        s_t &= g([y_{t-1}; o_{t-1}], s_{t-1}) \\
        a_t &= \mathrm{attention}(s_t; h_1 \ldots h_T) \\
        o_t &= \tanh(W s_t + \sum_j a_{tj} C h_j + b)

    C h_j is formed once for a sentence, as the keys are, and not at each step and for each row of a beam.
    Feeding o_{t-1} (`input_feeding`) tells a step where the one before it looked, and makes it wait for that
    one. Without, the target runs through one scan and one product attends to all its steps. Dropout falls on
    the embedded tokens and on the outputs that the head sees, not on what is fed back. `layer_norm`
    normalises the sum inside o_t.

    >>> from throughtime.layers.attention import Dot
    >>> stack = Stack("gru", 8 + 16, 16)
    >>> decoder = AttentionDecoder(nn.Embedding(20, 8), stack, Dot(16, 16), output_size=16)
    >>> decoder.output_size
    16
    """

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
        self.dropout = nn.Dropout(checked_probability("dropout", dropout))
        self.output_dropout = nn.Dropout(checked_probability("output_dropout", output_dropout))
        self.fused = True
        """Whether a whole target may run as one differentiable function, where that knows the equations."""

    def start(self, encoded: Encoded) -> tuple[State, Kept]:
        """The first state, o_0 = 0 where it is fed; keys, C h and padding."""
        state = first_state(self.stack, self.bridge, encoded)
        keys, values, padding = remembered(self.attention, encoded.outputs, encoded.lengths)
        if self.input_feeding:
            state = (*state, state[0].new_zeros(len(state[0]), self.output_size))
        return state, (keys, self.from_context(values), padding)

    def step(self, last: Tensor, state: State, memory: Memory) -> Decoded:
        """Read one token a row."""
        x = self.dropout(self.embedding(last))
        if self.input_feeding:
            x, state = torch.cat([x, state[-1]], dim=-1), state[:-1]
        seen, reached = self.stack.step(x, state)
        context, weights = attend(self.attention, seen, memory)
        output = self._output(seen, context)
        if self.input_feeding:
            reached = (*reached, output)
        return Decoded(self.output_dropout(output), reached, {"attention": weights})

    def run(self, inputs: Tensor, state: State, memory: Memory) -> Decoded:
        """Read a whole target: in one scan, or where outputs are fed back, step by step."""
        if self.input_feeding and (not self.fused or refuses(self.stack, self.attention, self.norm)):
            return super().run(inputs, state, memory)
        x = self.dropout(self.embedding(inputs))
        if not self.input_feeding:
            seen, reached = self.stack(x, state)
            context, weights = self.attention(seen.transpose(0, 1), *memory.kept)
            output = self._output(seen, context.transpose(0, 1))
            return Decoded(self.output_dropout(output), reached, {"attention": weights.transpose(0, 1)})
        outputs, weights, reached = fed_attention(
            x, state, self.stack, self.attention, self.from_state, memory.kept
        )
        return Decoded(self.output_dropout(outputs), reached, {"attention": weights})

    def _output(self, seen: Tensor, context: Tensor) -> Tensor:
        mixed = self.from_state(seen) + context
        return torch.tanh(mixed if self.norm is None else self.norm(mixed))


def check_query(attention: Attention, width: int) -> None:
    """Refuse an attention made for queries of another width."""
    if attention.query_size != width:
        raise InputError(
            "attention", f"is made for queries of {attention.query_size} values, the decoder's have {width}"
        )
