"""throughtime: recurrent sequence models, from raw sequences to a served model.

>>> import throughtime as tt
>>> tt.Vocabulary.build(["to", "be", "or", "not", "to", "be"])[["be", "brave"]]
[2, 0]

The names below are imported when they are first used, so that `import throughtime` costs nothing. Counted
models are in `throughtime.ngram`, and measures in `throughtime.metrics`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from throughtime.lazy import import_lazily
from throughtime.version import __version__ as __version__

if "OMP_WAIT_POLICY" not in os.environ:
    # torch reads it when it is imported. Its threads wait for each other in each operation, by default in a
    # busy loop: if another program uses one of their cores, that loop takes the time that the other thread
    # needs. After this number of turns a thread sleeps instead.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

if TYPE_CHECKING:
    from throughtime import metrics as metrics
    from throughtime import ngram as ngram
    from throughtime import plots as plots
    from throughtime import runtime as runtime
    from throughtime.api import Model as Model
    from throughtime.api import export as export
    from throughtime.api import import_arpa as import_arpa
    from throughtime.api import load as load
    from throughtime.api import train as train
    from throughtime.cells import GRU as GRU
    from throughtime.cells import LSTM as LSTM
    from throughtime.cells import RNN as RNN
    from throughtime.cells import Cell as Cell
    from throughtime.cells import MinGRU as MinGRU
    from throughtime.cells import MinLSTM as MinLSTM
    from throughtime.data.datasets import open_dataset as open_dataset
    from throughtime.errors import InputError as InputError
    from throughtime.layers.stack import Stack as Stack
    from throughtime.recurrence.scan import scan as scan
    from throughtime.search.generate import generate as generate
    from throughtime.tasks.interpolation import interpolate as interpolate
    from throughtime.text.tokenizer import tokenizer as tokenizer
    from throughtime.text.vocabulary import Vocabulary as Vocabulary

__all__, __getattr__, __dir__ = import_lazily(
    __name__,
    {
        "api": "Model export import_arpa load train",
        "cells": "Cell GRU LSTM MinGRU MinLSTM RNN",
        "data.datasets": "open_dataset",
        "errors": "InputError",
        "layers.stack": "Stack",
        "recurrence": "scan",
        "search.generate": "generate",
        "tasks.interpolation": "interpolate",
        "text.tokenizer": "tokenizer",
        "text.vocabulary": "Vocabulary",
    },
    modules=("metrics", "ngram", "plots", "runtime"),
)
