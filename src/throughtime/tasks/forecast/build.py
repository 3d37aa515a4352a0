"""Build a forecaster from its settings, and describe its series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from throughtime.data.panel import Panel
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

Built = TypeVar("Built")


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
    highway = config.highway and config.model != "linear"
    return build(DirectForecaster, network=network, head=head, highway=highway)


def _head(config: ForecastConfig) -> ForecastHead:
    if config.head == "point":
        return PointHead(config.loss)
    if config.head == "quantiles":
        return QuantileHead(config.probabilities)
    return GaussianHead() if config.head == "gaussian" else StudentHead()


def describe_unusual_series(config: ForecastConfig, panel: Panel) -> list[str]:
    """Return sentences about series that are too short to be split, and about constant ones."""
    training = config.timeline.part_of_each("train", panel)
    short = [one.unique_id for one in panel.series if not config.timeline.cuts(len(one))]
    constant = [
        one.unique_id
        for one, rows in zip(panel.series, training, strict=True)
        if _constant(one.y[: rows.stop])
    ]
    notes = []
    if short:
        notes.append(f"Too short for valid_size and test_size, used for training only: {_listed(short)}.")
    if constant:
        notes.append(f"Constant in the training rows, so not scaled: {_listed(constant)}.")
    return notes


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def _constant(values: NDArray[np.float64]) -> bool:
    present = values[~np.isnan(values)]
    return bool(len(present) and (present == present[0]).all())
