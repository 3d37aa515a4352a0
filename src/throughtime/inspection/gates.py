"""What a cell's gates do at each step, read from the cell while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from throughtime.cells import GRU, LSTM, RNN, Cell, CoupledLSTM, MinGRU
from throughtime.errors import ThroughtimeError

# The activations of one step in the order in which the cell computes them; a name for each equal part.
_RECORDED: dict[type[Cell], tuple[tuple[str, ...], ...]] = {
    RNN: (("h",),),
    GRU: (("r", "z"), ("n",)),
    LSTM: (("f",), ("i",), ("g",), ("o",), ("tanh c",)),
    CoupledLSTM: (("f",), ("i",), ("g",), ("o",), ("tanh c",)),
    MinGRU: (("1 - z",), ("z",)),
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
    if type(cell) not in _RECORDED:
        raise ThroughtimeError(
            f"the gates of {type(cell).__name__} have no names yet: add them to {__name__}"
        )
    names = _RECORDED[type(cell)]
    state, rows = cell.initial_state(1), []
    with torch.no_grad():
        for projected in cell.project(x[:, None]):
            with _Recorder() as recorder:
                state = cell.step(projected, state)
            rows.append(_named(names, recorder.values) | dict(zip(("h", "c"), state, strict=False)))
    return {name: torch.cat([row[name] for row in rows]) for name in rows[0]}


def _named(names: tuple[tuple[str, ...], ...], values: list[Tensor]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for parts, value in zip(names, values, strict=True):
        found |= dict(zip(parts, value.chunk(len(parts), dim=-1), strict=True))
    return found
