"""Figures of data, models and results: functions return a matplotlib `Figure`; `path=` also writes it.

matplotlib is imported when a figure is drawn, not before; the extra `plot` installs it.
"""

from throughtime.plots.backpropagation import complexity as complexity
from throughtime.plots.backpropagation import gradients as gradients
from throughtime.plots.backpropagation import truncation as truncation
from throughtime.plots.diagrams import beam as beam
from throughtime.plots.diagrams import graph as graph
from throughtime.plots.forecasts import backtest as backtest
from throughtime.plots.forecasts import forecast as forecast
from throughtime.plots.forecasts import forecast_error as forecast_error
from throughtime.plots.heatmaps import attention as attention
from throughtime.plots.heatmaps import keep_gates as keep_gates
from throughtime.plots.heatmaps import layer_gates as layer_gates
from throughtime.plots.learning import learning_curve as learning_curve
from throughtime.plots.learning import learning_rates as learning_rates
from throughtime.plots.series import drift as drift
from throughtime.plots.series import k_steps as k_steps
from throughtime.plots.words import embedding as embedding
from throughtime.plots.words import positions as positions
from throughtime.plots.words import zipf as zipf
