"""Forecasting as a task: from a table of series to a model folder and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from throughtime.config import build_config
from throughtime.data.batching.panel import PanelWindows
from throughtime.data.panel import Panel
from throughtime.data.panel_scaling import PanelScaling
from throughtime.data.readers.panel import panel_of
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.layers.stack import Stack
from throughtime.models.weights import read_weights
from throughtime.tasks.forecast.card import SERIES_FILE
from throughtime.tasks.forecast.config import ForecastConfig
from throughtime.tasks.forecast.heads import ForecastHead, GaussianHead, PointHead, QuantileHead, StudentHead
from throughtime.tasks.forecast.network import (
    DirectForecaster,
    Forecaster,
    LatentAutoregression,
    RecursiveForecaster,
)
from throughtime.tasks.forecast.networks import RecurrentNetwork, WindowNetwork
from throughtime.tasks.forecast.predictor import TASK as TASK
from throughtime.tasks.forecast.predictor import TrainedForecaster
from throughtime.tasks.forecast.segment import SegmentNetwork
from throughtime.tasks.forecast.training import ForecastTask
from throughtime.train.devices import device_of
from throughtime.train.run import inherited_settings
from throughtime.train.task import Task

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

CONFIG = ForecastConfig

ARCHITECTURE = frozenset(
    "known past calendar horizon lookback transform scaling normalise model strategy head probabilities cell "
    "hidden_size num_layers segment highway warm_up".split()
)
"""What a model that starts from another one's weights has from it."""


def made(config: ForecastConfig, dataset: Dataset) -> TrainedForecaster:
    """A new model for these data, with its first weights drawn from the seed."""
    panel = panel_of(dataset, config.roles)
    config = config.settled(panel)
    training = training_rows(config, panel)
    scaling = PanelScaling.of(panel, training, config.scaling, config.calendar, config.transform)
    forecaster = with_scaling(config, scaling)
    forecaster.notes = (*panel.notes, *_notes(config, panel, training))
    return forecaster


def with_scaling(config: ForecastConfig, scaling: PanelScaling) -> TrainedForecaster:
    """A new model for series whose scales are known already."""
    torch.manual_seed(config.seed)
    return TrainedForecaster(built(config, scaling), scaling, config)


def taken_up(out: Path, config: ForecastConfig) -> TrainedForecaster:
    """The model of a run that goes on; its weights come with the checkpoint."""
    return with_scaling(config, _kept(ModelFolder(out)))


def task_of(forecaster: TrainedForecaster, dataset: Dataset) -> Task:
    """The training task of a model on these data."""
    panel = panel_of(dataset, forecaster.config.roles)
    forecaster.scaling.check(panel)
    config = forecaster.config = forecaster.config.settled(panel)
    model, scaling = forecaster.model, forecaster.scaling
    training = training_rows(config, panel)
    scaling.adopt(panel, training, config.scaling, config.transform)
    arrays = scaling.arrays(panel, [scaling.series[one.unique_id] for one in panel.series])
    train = PanelWindows(
        arrays,
        [training[one.unique_id] for one in panel.series],
        model.lookback,
        model.trained_rows,
        stride=config.stride,
        counted=model.counted,
    )
    if not len(train):
        rows = max(len(part) for part in training.values())
        raise InputError(
            "--data",
            f"{dataset.name}: the longest series has {rows:,} rows to train on, but a window takes "
            f"{train.length:,} ({model.lookback} back, {model.trained_rows} ahead); lower these",
        )
    held_out = config.timeline.part_of_each("valid", [len(one) for one in panel.series])
    valid = PanelWindows(arrays, held_out, model.lookback, model.horizon)
    if config.valid_size and not len(valid):
        raise InputError(
            "valid_size", f"is {config.valid_size:g}, too few for a horizon of {model.horizon}; 0 for none"
        )
    return ForecastTask(forecaster, train, valid if len(valid) else None)


def built(config: ForecastConfig, scaling: PanelScaling) -> Forecaster:
    """The model that a configuration describes."""
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


def inherited(source: Path, config: ForecastConfig, given: Mapping[str, Any]) -> TrainedForecaster:
    """A model that starts from the weights of the run `source`, on its series or on others."""
    folder = ModelFolder.at(source)
    known = inherited_settings(folder, TASK, ForecastConfig, ARCHITECTURE, given)
    return load(folder, {**config.model_dump(mode="json"), **known}, "cpu")


def load(folder: ModelFolder, config: Mapping[str, Any], device: str) -> TrainedForecaster:
    """The model that a run saved: the best so far, where it still trains."""
    settings = build_config(ForecastConfig, config, str(folder.path / "config.json"))
    for name in ("lookback", "horizon"):
        if getattr(settings, name) is None:
            raise InputError(str(folder.path / "config.json"), f"lacks {name}; train the model again")
    scaling = _kept(folder)
    model = built(settings, scaling)
    read_weights(model, folder)
    forecaster = TrainedForecaster(model.to(device_of(device)).eval(), scaling, settings)
    forecaster.folder = folder
    return forecaster


def training_rows(config: ForecastConfig, panel: Panel) -> dict[str, range]:
    """The rows of each series that train."""
    parts = config.timeline.part_of_each("train", [len(one) for one in panel.series])
    return {one.unique_id: part for one, part in zip(panel.series, parts, strict=True)}


def _notes(config: ForecastConfig, panel: Panel, training: Mapping[str, range]) -> list[str]:
    """A word on series that are too short to be held out, and on those in which nothing happens."""
    short = [one.unique_id for one in panel.series if not config.timeline.cuts(len(one))]
    constant = [one.unique_id for one in panel.series if _constant(one.y[: training[one.unique_id].stop])]
    told = []
    if short:
        told.append(f"Too short for valid_size and test_size, only trained on: {_listed(short)}.")
    if constant:
        told.append(f"Constant in the training part, so not scaled: {_listed(constant)}.")
    return told


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


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


def _constant(values: NDArray[np.float64]) -> bool:
    present = values[~np.isnan(values)]
    return bool(len(present) and (present == present[0]).all())


def _kept(folder: ModelFolder) -> PanelScaling:
    return PanelScaling.from_values(folder.read_json(SERIES_FILE), str(folder.path / SERIES_FILE))
