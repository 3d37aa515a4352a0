"""What a cell's gates do at each step, read from the cell while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from throughtime.cells import (
    GRU,
    LSTM,
    RNN,
    Cell,
    CoupledLSTM,
    LayerNormLSTM,
    MinGRU,
    MinLSTM,
    ProjectedLSTM,
    State,
)
from throughtime.errors import ThroughtimeError

# The activations of one step in the order in which the cell computes them; a name for each equal part.
_RECORDED: dict[type[Cell], tuple[tuple[str, ...], ...]] = {
    RNN: (("h",),),
    GRU: (("r", "z"), ("n",)),
    LSTM: (("f",), ("i",), ("g",), ("o",), ("tanh c",)),
    CoupledLSTM: (("f",), ("i",), ("g",), ("o",), ("tanh c",)),
    LayerNormLSTM: (("f",), ("i",), ("g",), ("o",), ("tanh c",)),
    ProjectedLSTM: (("f",), ("i",), ("g",), ("o",), ("tanh c",)),
    MinGRU: (("1 - z",), ("z",)),
    MinLSTM: (("f",), ("i",)),
}
_KEEPS: dict[type[Cell], str] = {
    **dict.fromkeys((LSTM, CoupledLSTM, LayerNormLSTM, ProjectedLSTM, MinLSTM), "f"),
    GRU: "z",
    MinGRU: "1 - z",
}
_ACTIVATIONS = (torch.sigmoid, torch.tanh, torch.relu)


class _Recorder(TorchFunctionMode):
    """Keep what sigmoid and tanh give while a cell takes a step: its equations are written only once."""

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
    """The next state, and the values of the step that led to it, by their letters: each [B, H]."""
    if type(cell) not in _RECORDED:
        raise ThroughtimeError(
            f"the gates of {type(cell).__name__} have no names yet: add them to {__name__}"
        )
    with _Recorder() as recorder:
        reached = type(cell).step(cell, projected, state)
    values = _named(_RECORDED[type(cell)], recorder.values)
    return reached, values | dict(zip(("h", "c"), reached, strict=False))


def keeping_gate(cell: Cell) -> str | None:
    """The letter of the gate that multiplies the old state; None where a cell has none.

    >>> keeping_gate(GRU(3, 5)), keeping_gate(LSTM(3, 5)), keeping_gate(RNN(3, 5))
    ('z', 'f', None)
    """
    return _KEEPS.get(type(cell))


def _named(names: tuple[tuple[str, ...], ...], values: list[Tensor]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for parts, value in zip(names, values, strict=True):
        found |= dict(zip(parts, value.chunk(len(parts), dim=-1), strict=True))
    return found
