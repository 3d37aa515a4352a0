"""Forecasting as the trainer sees it: batches of windows, a loss over values that are there, errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import torch

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.series import PanelBatch, PanelBatches, PanelWindows
from throughtime.data.panel import Panel
from throughtime.errors import InputError
from throughtime.tasks.forecast.network import Forecaster
from throughtime.tasks.forecast.prediction import to_array, window_of
from throughtime.train.objective import Loss, State

if TYPE_CHECKING:
    from throughtime.tasks.forecast.predictor import SeriesForecaster

VALIDATION_BATCH = 1_024
SUMS = ("loss", "taught", "squared", "absolute", "values")
SHOWN = 8
"""Values of the first validation window that are shown after each epoch."""


class ForecastTask:
    """Forecast each window's horizon from what is before it. All values are scaled."""

    better: Literal["less", "more"] = "less"
    unit = "values"
    fixed_shapes = True

    def __init__(self, forecaster: SeriesForecaster, train: PanelWindows, valid: PanelWindows | None) -> None:
        self.forecaster, self.config = forecaster, forecaster.config
        self.model: Forecaster = forecaster.model
        self.train, self.valid = train, valid
        self.loss_name = _loss_name(self.model)
        self.measure: str = self.loss_name if self.config.choose_by == "loss" else self.config.choose_by

    def batches(self, rank: int, world_size: int) -> PanelBatches:
        """Windows of all series in random order."""
        config = self.config
        return PanelBatches(self.train, config.batch_size, seed=config.seed, rank=rank, world_size=world_size)

    def count(self, batch: Batch) -> int:
        """The values that are there to be forecast."""
        return batch.count

    def loss(self, batch: Batch, carried: State) -> tuple[Loss, State]:
        """The head's loss of those values."""
        assert isinstance(batch, PanelBatch)
        total, _ = self._losses(batch)
        return Loss(total), ()

    @torch.no_grad()
    def validate(self, rank: int, world_size: int) -> dict[str, float]:
        """Losses and errors of every validation window."""
        if self.valid is None:
            return {}
        device = next(self.model.parameters()).device
        sums = torch.zeros(5, dtype=torch.float64, device=device)
        batches = PanelBatches(self.valid, VALIDATION_BATCH, shuffle=False, rank=rank, world_size=world_size)
        for batch in batches:
            if not batch.rows:
                continue
            batch = batch.to(device)
            total, taught = self._losses(batch)
            horizon = self.valid.horizon
            mean = self.model.rollout(window_of(batch), horizon, self.model.head.mean)
            weights = batch.weights[-horizon:]
            errors = (mean - batch.values[-horizon:]) * weights
            found = [total, taught, errors.square().sum(), errors.abs().sum(), weights.sum()]
            sums += torch.stack(found).double()
        return dict(zip(SUMS, sums.tolist(), strict=True))

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """The loss by its name, and the errors of the mean forecast over the whole horizon."""
        measures = {
            "mse": sums["squared"] / sums["values"],
            "mae": sums["absolute"] / sums["values"],
            self.loss_name: self.model.head.loss_measure(sums["loss"] / sums["taught"]),
        }
        return {self.measure: measures[self.measure], self.loss_name: measures[self.loss_name], **measures}

    def training_measures(self, mean: float) -> dict[str, float]:
        """The loss by its name."""
        return {self.loss_name: self.model.head.loss_measure(mean)}

    def sample(self) -> str | None:
        """The first values of a validation window, and what was forecast."""
        if self.valid is None:
            return None
        arrays, start, number = self.valid.arrays, int(self.valid.starts[0]), int(self.valid.series[0])
        batch = next(iter(PanelBatches(self.valid, 1, shuffle=False)))
        window = window_of(batch.to(next(self.model.parameters()).device))
        with torch.no_grad():
            mean = self.model.rollout(window, self.valid.horizon, self.model.head.mean)[:SHOWN, 0]
        name, forecast = arrays.names[number], to_array(mean)
        true = arrays.values[start + self.valid.lookback :][: len(forecast)]
        scale = self.forecaster.scaling.series[name]
        shown = (" ".join(f"{value:.4g}" for value in scale.undo(each)) for each in (true, forecast))
        return f"{name}: " + " → ".join(shown)

    def _losses(self, batch: PanelBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """The sum of the losses, and of how many values."""
        first, outputs, level = self.model.forward(window_of(batch))
        rows = slice(first, first + len(outputs))
        weights = batch.weights[rows]
        losses = self.model.head.loss(outputs.float(), level.remove(batch.values[rows]))
        return (losses * weights).sum(), weights.sum()


def _loss_name(model: Forecaster) -> str:
    """The measure of the head; mse_loss, or mae_loss, where it is not the mse of the forecast as well.

    A recursive model learns the next row from true values, and `normalise=standard` measures each window by
    its own deviation.
    """
    measure = model.head.measure
    ahead = not model.recursive or model.horizon == 1
    same = ahead and model.loss_rows == model.horizon and model.normalise != "standard"
    return measure if same or measure not in ("mse", "mae") else f"{measure}_loss"


def training_windows(
    forecaster: SeriesForecaster, panel: Panel, name: str
) -> tuple[PanelWindows, PanelWindows | None]:
    """The windows of these series that train a model, and those that validate it, if there are any."""
    config, model, scaling = forecaster.config, forecaster.model, forecaster.scaling
    rows = config.timeline.part_of_each("train", panel)
    scaling.adopt(panel, rows)
    arrays = scaling.arrays(panel, [scaling.series[one.unique_id] for one in panel.series])
    train = PanelWindows(
        arrays,
        rows,
        model.lookback,
        model.trained_rows,
        stride=config.stride,
        counted=model.loss_rows,
    )
    if not len(train):
        longest = max(len(part) for part in rows)
        raise InputError(
            "data",
            f"{name}: the longest series has {longest:,} rows to train on, but a window takes "
            f"{train.length:,} ({model.lookback} back, {model.trained_rows} ahead); lower these",
        )
    held_out = config.timeline.part_of_each("valid", panel)
    valid = PanelWindows(arrays, held_out, model.lookback, model.horizon)
    if config.valid_size and not len(valid):
        raise InputError(
            "valid_size", f"is {config.valid_size:g}, too few for a horizon of {model.horizon}; 0 for none"
        )
    return train, valid if len(valid) else None
