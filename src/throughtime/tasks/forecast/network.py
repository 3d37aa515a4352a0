"""Forecasters: they read a window of the past and forecast the next values, all at once or one by one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, pad

from throughtime.data.panel import Window
from throughtime.errors import InputError, unknown
from throughtime.layers.layer import check_probability
from throughtime.layers.stack import Stack
from throughtime.series.panels import PanelScaling
from throughtime.tasks.forecast.config import ForecastConfig
from throughtime.tasks.forecast.heads import ForecastHead, GaussianHead, PointHead, QuantileHead, StudentHead
from throughtime.tasks.forecast.pipeline import WindowLevel, WindowReading, check_horizon, roll_out
from throughtime.tasks.forecast.window_networks import (
    RecurrentNetwork,
    SegmentNetwork,
    WindowNetwork,
    apply_own_maps,
    join_columns,
    run_after_warm_up,
)

Built = TypeVar("Built")
NORMALISATIONS = ("none", "last", "mean", "standard")
HIGHWAYS = ("ridge", "trained", "none")
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

    def advance(self, reading: WindowReading, value: Tensor) -> WindowReading:
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
    series, with the number -1, has only the latter.
    """

    recursive = False
    margin: Tensor
    trust: Tensor
    own: Tensor | None

    def __init__(
        self,
        network: nn.Module,
        head: ForecastHead,
        lookback: int,
        horizon: int,
        normalise: str = "none",
        highway: str = "none",
        own_maps: int = 0,
    ) -> None:
        super().__init__(network, head, lookback, horizon, normalise)
        if highway not in HIGHWAYS:
            raise unknown("highway", highway, HIGHWAYS)
        self.highway = None if highway == "none" else nn.Linear(lookback, horizon)
        self.corrects = highway == "ridge"
        if self.highway is not None and self.corrects:
            self.highway.requires_grad_(False)
            self.spread = nn.Parameter(torch.zeros(horizon, head.width))
            self.register_buffer("margin", torch.zeros(horizon, head.width))
            self.register_buffer("trust", torch.ones(()))
        own = torch.zeros(own_maps, horizon, lookback) if own_maps and self.corrects else None
        self.register_buffer("own", own)

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
            outputs = outputs._replace(values=outputs.values + spread[:, None])
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
        own: Tensor | None = None,
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
        if self.own is not None and own is not None:
            self.own.copy_(own)
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

    def compute(self, window: Window[Tensor]) -> WindowReading:
        """Read a window: the outputs for all rows of the horizon."""
        outputs = self.forward(window)
        return WindowReading(outputs.values, outputs.level)


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

    def advance(self, reading: WindowReading, value: Tensor) -> WindowReading:
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

    def advance(self, reading: WindowReading, value: Tensor) -> WindowReading:
        """Update the state with a value."""
        state, known = reading.memory
        last, state = self.stack.step(self._inputs(value, known[0]), state)
        return WindowReading(self.readout(last), reading.level, (state, known[1:]))

    def _inputs(self, values: Tensor, known: Tensor) -> Tensor:
        """Join a value with the known columns of the next row."""
        return join_columns(values.unsqueeze(-1), known)


def build_forecaster(config: ForecastConfig, scaling: PanelScaling) -> Forecaster:
    """Build the network that a configuration describes."""
    head, recursive = _head(config), config.strategy == "recursive"
    sizes = {"width": head.width, "known": scaling.known_columns, "past": len(config.past)}

    def build(kind: Callable[..., Built], **arguments: Any) -> Built:
        return kind(**{**config.arguments_for(kind), **arguments})

    if config.model == "recurrent":
        inputs = 1 + sizes["known"] + sizes.pop("past")
        stack = Stack(
            config.cell, inputs, config.hidden_size, config.num_layers, dropout=config.hidden_dropout
        )
        shared = {"stack": stack, "warm_up": config.warm_up or 0}
        if recursive:
            return build(LatentAutoregression, head=head, **shared)
        network: nn.Module = build(RecurrentNetwork, **shared, **sizes)
    elif config.model == "segment":
        network = build(SegmentNetwork, series=scaling.numbered, **sizes)
    else:
        hidden_sizes = (config.hidden_size,) * config.num_layers if config.model == "mlp" else ()
        horizon = 1 if recursive else config.horizon
        network = build(WindowNetwork, horizon=horizon, hidden_sizes=hidden_sizes, **sizes)
    if recursive:
        return build(RecursiveForecaster, network=network, head=head)
    # A linear model is a linear map already.
    highway = "none" if config.model == "linear" else config.highway
    own_maps = scaling.numbered if config.channels == "own" else 0
    return build(DirectForecaster, network=network, head=head, highway=highway, own_maps=own_maps)


def _head(config: ForecastConfig) -> ForecastHead:
    if config.head == "point":
        return PointHead(config.loss)
    if config.head == "quantiles":
        return QuantileHead(config.probabilities)
    return GaussianHead() if config.head == "gaussian" else StudentHead()
