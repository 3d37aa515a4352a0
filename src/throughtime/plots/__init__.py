"""Figures of data, models and results: functions return a matplotlib `Figure`; `path=` also writes it.

matplotlib is imported when a figure is drawn, not before; `pip install 'throughtime[plot]'` installs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "attention": "heatmaps",
    "backtest": "forecasts",
    "beam": "diagrams",
    "complexity": "backpropagation",
    "drift": "series",
    "embedding": "words",
    "forecast": "forecasts",
    "forecast_error": "forecasts",
    "gates": "heatmaps",
    "gradients": "backpropagation",
    "graph": "diagrams",
    "k_steps": "series",
    "keep_gates": "heatmaps",
    "layer_gates": "heatmaps",
    "learning_curve": "learning",
    "learning_rates": "learning",
    "positions": "words",
    "segments": "backpropagation",
    "truncation": "backpropagation",
    "zipf": "words",
}

__all__ = [*_HOME]  # noqa: PLE0604 - the names are the table's

if TYPE_CHECKING:
    from throughtime.plots.backpropagation import complexity as complexity
    from throughtime.plots.backpropagation import gradients as gradients
    from throughtime.plots.backpropagation import segments as segments
    from throughtime.plots.backpropagation import truncation as truncation
    from throughtime.plots.diagrams import beam as beam
    from throughtime.plots.diagrams import graph as graph
    from throughtime.plots.forecasts import backtest as backtest
    from throughtime.plots.forecasts import forecast as forecast
    from throughtime.plots.forecasts import forecast_error as forecast_error
    from throughtime.plots.heatmaps import attention as attention
    from throughtime.plots.heatmaps import gates as gates
    from throughtime.plots.heatmaps import keep_gates as keep_gates
    from throughtime.plots.heatmaps import layer_gates as layer_gates
    from throughtime.plots.learning import learning_curve as learning_curve
    from throughtime.plots.learning import learning_rates as learning_rates
    from throughtime.plots.series import drift as drift
    from throughtime.plots.series import k_steps as k_steps
    from throughtime.plots.words import embedding as embedding
    from throughtime.plots.words import positions as positions
    from throughtime.plots.words import zipf as zipf


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'throughtime.plots' has no attribute {name!r}")
    return getattr(importlib.import_module(f"throughtime.plots.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
