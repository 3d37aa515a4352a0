"""One step of a recurrence, as equations. A new cell is one class and one line in CELLS.

The classes below are imported when they are first used.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from throughtime.registry import Registry

if TYPE_CHECKING:
    from throughtime.cells.base import Cell as Cell
    from throughtime.cells.base import State as State
    from throughtime.cells.elman import RNN as RNN
    from throughtime.cells.gru import GRU as GRU
    from throughtime.cells.initial import scratch_ as scratch_
    from throughtime.cells.initial import xavier_ as xavier_
    from throughtime.cells.lstm import LSTM as LSTM
    from throughtime.cells.minimal import LinearCell as LinearCell
    from throughtime.cells.minimal import MinGRU as MinGRU
    from throughtime.cells.minimal import MinLSTM as MinLSTM
    from throughtime.cells.variants import CoupledLSTM as CoupledLSTM
    from throughtime.cells.variants import LayerNormLSTM as LayerNormLSTM
    from throughtime.cells.variants import MogrifierLSTM as MogrifierLSTM
    from throughtime.cells.variants import ProjectedLSTM as ProjectedLSTM

CELLS = Registry[Callable[..., "Cell"]](
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
        "lstm-projected": "throughtime.cells.variants:build_half_projected",
        "lstm-mogrifier": "throughtime.cells.variants:MogrifierLSTM",
        "mingru": "throughtime.cells.minimal:MinGRU",
        "minlstm": "throughtime.cells.minimal:MinLSTM",
    },
)

FORMS = {
    "rnn-relu": "rnn",
    "gru-before": "gru",
    "mingru": "gru",
    "lstm-coupled": "lstm",
    "lstm-layernorm": "lstm",
    "lstm-projected": "lstm",
    "lstm-mogrifier": "lstm",
    "minlstm": "lstm",
}
"""Cells that are forms of another one, which stands for them where `inspect` compares all cells."""


def __getattr__(name: str) -> Any:
    for module, names in (
        ("base", ("Cell", "State")),
        ("elman", ("RNN",)),
        ("gru", ("GRU",)),
        ("initial", ("scratch_", "xavier_")),
        ("lstm", ("LSTM",)),
        ("minimal", ("LinearCell", "MinGRU", "MinLSTM")),
        ("variants", ("CoupledLSTM", "LayerNormLSTM", "MogrifierLSTM", "ProjectedLSTM")),
    ):
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
