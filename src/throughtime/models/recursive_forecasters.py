"""Forecasters that forecast one row at a time, from their own forecasts of the rows before it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from throughtime.cells.base import GraphState, Ops
from throughtime.data.panel import Window
from throughtime.errors import InputError
from throughtime.layers.layer import check_probability
from throughtime.layers.stack import Stack
from throughtime.models.forecast_heads import ForecastHead
from throughtime.models.forecasters import Forecaster, HeadOutputs, NetworkForecaster
from throughtime.models.window_networks import GraphWindow, graph_columns, join_columns, run_after_warm_up
from throughtime.runtime.forecast import WindowReading


class RecursiveForecaster(NetworkForecaster):
    """Forecasts one row at a time; each forecast enters the window of the next.

    The network is trained to forecast the next row only.
    """

    recursive = True

    def compute(self, window: Window[Tensor]) -> WindowReading:
        """Read a window: the outputs for the next row."""
        window = window._replace(values=window.values[: self.lookback])
        outputs = self.forward(window)
        return WindowReading(outputs.values[0], outputs.level, (window, outputs.level))

    def read_row(self, reading: WindowReading, value: Tensor) -> WindowReading:
        """Move the window on by a row, which has this value."""
        window, level = reading.memory
        values = torch.cat([window.values[1:], level.restore(value).unsqueeze(0)])
        return self.compute(window._replace(values=values, known=window.known[1:]))


class LatentAutoregression(Forecaster):
    r"""A recurrent state summarises the past, and forecasts one row at a time.

    .. math:: h_t = g(h_{t-1}, x_{t-1}), \quad x_t \sim p(\cdot | h_t)

    In training every row after the `warm_up` has a loss. The rows of the warm-up only prepare the state, and
    gradients do not flow back through them unless `warm_up_gradient` is set. The level for `normalise` is
    measured on the warm-up, so that no row depends on its future.
    """

    recursive = True

    def __init__(
        self,
        stack: Stack,
        head: ForecastHead,
        lookback: int,
        horizon: int,
        normalise: str = "none",
        *,
        warm_up: int = 0,
        warm_up_gradient: bool = False,
        output_dropout: float = 0.0,
    ) -> None:
        super().__init__(head, lookback, horizon, normalise)
        if warm_up > lookback:
            raise InputError("warm_up", f"is {warm_up}, more than the look-back of {lookback}")
        self.stack, self.warm_up = stack, max(1, warm_up)  # the first row has nothing before it
        self.warm_up_gradient = warm_up_gradient
        self.output_dropout = check_probability("output_dropout", output_dropout)
        self.readout = nn.Linear(stack.output_size, head.width)
        self.loss_rows = lookback + horizon - self.warm_up

    def forward(self, window: Window[Tensor]) -> HeadOutputs:
        """Return the outputs of each row after the warm-up."""
        skipped = self.warm_up - 1
        level = self.level(window.values[: self.warm_up])
        inputs = self._inputs(level.remove(window.values[:-1]), window.known[1 : len(window.values)])
        outputs, _ = run_after_warm_up(self.stack, inputs, skipped, self.warm_up_gradient)
        dropped = dropout(outputs, self.output_dropout, self.training)
        return HeadOutputs(self.warm_up, self.readout(dropped), level)

    def compute(self, window: Window[Tensor]) -> WindowReading:
        """Read a window: the outputs for the next row, the state, and the columns of the rows after it."""
        values, known = window.values[: self.lookback], window.known
        level = self.level(values[: self.warm_up])
        outputs, state = self.stack(self._inputs(level.remove(values), known[1 : len(values) + 1]))
        return WindowReading(self.readout(outputs[-1]), level, (state, known[len(values) + 1 :]))

    def read_row(self, reading: WindowReading, value: Tensor) -> WindowReading:
        """Update the state with a value."""
        state, known = reading.memory
        last, state = self.stack.step(self._inputs(value, known[0]), state)
        return WindowReading(self.readout(last), reading.level, (state, known[1:]))

    def _inputs(self, values: Tensor, known: Tensor) -> Tensor:
        """Join a value with the known columns of the next row."""
        return join_columns(values.unsqueeze(-1), known)

    def graph(self, ops: Ops, window: GraphWindow) -> tuple[str, GraphState]:
        """Return the outputs for the next row, [B, width], and the state, of normalised values in a graph."""
        outputs, state = self.stack.graph(ops, graph_columns(ops, window, self.lookback))
        return self._graph_readout(ops, ops.op("Gather", outputs, ops.constant(-1, "int64"), axis=0)), state

    def graph_step(self, ops: Ops, columns: str, state: GraphState) -> tuple[str, GraphState]:
        """Return the same after a row more, from its value and known columns [B, 1 + K]."""
        last, reached = self.stack.graph_step(ops, columns, state)
        return self._graph_readout(ops, last), reached

    def _graph_readout(self, ops: Ops, last: str) -> str:
        outputs: str = ops.linear(last, self.readout.weight, self.readout.bias)
        return outputs
