"""throughtime: recurrent sequence models, from raw sequences to a served model.

>>> import throughtime as tt
>>> tt.Vocabulary.build(["to", "be", "or", "not", "to", "be"])[["be", "brave"]]
[2, 0]

The names below are imported when they are first used, so that `import throughtime` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from throughtime.version import __version__ as __version__

_HOME = {
    name: f"throughtime.{module}"
    for module, names in {
        "api": "Model export import_arpa load train",
        "cells": "Cell GRU LSTM MinGRU MinLSTM RNN",
        "data.datasets": "open_dataset",
        "errors": "InputError",
        "layers.stack": "Stack",
        "metrics.bleu": "corpus_bleu",
        "metrics.measures": "Likelihood",
        "metrics.sentence_bleu": "notes_bleu",
        "ngram.counts": "NgramCounts",
        "ngram.markov": "MarkovChain",
        "ngram.model": "NgramModel",
        "recurrence": "scan",
        "search.generate": "generate",
        "tasks.interpolation": "interpolate",
        "text.codec": "Codec",
        "text.tokenizer": "tokenizer",
        "text.vocabulary": "Vocabulary",
    }.items()
    for name in names.split()
}

__all__ = [*_HOME]  # noqa: PLE0604 - the names are the table's

if TYPE_CHECKING:
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
    from throughtime.metrics.bleu import corpus_bleu as corpus_bleu
    from throughtime.metrics.measures import Likelihood as Likelihood
    from throughtime.metrics.sentence_bleu import notes_bleu as notes_bleu
    from throughtime.ngram.counts import NgramCounts as NgramCounts
    from throughtime.ngram.markov import MarkovChain as MarkovChain
    from throughtime.ngram.model import NgramModel as NgramModel
    from throughtime.recurrence.scan import scan as scan
    from throughtime.search.generate import generate as generate
    from throughtime.tasks.interpolation import interpolate as interpolate
    from throughtime.text.codec import Codec as Codec
    from throughtime.text.tokenizer import tokenizer as tokenizer
    from throughtime.text.vocabulary import Vocabulary as Vocabulary


def __getattr__(name: str) -> Any:
    if name in ("plots", "runtime"):
        return importlib.import_module(f"throughtime.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'throughtime' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
