"""One step of a recurrence, as equations. A new cell is one class and one line in CELLS."""

from collections.abc import Callable
from functools import partial

from throughtime.cells.base import Cell, State
from throughtime.cells.elman import RNN
from throughtime.cells.gru import GRU
from throughtime.cells.initialise import scratch_, xavier_
from throughtime.cells.lstm import LSTM
from throughtime.cells.minimal import LinearCell, MinGRU, MinLSTM
from throughtime.cells.variants import CoupledLSTM, LayerNormLSTM, MogrifierLSTM, ProjectedLSTM


def _half_projected(input_size: int, hidden_size: int, *, initial: str = "zero") -> ProjectedLSTM:
    """A projection to half the units, so that it can be chosen by name like the others."""
    return ProjectedLSTM(input_size, hidden_size, max(1, hidden_size // 2), initial=initial)


CELLS: dict[str, Callable[..., Cell]] = {
    "rnn": RNN,
    "rnn-relu": partial(RNN, activation="relu"),
    "gru": GRU,
    "gru-before": partial(GRU, reset="before"),
    "lstm": LSTM,
    "lstm-coupled": CoupledLSTM,
    "lstm-layernorm": LayerNormLSTM,
    "lstm-projected": _half_projected,
    "lstm-mogrifier": MogrifierLSTM,
    "mingru": MinGRU,
    "minlstm": MinLSTM,
}

__all__ = [
    "CELLS",
    "GRU",
    "LSTM",
    "RNN",
    "Cell",
    "CoupledLSTM",
    "LayerNormLSTM",
    "LinearCell",
    "MinGRU",
    "MinLSTM",
    "MogrifierLSTM",
    "ProjectedLSTM",
    "State",
    "scratch_",
    "xavier_",
]
