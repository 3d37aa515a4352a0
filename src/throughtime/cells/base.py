"""What a cell is: the equations of one step, split so that all that needs no state is one matrix product."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from throughtime.errors import InputError, unknown

if TYPE_CHECKING:
    from throughtime.recurrence.backend import Result

State = tuple[Tensor, ...]
"""Flat, each tensor [batch, ...]; of a cell, state[0] is the output h."""

INITIAL = ("zero", "learned")


def check_whole(name: str, number: int) -> None:
    """Refuse what is not of a type of whole numbers, as 3.0 is not."""
    if not hasattr(number, "__index__"):
        raise InputError(name, f"is {number!r}, expected a whole number")


class Cell(nn.Module, ABC):
    """One step of a recurrence. `scan` runs it over time, and so does calling the cell.

    A subclass declares its weights in `__init__` (names, shapes and gate order are torch's), and gives
    `project` and `step`. It reads them through `weights()`, never by attribute, so that one scan can run with
    others. A cell with gates names them in `activations` and `keeping_gate`, so that they can be inspected.
    """

    activations: tuple[tuple[str, ...], ...] = ()
    """The names of the results of sigmoid, tanh and relu, in the order in which `step` calls them: a name for
    each equal part of a result, and () for a result that is not shown."""
    keeping_gate: str | None = None
    """The name of the gate that multiplies the old state."""

    def __init__(
        self, input_size: int, hidden_size: int, *, initial: str = "zero", state_sizes: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            check_whole(name, size)
            if size < 1:
                raise InputError(name, f"is {size}, expected 1 or more")
        if initial not in INITIAL:
            raise unknown("initial state", initial, INITIAL)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.state_sizes = state_sizes or (hidden_size,)
        """The width of each tensor of the state; the first is the output's."""
        self.learned_state: nn.ParameterList | tuple[Tensor, ...] = ()
        if initial == "learned":
            self.learned_state = nn.ParameterList(torch.zeros(size) for size in self.state_sizes)
        self._replaced: Mapping[str, Tensor] = {}

    @property
    def output_size(self) -> int:
        """The width of h."""
        return self.state_sizes[0]

    @abstractmethod
    def project(self, x: Tensor) -> Tensor:
        """All that needs no state, for every step at once: [T, B, I] -> [T, B, P]."""

    @abstractmethod
    def step(self, projected: Tensor, state: State) -> State:
        """One step: [B, P] and the state, to the next state."""

    def forward(
        self,
        x: Tensor,
        state: State | Tensor | None = None,
        lengths: Tensor | None = None,
        *,
        reverse: bool = False,
        carry: Tensor | None = None,
        batch_first: bool = False,
        backend: str = "auto",
    ) -> Result:
        """Run the cell through time: `scan` with this cell, and all of its options."""
        from throughtime.recurrence.scan import scan  # scan imports cells, so not at import time

        return scan(
            self, x, state, lengths, reverse=reverse, carry=carry, batch_first=batch_first, backend=backend
        )

    def initial_state(self, batch: int) -> State:
        """The state before the first step: zeros, or what was learned. Each [B, H]"""
        if len(self.learned_state):
            return tuple(learned.expand(batch, -1) for learned in self.learned_state)
        # The same as the first of all parameters in a quarter of the time, where the cell has one itself.
        own = (weight for weight in self._parameters.values() if weight is not None)
        like = next(own, None)
        if like is None:
            like = next(self.parameters())
        return tuple(like.new_zeros(batch, size) for size in self.state_sizes)

    def weights(self) -> dict[str, Tensor]:
        """The weights by name, or what stands in for them during one scan."""
        if self._modules:
            own = {name: weight for name, weight in self.named_parameters() if "learned_state" not in name}
        else:  # the same in a fifth of the time, and every scan asks more than once
            own = {name: weight for name, weight in self._parameters.items() if weight is not None}
        return {**own, **self._replaced}

    @contextlib.contextmanager
    def replacing(self, weights: Mapping[str, Tensor]) -> Iterator[None]:
        """Run with other weights inside the block: weight drop, for one."""
        if strange := set(weights) - set(self.weights()):
            raise unknown("weight", min(strange), self.weights())
        before, self._replaced = self._replaced, {**self._replaced, **weights}
        try:
            yield
        finally:
            self._replaced = before

    def extra_repr(self) -> str:
        """What `print(cell)` shows."""
        learned = ", initial='learned'" if len(self.learned_state) else ""
        return f"{self.input_size}, {self.hidden_size}{learned}"

    def reset_parameters(self) -> None:
        """Draw all weights from U(-1/sqrt(H), 1/sqrt(H)), as torch does."""
        bound = self.hidden_size**-0.5
        for weight in self.weights().values():
            nn.init.uniform_(weight, -bound, bound)
