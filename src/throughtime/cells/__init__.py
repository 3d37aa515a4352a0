"""One step of a recurrence, as equations. A new cell is one class and one line in CELLS."""

from collections.abc import Callable

from throughtime.cells.base import Cell, State
from throughtime.cells.elman import RNN
from throughtime.cells.gru import GRU
from throughtime.cells.initialise import scratch_, xavier_
from throughtime.cells.lstm import LSTM
from throughtime.cells.minimal import LinearCell, MinGRU, MinLSTM
from throughtime.cells.variants import CoupledLSTM, LayerNormLSTM, MogrifierLSTM, ProjectedLSTM
from throughtime.registry import Registry

CELLS = Registry[Callable[..., Cell]](
    "cell",
    "throughtime.cells",
    {
        "rnn": "throughtime.cells.elman:RNN",
        "rnn-relu": "throughtime.cells.elman:rnn_relu",
        "gru": "throughtime.cells.gru:GRU",
        "gru-before": "throughtime.cells.gru:gru_before",
        "lstm": "throughtime.cells.lstm:LSTM",
        "lstm-coupled": "throughtime.cells.variants:CoupledLSTM",
        "lstm-layernorm": "throughtime.cells.variants:LayerNormLSTM",
        "lstm-projected": "throughtime.cells.variants:half_projected",
        "lstm-mogrifier": "throughtime.cells.variants:MogrifierLSTM",
        "mingru": "throughtime.cells.minimal:MinGRU",
        "minlstm": "throughtime.cells.minimal:MinLSTM",
    },
)

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
