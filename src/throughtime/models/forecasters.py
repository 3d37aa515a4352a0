"""Forecasters: they read a window of the past and forecast the next values, all at once or one by one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from throughtime.cells.base import Ops
from throughtime.data.panel import Window
from throughtime.errors import InputError
from throughtime.models.forecast_heads import ForecastHead
from throughtime.models.window_networks import GraphWindow, apply_own_maps, graph_horizon
from throughtime.runtime.forecast import WindowLevel, WindowReading, check_horizon, roll_out

NORMALISATIONS = ("none", "last", "mean", "standard")
MIN_SPREAD = 0.01
"""Minimum spread, in units of the whole series, so that a nearly constant window does not amplify noise."""


class HeadOutputs(NamedTuple):
    """The outputs for the rows from `first` on, [rows, B, head.width], for normalised values."""

    first: int
    values: Tensor
    level: WindowLevel


class Forecaster(nn.Module):
    """The base class: `forward` is for training, `rollout` for forecasting.

    `normalise` subtracts the last value of the past (`last`), or its mean (`mean`), from a window and adds it
    to the forecast, so that levels not seen in training are no problem; `standard` also divides by the
    deviation, for series whose variation grows with their level.
    """

    recursive: bool

    def __init__(self, head: ForecastHead, lookback: int, horizon: int, normalise: str = "none") -> None:
        super().__init__()
        if normalise not in NORMALISATIONS:
            raise InputError("normalise", f"is {normalise!r}, expected {', '.join(NORMALISATIONS)}")
        self.head, self.lookback, self.horizon, self.normalise = head, lookback, horizon, normalise
        self.trained_rows = horizon  # rows after the look-back in a training window
        self.loss_rows = horizon  # rows at the end of a training window that have a loss

    @abstractmethod
    def forward(self, window: Window[Tensor]) -> HeadOutputs:
        """Return the outputs for rows of the window, each predicted from the true values before it."""

    @abstractmethod
    def compute(self, window: Window[Tensor]) -> WindowReading:
        """Read a window of `lookback` rows: the outputs for the next row, or for all rows of the horizon."""

    def read_row(self, reading: WindowReading, value: Tensor) -> WindowReading:
        """Read the value [B], normalised, that was chosen for the next row."""
        raise NotImplementedError(f"{type(self).__name__} forecasts the whole horizon at once")

    def rollout(self, window: Window[Tensor], h: int, choose: Callable[[Tensor], Tensor]) -> Tensor:
        """Forecast the next `h` values [h, B]; `choose` gives one for the outputs of each."""
        check_horizon(self, h)
        if self.recursive:
            return torch.stack(roll_out(self, window, h, lambda outputs, step: choose(outputs)))
        reading = self.compute(window)
        values: Tensor = reading.level.restore(choose(reading.outputs))
        return values[:h]

    def level(self, values: Tensor) -> WindowLevel:
        """Measure the level of each series on past values [T, B]."""
        if self.normalise == "none":
            return WindowLevel(None, None)
        offset = values[-1] if self.normalise == "last" else values.mean(0)
        if self.normalise != "standard":
            return WindowLevel(offset, None)
        return WindowLevel(offset, (values - offset).square().mean(0).sqrt().clamp(min=MIN_SPREAD))

    def graph_level(self, ops: Ops, values: str) -> tuple[str, str]:
        """Return in a graph what is subtracted from past values [T, B], and what they are divided by."""
        last = ops.op("Gather", values, ops.constant(-1, "int64"), axis=0)
        zeros = ops.op("Mul", last, ops.constant(0.0))
        offset, spread = zeros, ops.op("Add", zeros, ops.constant(1.0))
        if self.normalise == "last":
            offset = last
        elif self.normalise != "none":
            offset = ops.op("ReduceMean", values, ops.axes(0), keepdims=0)
        if self.normalise == "standard":
            away = ops.op("Sub", values, offset)
            square = ops.op("ReduceMean", ops.op("Mul", away, away), ops.axes(0), keepdims=0)
            spread = ops.op("Max", ops.op("Sqrt", square), ops.constant(MIN_SPREAD))
        return offset, spread


class NetworkForecaster(Forecaster):
    """The base class of forecasters with a network from a look-back window to [rows, B, width]."""

    def __init__(
        self, network: nn.Module, head: ForecastHead, lookback: int, horizon: int, normalise: str = "none"
    ) -> None:
        super().__init__(head, lookback, horizon, normalise)
        self.network = network
        if self.recursive:
            self.trained_rows = self.loss_rows = 1

    def forward(self, window: Window[Tensor]) -> HeadOutputs:
        """Return the outputs of the rows after the look-back."""
        values = window.values[: self.lookback]
        level = self.level(values)
        known = window.known[: self.lookback + self.trained_rows]
        seen = Window(level.remove(values), known, window.past[: self.lookback], window.numbers)
        return HeadOutputs(self.lookback, self.network(seen), level)

    def graph(self, ops: Ops, window: GraphWindow) -> str:
        """Return the outputs of normalised values in a graph, [rows, B, width]."""
        outputs: str = self.network.graph(ops, window, self.lookback)  # type: ignore[operator]
        return outputs


class DirectForecaster(NetworkForecaster):
    """Forecasts all rows of the horizon at once.

    With a `highway`, a linear map of the window is added, and the network learns the residual: on short
    series a network alone learns the season late or never. The map is `trained` with the network, or is a
    `ridge` regression, which `start_from` sets and training does not change. The network then begins at zero,
    so that the first forecasts are those of the regression, with the spread of its errors. Out of training,
    the centre of a forecast is moved by `trust` times the correction of the network; validation chooses that
    share, from 0, the regression itself, to 1. Out of training, the spread also has a `margin`, as errors
    of the windows that a map was fitted to are too small.

    With `own_maps`, each of that many series has a map of its own, added to the one that all share. A new
    series, with the number -1, has only the latter. With `own_spreads`, the spread is each series' own, too.
    """

    recursive = False
    margin: Tensor
    trust: Tensor
    own: Tensor | None
    own_spread: Tensor | None

    def __init__(
        self,
        network: nn.Module,
        head: ForecastHead,
        lookback: int,
        horizon: int,
        normalise: str = "none",
        highway: str = "none",
        own_maps: int = 0,
        own_spreads: bool = False,
    ) -> None:
        super().__init__(network, head, lookback, horizon, normalise)
        self.highway = None if highway == "none" else nn.Linear(lookback, horizon)
        self.corrects = highway == "ridge"
        if self.highway is not None and self.corrects:
            self.highway.requires_grad_(False)
            self.spread = nn.Parameter(torch.zeros(horizon, head.width))
            self.register_buffer("margin", torch.zeros(horizon, head.width))
            self.register_buffer("trust", torch.ones(()))
        changes = torch.zeros(own_maps, horizon, lookback) if own_maps and self.corrects else None
        self.register_buffer("own", changes)
        spreads = torch.zeros(own_maps, horizon, head.width) if own_spreads and own_maps else None
        self.register_buffer("own_spread", spreads)

    def forward(self, window: Window[Tensor]) -> HeadOutputs:
        """Return the outputs of the horizon."""
        outputs, centre = self.split_outputs(window)
        if centre is None:
            return outputs
        trust = self.trust if self.corrects and not self.training else None
        return outputs._replace(values=self.join_outputs(outputs.values, centre, trust))

    def split_outputs(self, window: Window[Tensor]) -> tuple[HeadOutputs, Tensor | None]:
        """Return the outputs of the network, and the linear map [horizon, B] if there is one."""
        outputs = super().forward(window)
        if self.highway is None:
            return outputs, None
        if self.corrects:
            spread = self.spread if self.training else self.spread + self.margin
            if self.own_spread is not None:
                ones, flat = window.values.new_ones(window.values.shape[1], 1), self.own_spread.flatten(1)
                change = apply_own_maps(flat.unsqueeze(-1), ones, window.numbers)
                spread = spread + change.view(-1, *spread.shape)
            outputs = outputs._replace(
                values=outputs.values + spread.view(-1, *spread.shape[-2:]).transpose(0, 1)
            )
        return outputs, self.map_linearly(
            outputs.level.remove(window.values[: self.lookback]), window.numbers
        )

    def map_linearly(self, past: Tensor, numbers: Tensor) -> Tensor:
        """Return the linear forecasts [horizon, B] of normalised values [lookback, B] of these series."""
        assert self.highway is not None
        centre: Tensor = self.highway(past.T)
        return (centre if self.own is None else centre + apply_own_maps(self.own, past.T, numbers)).T

    def join_outputs(self, outputs: Tensor, centre: Tensor, trust: Tensor | None) -> Tensor:
        """Add the linear map to the outputs, whose centre counts with the weight `trust`; None: fully."""
        before, after = self.head.centre, self.head.width - self.head.centre - 1
        if trust is not None:
            outputs = outputs * pad(trust.reshape(1), (before, after), value=1.0)
        return outputs + pad(centre.unsqueeze(-1), (before, after))

    @torch.no_grad()
    def start_from(
        self,
        weights: Tensor,
        blocks: Iterable[tuple[Tensor, Tensor]],
        changes: Tensor | None = None,
        squares: Tensor | None = None,
    ) -> None:
        """Begin with a linear map [horizon, lookback] of normalised values, and the errors of these windows.

        A block has scaled windows [lookback + horizon, n] and the numbers of their series; `own` is added to
        the map of each series, [series, horizon, lookback]. The map was fitted to these windows, so their
        errors are smaller than those of forecasts, whose mean squares are `squares` [horizon].
        """
        assert self.highway is not None
        assert self.corrects
        self.highway.weight.copy_(weights)
        self.highway.bias.zero_()
        if self.own is not None and changes is not None:
            self.own.copy_(changes)
        last: nn.Linear = self.network.output_layer  # type: ignore[assignment]
        last.weight.zero_()
        last.bias.zero_()
        errors = []
        for windows, numbers in blocks:
            level = self.level(windows[: self.lookback])
            past, true = level.remove(windows).split([self.lookback, self.horizon])
            errors.append(true - self.map_linearly(past, numbers))
        known = torch.cat(errors, dim=1)
        self.spread.copy_(self.head.outputs_of(known))
        if squares is not None:
            wider = (squares / known.square().mean(1).clamp(min=1e-12)).clamp(min=1).sqrt()
            self.margin.copy_(self.head.outputs_of(known * wider[:, None]) - self.spread)

    @torch.no_grad()
    def set_maps(self, maps: Tensor, spreads: Tensor) -> None:
        """Take the map [series, horizon, lookback] of each series, and its outputs with the centre 0.

        A new series has the mean of both.
        """
        assert self.highway is not None
        self.highway.weight.copy_(maps.mean(0))
        self.highway.bias.zero_()
        self.spread.copy_(spreads.mean(0))
        if self.own is not None and self.own_spread is not None:
            self.own.copy_(maps - maps.mean(0))
            self.own_spread.copy_(spreads - spreads.mean(0))

    def compute(self, window: Window[Tensor]) -> WindowReading:
        """Read a window: the outputs for all rows of the horizon."""
        outputs = self.forward(window)
        return WindowReading(outputs.values, outputs.level)

    def graph(self, ops: Ops, window: GraphWindow) -> str:
        """Return the outputs of normalised values in a graph, [horizon, B, width]."""
        outputs, width = super().graph(ops, window), self.head.width
        if self.highway is None:
            return outputs
        centre = ops.op("Transpose", self._graph_map(ops, window))
        padding = ops.axes(0, 0, self.head.centre, 0, 0, width - self.head.centre - 1)
        centre = ops.op("Pad", ops.op("Unsqueeze", centre, ops.axes(-1)), padding)
        if self.corrects:
            outputs = ops.op("Add", outputs, ops.weight((self.spread + self.margin).unsqueeze(1)))
            if self.own_spread is not None:
                numbers = ops.op("Max", window.numbers, ops.constant(0, "int64"))
                change = ops.lookup(self.own_spread.flatten(1), numbers)
                new = ops.op(
                    "Unsqueeze", ops.op("Less", window.numbers, ops.constant(0, "int64")), ops.axes(-1)
                )
                change = ops.op("Where", new, ops.constant(0.0), change)
                outputs = ops.op("Add", outputs, graph_horizon(ops, change, self.horizon, width))
            shares = [float(self.trust) if place == self.head.centre else 1.0 for place in range(width)]
            outputs = ops.op("Mul", outputs, ops.constant(shares))
        return ops.op("Add", outputs, centre)

    def _graph_map(self, ops: Ops, window: GraphWindow) -> str:
        """Return the linear forecasts [B, horizon] of `map_linearly` in a graph."""
        assert self.highway is not None
        flat = ops.op("Transpose", window.values)
        centre: str = ops.linear(flat, self.highway.weight, self.highway.bias)
        if self.own is None:
            return centre
        zero = ops.constant(0, "int64")
        numbers = ops.op("Unsqueeze", window.numbers, ops.axes(-1))
        first = ops.op("Mul", ops.op("Max", numbers, zero), ops.axes(self.horizon))
        rows = ops.lookup(self.own.flatten(0, 1), ops.op("Add", first, ops.axes(*range(self.horizon))))
        change = ops.op("MatMul", rows, ops.op("Unsqueeze", flat, ops.axes(-1)))
        change = ops.op("Squeeze", change, ops.axes(-1))
        change = ops.op("Where", ops.op("Less", numbers, zero), ops.constant(0.0), change)
        return ops.op("Add", centre, change)
