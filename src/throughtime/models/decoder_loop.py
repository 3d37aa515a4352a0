"""What the fused loops of decoders share: one differentiable function over all steps of a target.

A loop is one block of columns of sums for each step, so that the state is multiplied once by all weights that
read it, forward and backward, and the gradients of all sums remain for one product per weight at the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from throughtime.cells.base import Cell, State
from throughtime.errors import InputError, ThroughtimeError
from throughtime.layers.attention import Attention
from throughtime.models.attention_steps import TorchAttention, find_attention, prepare_scores
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
