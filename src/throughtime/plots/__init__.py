"""Pictures of data and results; matplotlib is imported only when a picture is drawn."""

from throughtime.plots.attention import attention_plot
from throughtime.plots.beam import beam_plot
from throughtime.plots.complexity import complexity_plot
from throughtime.plots.drift import drift_plot
from throughtime.plots.embedding import embedding_plot
from throughtime.plots.forecast import backtest_plot, forecast_plot, horizon_plot
from throughtime.plots.gates import gates_plot
from throughtime.plots.gradients import gradients_plot
from throughtime.plots.graph import graph_plot
from throughtime.plots.learning import learning_plot, rate_plot
from throughtime.plots.segments import segments_plot, truncation_plot
from throughtime.plots.unit_gates import layer_plot, remembering_plot
from throughtime.plots.zipf import zipf_plot

__all__ = [
    "attention_plot",
    "backtest_plot",
    "beam_plot",
    "complexity_plot",
    "drift_plot",
    "embedding_plot",
    "forecast_plot",
    "gates_plot",
    "gradients_plot",
    "graph_plot",
    "horizon_plot",
    "layer_plot",
    "learning_plot",
    "rate_plot",
    "remembering_plot",
    "segments_plot",
    "truncation_plot",
    "zipf_plot",
]
