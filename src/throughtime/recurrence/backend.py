"""What a backend is: one way of running a cell through time."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor

from throughtime.cells.base import Cell, State


class Result(NamedTuple):
    """The outputs of all steps and the state after the last one of each row."""

    outputs: Tensor  # [T, B, H], zero past a row's length
    state: State  # each [B, ...], as it was at the row's last step


class Backend(Protocol):
    """One way of running a cell through time. Pure: no dropout, no randomness, no training flag."""

    name: str

    def refuses(self, cell: Cell, x: Tensor, lengths: Tensor | None, carry: Tensor | None) -> str | None:
        """Why it cannot serve this, in words; None where it can."""
        ...

    def run(
        self, cell: Cell, x: Tensor, state: State, lengths: Tensor | None, carry: Tensor | None
    ) -> Result:
        """All steps of x [T, B, I] from left to right."""
        ...
