"""What a cell's gates do at each step, read from the cell while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from throughtime.cells.base import Cell, State
from throughtime.errors import InputError

_ACTIVATIONS = (
    *(torch.sigmoid, torch.tanh, torch.relu),
    *(Tensor.sigmoid, Tensor.tanh, Tensor.relu),
    *(functional.sigmoid, functional.tanh, functional.relu),
)


class _Recorder(TorchFunctionMode):
    """Keep what sigmoid, tanh and relu give while a cell steps: its equations are written only once."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[Tensor] = []

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), options: Any = None
    ) -> Any:
        value = function(*args, **(options or {}))
        if function in _ACTIVATIONS:
            self.values.append(value)
        return value


def gates(cell: Cell, x: Tensor) -> dict[str, Tensor]:
    """Every gate, candidate and state of one sequence x [T, I], by the letter of the equations: each [T, H].

    >>> from throughtime.cells import GRU
    >>> sorted(gates(GRU(3, 5), torch.zeros(7, 3)))
    ['h', 'n', 'r', 'z']
    """
    state, rows = cell.initial_state(1), []
    with torch.no_grad():
        for projected in cell.project(x[:, None]):
            state, found = step_gates(cell, projected, state)
            rows.append(found)
    return {name: torch.cat([row[name] for row in rows]) for name in rows[0]}


def step_gates(cell: Cell, projected: Tensor, state: State) -> tuple[State, dict[str, Tensor]]:
    """The next state, and the values of the step that led to it, by their letters: each [B, H].

    For a cell that declares no `activations`, these are only its states.
    """
    with _Recorder() as recorder:
        reached = type(cell).step(cell, projected, state)
    values = _named(cell, recorder.values, len(projected)) if cell.activations else {}
    return reached, values | dict(zip(("h", "c"), reached, strict=False))


def _named(cell: Cell, values: list[Tensor], batch: int) -> dict[str, Tensor]:
    if len(cell.activations) != len(values):
        raise InputError(
            type(cell).__name__,
            f"declares {len(cell.activations)} activations, but its step calls sigmoid, tanh and relu "
            f"{len(values)} times; name each call in `activations`, with () for a result that is not shown",
        )
    found: dict[str, Tensor] = {}
    for parts, value in zip(cell.activations, values, strict=True):
        if parts:
            rows = value.expand(batch, -1)  # a gate that depends on neither input nor state has one row
            found |= dict(zip(parts, rows.chunk(len(parts), dim=-1), strict=True))
    return found
