"""From the settings of a forecaster to its scales, its network and its training rows."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from throughtime.data.panel import Panel
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.layers.stack import Stack
from throughtime.series.panels import PanelScaling
from throughtime.tasks.forecast.config import ForecastConfig
from throughtime.tasks.forecast.heads import ForecastHead, GaussianHead, PointHead, QuantileHead, StudentHead
from throughtime.tasks.forecast.network import (
    DirectForecaster,
    Forecaster,
    LatentAutoregression,
    RecursiveForecaster,
)
from throughtime.tasks.forecast.networks import RecurrentNetwork, SegmentNetwork, WindowNetwork

SERIES_FILE = "series.json"


class SeriesScales(NamedTuple):
    """The scales of the series of training, and the columns that help to forecast them."""

    scaling: PanelScaling

    @classmethod
    def of(cls, panel: Panel, config: ForecastConfig) -> Self:
        """Measure them on the training rows of each series."""
        rows = training_rows(config, panel)
        return cls(PanelScaling.of(panel, rows, config.scaling, config.calendar, config.transform))

    @classmethod
    def load(cls, folder: ModelFolder, config: ForecastConfig) -> Self:
        """Read them from a model folder."""
        for name in ("lookback", "horizon"):
            if getattr(config, name) is None:
                raise InputError(str(folder.path / "config.json"), f"lacks {name}; train the model again")
        values = folder.read_json(SERIES_FILE)
        return cls(PanelScaling.from_values(values, str(folder.path / SERIES_FILE)))

    def save(self, folder: ModelFolder) -> None:
        """Write them into a model folder."""
        folder.write_json(SERIES_FILE, self.scaling.to_values())


def build_forecaster(config: ForecastConfig, scaling: PanelScaling) -> Forecaster:
    """The network that a configuration describes."""
    assert config.lookback is not None
    assert config.horizon is not None
    head, lookback, horizon = _head(config), config.lookback, config.horizon
    columns, past = scaling.known_columns, len(config.past)
    recursive = config.strategy == "recursive"
    rows = 1 if recursive else horizon
    if config.model == "recurrent":
        return _recurrent(config, head, columns, past)
    if config.model == "segment":
        assert config.segment is not None
        network: torch.nn.Module = SegmentNetwork(
            lookback,
            horizon,
            head.width,
            segment=config.segment,
            hidden_size=config.hidden_size,
            series=scaling.numbered,
            cell=config.cell,
            known=columns,
            past=past,
            output_dropout=config.output_dropout,
        )
    else:
        network = WindowNetwork(
            lookback,
            rows,
            head.width,
            known=columns,
            past=past,
            hidden_sizes=(config.hidden_size,) * config.num_layers if config.model == "mlp" else (),
            hidden_dropout=config.hidden_dropout,
        )
    if recursive:
        return RecursiveForecaster(network, head, lookback, horizon, config.normalise)
    beside = config.highway and config.model != "linear"  # which is a linear map itself
    return DirectForecaster(network, head, lookback, horizon, config.normalise, beside)


def _recurrent(config: ForecastConfig, head: ForecastHead, known: int, past: int) -> Forecaster:
    assert config.lookback is not None
    assert config.horizon is not None
    stack = Stack(
        config.cell,
        1 + known + past,
        config.hidden_size,
        config.num_layers,
        dropout=config.hidden_dropout,
    )
    warm_up = config.warm_up or 0
    if config.strategy == "recursive":
        return LatentAutoregression(
            stack,
            head,
            config.lookback,
            config.horizon,
            config.normalise,
            warm_up=warm_up,
            warm_up_gradient=config.warm_up_gradient,
            output_dropout=config.output_dropout,
        )
    network = RecurrentNetwork(
        stack,
        config.horizon,
        head.width,
        known=known,
        warm_up=warm_up,
        warm_up_gradient=config.warm_up_gradient,
        output_dropout=config.output_dropout,
    )
    return DirectForecaster(network, head, config.lookback, config.horizon, config.normalise, config.highway)


def _head(config: ForecastConfig) -> ForecastHead:
    if config.head == "point":
        return PointHead(config.loss)
    if config.head == "quantiles":
        return QuantileHead(config.probabilities)
    return GaussianHead() if config.head == "gaussian" else StudentHead()


def training_rows(config: ForecastConfig, panel: Panel) -> dict[str, range]:
    """The rows of each series that train."""
    parts = config.timeline.part_of_each("train", [len(one) for one in panel.series])
    return {one.unique_id: part for one, part in zip(panel.series, parts, strict=True)}


def describe_unusual_series(config: ForecastConfig, panel: Panel) -> list[str]:
    """Sentences about series that are too short to be held out, and about constant ones."""
    training = training_rows(config, panel)
    short = [one.unique_id for one in panel.series if not config.timeline.cuts(len(one))]
    constant = [one.unique_id for one in panel.series if _constant(one.y[: training[one.unique_id].stop])]
    notes = []
    if short:
        notes.append(f"Too short for valid_size and test_size, only trained on: {_listed(short)}.")
    if constant:
        notes.append(f"Constant in the training part, so not scaled: {_listed(constant)}.")
    return notes


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def _constant(values: NDArray[np.float64]) -> bool:
    present = values[~np.isnan(values)]
    return bool(len(present) and (present == present[0]).all())
