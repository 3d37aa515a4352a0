"""A decoder that knows its source by one vector c, the same at every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from throughtime.cells.base import State
from throughtime.errors import InputError, unknown
from throughtime.layers.dropout import checked_probability
from throughtime.layers.pooling import build_pooling
from throughtime.layers.stack import Stack
from throughtime.models.bridge import Bridge
from throughtime.models.seq2seq import Decoded, Decoder, Encoded, Kept
from throughtime.search.interface import Memory


def _pooled(name: str) -> Callable[[Encoded], Tensor]:
    pooling = build_pooling(name, 0)  # these have no weights, so any size does
    return lambda encoded: cast(Tensor, pooling(encoded.outputs, encoded.final, encoded.lengths))


CONTEXTS: dict[str, Callable[[Encoded], Tensor]] = {
    "last": lambda encoded: encoded.final,
    "mean": _pooled("mean"),
    "max": _pooled("max"),
}
"""q of c = q(h_1..h_T): the whole source in one vector [B, H]; zero for an empty one."""


class ContextDecoder(Decoder):
    r"""s_t = g(y_{t-1}, c, s_{t-1}), where each of the three may be left out.

    - the first state is the encoder's through `bridge`; without one, the stack's own: zero or learned;
    - c, one of CONTEXTS, is fed at every step where a `context` is named;
    - y_{t-1} is fed where there is an `embedding`.

    A stack that is fed neither gets one zero a step: it must know all from its first state. An `output_size`
    other than the stack's is reached by one product, as tied weights of a narrower embedding need it.

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
        fed = (embedding.embedding_dim if embedding else 0) + (context_size if context else 0)
        check_stack(stack, max(1, fed))
        if bridge is None and context is None:
            raise InputError(
                "decoder", "has no state from the encoder and no context: it would know no source"
            )
        self.stack, self.embedding, self.bridge, self.context = stack, embedding, bridge, context
        self.dropout = nn.Dropout(checked_probability("dropout", dropout))
        self.output_dropout = nn.Dropout(checked_probability("output_dropout", output_dropout))
        self.output_size = output_size or stack.output_size
        resized = self.output_size != stack.output_size
        self.output = nn.Linear(stack.output_size, self.output_size) if resized else None

    def start(self, encoded: Encoded) -> tuple[State, Kept]:
        """The first state, and c."""
        state = first_state(self.stack, self.bridge, encoded)
        return state, () if self.context is None else (CONTEXTS[self.context](encoded),)

    def step(self, last: Tensor, state: State, memory: Memory) -> Decoded:
        """Read one token a row."""
        outputs, reached = self.stack.step(self._input(last, memory), state)
        return Decoded(self._output(outputs), reached)

    def run(self, inputs: Tensor, state: State, memory: Memory) -> Decoded:
        """Read a whole target in one scan."""
        outputs, reached = self.stack(self._input(inputs, memory), state)
        return Decoded(self._output(outputs), reached)

    def _output(self, outputs: Tensor) -> Tensor:
        found: Tensor = self.output_dropout(outputs if self.output is None else self.output(outputs))
        return found

    def _input(self, ids: Tensor, memory: Memory) -> Tensor:
        """What enters the stack for ids [rows] or [L, rows]."""
        parts: list[Tensor] = []
        if self.embedding is not None:
            parts.append(self.dropout(self.embedding(ids)))
        if self.context is not None:
            context = memory.kept[0].index_select(0, memory.owner)
            parts.append(context.expand(*ids.shape, -1))
        if not parts:
            return next(self.parameters()).new_zeros(*ids.shape, 1)
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def first_state(stack: Stack, bridge: Bridge | None, encoded: Encoded) -> State:
    """The encoder's through the bridge, or where there is none the stack's own: zero or learned."""
    return bridge(encoded.state) if bridge is not None else stack.initial_state(len(encoded.lengths))


def check_stack(stack: Stack, input_size: int) -> None:
    """Refuse a stack that cannot write from left to right, or does not fit what a decoder feeds it."""
    if stack.refuses_generation is not None:
        raise InputError("decoder", stack.refuses_generation)
    if stack.input_size != input_size:
        raise InputError(
            "decoder", f"its stack reads {stack.input_size} values a step, but is fed {input_size}"
        )
