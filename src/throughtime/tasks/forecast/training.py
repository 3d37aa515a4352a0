"""The training of a forecaster: batches of windows, the loss over observed values, validation errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.series import PanelBatch, PanelBatches, PanelWindows
from throughtime.data.panel import Panel, Window
from throughtime.errors import InputError
from throughtime.fit.objective import Carried, Loss
from throughtime.models.forecasters import DirectForecaster, Forecaster
from throughtime.series.baselines import rows_in_week
from throughtime.series.linear_maps import Offset, smallest_share
from throughtime.series.lookback import OFFSETS, SECONDS, RidgeChoice, choose_ridge, lookbacks_to_try
from throughtime.series.panels import PanelScaling
from throughtime.series.scaling import Transform
from throughtime.series.short import fit_short
from throughtime.tasks.forecast.config import ForecastConfig
from throughtime.tasks.forecast.evaluation import build_windows

if TYPE_CHECKING:
    from throughtime.tasks.forecast.model import SeriesForecaster

VALIDATION_BATCH = 1_024
SUMS = ("loss", "taught", "squared", "absolute", "values")
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
PARTS = 30
"""Maximum number of parts of the validation rows whose errors are compared."""
SHOWN = 4
"""Number of values of the first validation window to show after each epoch."""
NEEDED: dict[str | None, Sequence[Offset]] = {
    None: OFFSETS,
    "last": ("last",),
    "mean": ("mean",),
    # Dividing a window by its deviation, and multiplying its forecast by it, does not change a linear map.
    "standard": ("mean",),
    "none": ("none",),
}
"""What a ridge regression subtracts from a window, by the setting `normalise`."""
MAX_ERRORS = 2_000_000
"""Number of errors from which the first spread of the forecasts is estimated."""
BLOCK = 2**22
"""Number of values of the windows that are forecast at once for that."""
GIVEN_SECONDS = 60.0
"""Time to fit regressions with a look-back that is set."""
TIME_SHARE = 0.25
"""The part of the `minutes` that may be spent on linear forecasts."""


class ForecastObjective:
    """Forecasts the horizon of each window from the rows before it. All values are scaled."""

    better: Literal["less", "more"] = "less"
    unit = "values"
    fixed_shapes = True

    def __init__(
        self,
        forecaster: SeriesForecaster,
        train: PanelWindows,
        valid: PanelWindows | None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.notes = notes
        self.forecaster, self.config = forecaster, forecaster.config
        self.model: Forecaster = forecaster.model
        self.tested = forecaster
        self.train, self.valid = train, valid
        self.loss_name = _loss_name(self.model)
        self.parts = torch.from_numpy(np.zeros(0, np.int64) if valid is None else valid.divide(PARTS))
        self.measure: str = self.loss_name if self.config.choose_by == "loss" else self.config.choose_by
        self.settled: str | None = None

    @classmethod
    def without_training(cls, forecaster: SeriesForecaster, panel: Panel) -> ForecastObjective:
        """Measure on the validation rows what simple forecasts of the rows before them are worth."""
        before, arrays = forecaster, forecaster.scaling.scale_panel(panel)[0]
        valid = None
        if any(forecaster.config.timeline.part_of_each("valid", panel)):
            before = forecaster.before(panel, "valid")
            _, valid, _ = build_windows(before, panel, "valid")
        train = PanelWindows(arrays, [range(len(series)) for series in panel.series], 1, 1)
        objective = cls(before, train, valid, (forecaster.scaling.chosen,))
        objective.tested, objective.forecaster, objective.model = before, forecaster, forecaster.model
        objective.settled = "there is no network to train"
        return objective

    def batches(self, rank: int, world_size: int) -> PanelBatches:
        """Return batches of windows of all series, in random order."""
        config = self.config
        assert config.batch_size is not None
        return PanelBatches(self.train, config.batch_size, seed=config.seed, rank=rank, world_size=world_size)

    def count(self, batch: Batch) -> int:
        """Return the number of observed values to forecast."""
        return batch.count

    def loss(self, batch: Batch, carried: Carried) -> tuple[Loss, Carried]:
        """Return the head's loss over those values."""
        assert isinstance(batch, PanelBatch)
        losses, weights = self._losses(batch)
        return Loss((losses * weights).sum()), ()

    @torch.no_grad()
    def validate(self, rank: int, world_size: int) -> dict[str, float]:
        """Sum losses and errors over all validation windows."""
        if self.valid is None:
            return {}
        device = next(self.model.parameters()).device
        names = [*SUMS, *(f"part {part}" for part in range(PARTS))]
        sums = torch.zeros(len(self.shares), len(names), dtype=torch.float64, device=device)
        batches = PanelBatches(self.valid, VALIDATION_BATCH, shuffle=False, rank=rank, world_size=world_size)
        for batch in batches:
            if batch.rows:
                sums += self._validation_sums(batch.to(device))
        return {
            _sum_name(name, share): value
            for share, row in zip(self.shares, sums.tolist(), strict=True)
            for name, value in zip(names, row, strict=True)
        }

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of the correction of a ridge regression that are validated."""
        corrects = isinstance(self.model, DirectForecaster) and self.model.corrects and not self.settled
        return SHARES if corrects else (1.0,)

    def _validation_sums(self, batch: PanelBatch) -> torch.Tensor:
        """The losses and errors of a batch, for each of the shares."""
        model, window = self.tested.model.eval(), build_window(batch)
        horizon = batch.values.shape[0] - model.lookback
        weights, true = batch.weights[-horizon:], batch.values[-horizon:]
        parts = self.parts[batch.indices.cpu()].to(weights.device)

        def add_up(total: torch.Tensor, taught: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
            errors = (mean - true) * weights
            sums = [total, taught, errors.square().sum(), errors.abs().sum(), weights.sum()]
            squared = errors.square().sum(0).double()
            by_part = torch.zeros(PARTS, dtype=torch.float64, device=squared.device)
            return torch.cat([torch.stack(sums).double(), by_part.index_add(0, parts, squared)])

        if not (isinstance(model, DirectForecaster) and model.corrects):
            losses, taught = self._losses(batch)
            mean = model.rollout(window, horizon, model.head.mean)
            return add_up((losses * taught).sum(), taught.sum(), mean).unsqueeze(0)
        outputs, centre = model.split_outputs(window)
        assert centre is not None
        rows = []
        for share in self.shares:
            joined = model.join_outputs(outputs.values, centre, model.trust.new_tensor(share)).float()
            total = (model.head.loss(joined, outputs.level.remove(true)) * weights).sum()
            rows.append(add_up(total, weights.sum(), outputs.level.restore(model.head.mean(joined))))
        return torch.stack(rows)

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return the loss by its name, and the errors of the mean forecast over the whole horizon.

        A model that corrects a ridge regression is given a share of its correction: the smallest whose
        squared error is within a standard error of the lowest. With a share of 0, it is the regression.
        """
        rows = {share: {name: sums[_sum_name(name, share)] for name in SUMS} for share in self.shares}
        by_part = [[sums[_sum_name(f"part {part}", share)] for part in range(PARTS)] for share in rows]
        best = self.shares[smallest_share(by_part)]
        if isinstance(self.model, DirectForecaster) and self.model.corrects:
            self.model.trust.fill_(best)
        chosen = rows[best]
        measures = {
            "mse": chosen["squared"] / chosen["values"],
            "mae": chosen["absolute"] / chosen["values"],
            self.loss_name: self.model.head.loss_measure(chosen["loss"] / chosen["taught"]),
        }
        return {self.measure: measures[self.measure], self.loss_name: measures[self.loss_name], **measures}

    def training_measures(self, mean: float) -> dict[str, float]:
        """Return the loss by its name."""
        return {self.loss_name: self.model.head.loss_measure(mean)}

    def sample(self) -> str | None:
        """Return the first values of a validation window and their forecasts, as text."""
        if self.valid is None:
            return None
        arrays, start, number = self.valid.arrays, int(self.valid.starts[0]), int(self.valid.series[0])
        lookback, horizon = self.valid.lookback, self.valid.horizon
        window = arrays.window(np.array([number]), np.array([start]), lookback, horizon)
        forecast = self.tested.forecast_means(window, horizon)[:SHOWN, 0]
        true = arrays.values[start + lookback :][: len(forecast)]
        name = arrays.names[number]
        scale = self.tested.scaling.series[name]
        shown = (" ".join(f"{value:.4g}" for value in scale.undo(each)) for each in (true, forecast))
        return "{}: true {}, forecast {}".format(name, *shown)

    def _losses(self, batch: PanelBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of each value, and its weight."""
        first, outputs, level = self.model.forward(build_window(batch))
        rows = slice(first, first + len(outputs))
        weights = batch.weights[rows]
        return self.model.head.loss(outputs.float(), level.remove(batch.values[rows])), weights


def build_window(batch: PanelBatch) -> Window[torch.Tensor]:
    """Return what a forecaster reads of a batch."""
    return Window(batch.values, batch.known, batch.past, batch.numbers)


def _sum_name(name: str, share: float) -> str:
    return name if share == 1 else f"{name} with {share:g}"


def _loss_name(model: Forecaster) -> str:
    """The measure of the head; mse_loss or mae_loss if it differs from the error of the forecast.

    It differs for a recursive model, which learns the next row from true values, and with
    `normalise=standard`, which divides each window by its own deviation.
    """
    measure = model.head.measure
    ahead = not model.recursive or model.horizon == 1
    same = ahead and model.loss_rows == model.horizon and model.normalise != "standard"
    return measure if same or measure not in ("mse", "mae") else f"{measure}_loss"


def training_windows(
    forecaster: SeriesForecaster, panel: Panel, name: str
) -> tuple[PanelWindows, PanelWindows | None]:
    """Return the training windows of these series, and the validation windows if there are any."""
    config, model, scaling = forecaster.config, forecaster.model, forecaster.scaling
    assert config.stride is not None
    rows = config.timeline.part_of_each("train", panel)
    scaling.adopt(panel, rows)
    arrays, _ = scaling.scale_panel(panel)
    sizes = (model.lookback, model.trained_rows)
    train = PanelWindows(arrays, rows, *sizes, stride=config.stride, counted=model.loss_rows)
    if not len(train):
        longest = max(map(len, rows))
        raise InputError(
            "data",
            f"{name}: the longest series has {longest:,} training rows, but a window has {train.length:,} "
            f"({model.lookback} back, {model.trained_rows} ahead); lower lookback or horizon",
        )
    held_out = config.timeline.part_of_each("valid", panel)
    valid = PanelWindows(arrays, held_out, model.lookback, model.horizon)
    if config.valid_size and not len(valid):
        raise InputError(
            "valid_size",
            f"is {config.valid_size:g}, too few for a horizon of {model.horizon}; set 0 for no validation",
        )
    return train, valid if len(valid) else None


def choose_window(
    config: ForecastConfig, panel: Panel, scaling: PanelScaling
) -> tuple[ForecastConfig, RidgeChoice | None]:
    """Choose the look-back, the normalisation and the channels, where they are null, by ridge regressions.

    Without enough rows for one, they are left as they are, and a highway is trained with the network.
    """
    if config.lookback is not None and config.normalise is not None and not config.corrects:
        return config, None
    assert config.horizon is not None
    training, validation = (config.timeline.part_of_each(split, panel) for split in ("train", "valid"))
    rows = [len(split) for split in training]
    seconds = SECONDS if config.lookback is None else GIVEN_SECONDS
    seconds = seconds if config.minutes is None else TIME_SHARE * 60 * config.minutes
    lookbacks = [config.lookback] if config.lookback else []
    lookbacks = lookbacks or lookbacks_to_try(config.season, config.horizon, rows, seconds)
    arrays, _ = scaling.scale_panel(panel)
    choice = choose_ridge(
        np.split(arrays.values.astype(np.float64), arrays.offsets[1:-1]),
        training,
        validation,
        lookbacks,
        config.horizon,
        NEEDED[config.normalise],
        config.season,
        config.channels if config.corrects else "shared",
        seconds,
        rows_in_week(panel.frequency, config.season),
    )
    if choice is None:
        if config.corrects and config.channels == "own":
            raise InputError(
                "channels",
                f"is own, but {max(rows):,} training rows are too few, or the time too short, to fit maps of "
                f"{max(lookbacks, default=0):,} rows back and {config.horizon:,} ahead; set shared",
            )
        highway = "trained" if config.highway == "ridge" else config.highway
        return config.model_copy(update={"highway": highway, "channels": "shared"}), None
    updates = {
        "lookback": choice.lookback,
        "normalise": config.normalise or choice.normalise,
        "channels": "shared" if choice.changes is None else "own",
    }
    return config.model_copy(update=updates), choice


def fit_simple(config: ForecastConfig, panel: Panel) -> tuple[ForecastConfig, PanelScaling]:
    """Find the simple forecasts of all rows of some series, the scales that suit them, and their settings."""
    assert config.horizon is not None

    def measure(some: Panel, transform: Transform) -> PanelScaling:
        rows = [range(len(series)) for series in some.series]
        return PanelScaling.of(some, rows, config.scaling, False, transform, config.outliers)

    scaling, short = fit_short(panel, config.season or 1, config.horizon, measure, config.transform)
    scaling.short, scaling.chosen = short, short.description
    series, rows, _ = short.maps.shape
    return config.without_network(rows, series), scaling


def start_from_simple(forecaster: SeriesForecaster) -> None:
    """Set the weights of a model to the maps of its series, and the spread of its head to their errors."""
    model, short = forecaster.model, forecaster.scaling.short
    assert isinstance(model, DirectForecaster)
    assert short is not None
    maps = torch.from_numpy(short.maps).float().transpose(1, 2)
    errors = torch.from_numpy(short.draw_errors()).float()
    model.set_maps(maps, torch.stack([model.head.outputs_of(each) for each in errors]))


def start_from_ridge(
    model: DirectForecaster, scaling: PanelScaling, config: ForecastConfig, panel: Panel
) -> None:
    """Set the first weights of a model to the ridge regression, with the spread of its training errors."""
    choice, (arrays, _) = scaling.ridge, scaling.scale_panel(panel)
    assert choice is not None
    rows = config.timeline.part_of_each("train", panel)
    windows = PanelWindows(arrays, rows, model.lookback, model.horizon)
    count = max(2, MAX_ERRORS // model.horizon)
    chosen = np.unique(np.linspace(0, len(windows) - 1, min(count, len(windows))).astype(int))
    weights = torch.from_numpy(choice.weights.T).float()
    changes = None if choice.changes is None else torch.from_numpy(choice.changes).float().transpose(1, 2)

    def read_blocks() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for block in np.array_split(chosen, -(-len(chosen) * windows.length // BLOCK)):
            rows = windows.starts[block] + np.arange(windows.length)[:, None]
            numbers = arrays.numbers[windows.series[block]]
            yield torch.from_numpy(arrays.values[rows]), torch.from_numpy(numbers)

    squares = None if choice.squares is None else torch.from_numpy(choice.squares).float()
    model.start_from(weights, read_blocks(), changes, squares)
