"""A trained forecaster: series in, forecasts with intervals out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from throughtime.data.batching.series import PanelArrays, PanelBatches, PanelWindows
from throughtime.data.datasets import DataLike, open_dataset
from throughtime.data.panel import Panel, Series
from throughtime.data.readers.panel import panel_of, read_future
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.layers.devices import matmul_precision
from throughtime.results import Evaluation
from throughtime.runtime.forecast import check_levels, ends_of
from throughtime.series.backtest import (
    AUTO,
    CONFORMAL,
    OWN,
    Backtest,
    Calibration,
    backtest,
    calibrate_intervals,
)
from throughtime.series.conformal import Conformal, load_intervals, save_intervals
from throughtime.series.k_steps import KSteps, k_steps
from throughtime.series.panels import PanelScaling
from throughtime.series.protocol import Forecast, ForecastModel, ForecastRequest, WindowForecasts
from throughtime.series.ridge import Fitting
from throughtime.series.scaling import SeriesScale
from throughtime.tasks.base import Description, Predictor, Progress, refuse_options
from throughtime.tasks.forecast.answers import answered, coming, last_window
from throughtime.tasks.forecast.build import build_forecaster, describe_unusual_series, training_rows
from throughtime.tasks.forecast.config import ForecastConfig
from throughtime.tasks.forecast.network import Forecaster
from throughtime.tasks.forecast.plain_series import PlainSeries, panels_of
from throughtime.tasks.forecast.training import ForecastTask, training_windows, window_of

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

ROWS_AT_ONCE = 4_096
SERIES_FILE = "series.json"
WINDOWS_AT_ONCE = 1_024


class SeriesScales(NamedTuple):
    """The scales of the series of training, and the columns that help to forecast them."""

    scaling: PanelScaling

    def save(self, folder: ModelFolder) -> None:
        """Write them into a model folder."""
        folder.write_json(SERIES_FILE, self.scaling.to_values())


class SeriesForecaster(Predictor, ForecastModel):
    """Forecasts time series: `tt.load("RUN").forecast(h=24, level=[80])`. `name` heads the column."""

    task = "forecast"
    config_type = ForecastConfig
    model: Forecaster
    assets: SeriesScales
    config: ForecastConfig

    def __init__(self, model: Forecaster, assets: SeriesScales, config: ForecastConfig) -> None:
        super().__init__(model, assets, config)
        self.scaling, self.name = assets.scaling, str(config.model)
        self.data_notes: tuple[str, ...] = ()

    @classmethod
    def prepare(cls, config: ForecastConfig, dataset: Dataset) -> tuple[ForecastConfig, SeriesScales]:
        """Measure the scale of each series on its training rows."""
        panel = panel_of(dataset, config.roles)
        config = config.settled(panel)
        rows = training_rows(config, panel)
        return config, SeriesScales(
            PanelScaling.of(panel, rows, config.scaling, config.calendar, config.transform)
        )

    @classmethod
    def load_assets(cls, folder: ModelFolder, config: ForecastConfig) -> SeriesScales:
        """Read the scales."""
        where = folder.path / SERIES_FILE
        for name in ("lookback", "horizon"):
            if getattr(config, name) is None:
                raise InputError(str(folder.path / "config.json"), f"lacks {name}; train the model again")
        return SeriesScales(PanelScaling.from_values(folder.read_json(SERIES_FILE), str(where)))

    @classmethod
    def build_network(cls, config: ForecastConfig, assets: SeriesScales) -> Forecaster:
        """The network that a configuration describes."""
        return build_forecaster(config, assets.scaling)

    def adapt_to(self, dataset: Dataset) -> None:
        """Note what is unusual about the series; the weights stay as they are."""
        panel = panel_of(dataset, self.config.roles)
        rows = training_rows(self.config, panel)
        self.data_notes = (*panel.notes, *describe_unusual_series(self.config, panel, rows))

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about series that are too short or constant."""
        return self.data_notes

    def training_task(self, dataset: Dataset) -> ForecastTask:
        """Batches, loss and validation on these series."""
        panel = panel_of(dataset, self.config.roles)
        self.scaling.check(panel)
        self.config = self.config.settled(panel)
        return ForecastTask(self, *training_windows(self, panel, dataset.name))

    def forecast(
        self,
        data: DataLike | Panel | PlainSeries | None = None,
        h: int | None = None,
        level: Sequence[float] = (),
        future: str | Path | Panel | None = None,
        paths: int = 0,
        date_format: str | None = None,
    ) -> list[Forecast]:
        """The same as the command: after the data of training or others, with intervals of these levels.

        `data` may also be plain values by name of the series, or `History`s, as for an exported model. A
        series of the training data keeps its scale; a new one is scaled by its own values. The interval of
        level 80 lies between the quantiles 0.1 and 0.9. Paths are drawn with the seed of training; an
        exported model draws others from the same distribution.
        """
        if isinstance(data, Mapping | Sequence) and not isinstance(data, str):
            data, known = panels_of(data, self.config.known, self.config.past)
            future = known if future is None else future
        if isinstance(future, str | Path):
            future = read_future(future, self.config.known, date_format or self.config.date_format)
        probabilities = ends_of(level)
        forecasting = self.with_intervals(level)
        panel = self._panel(data, date_format)
        return forecasting.predict(panel, h or self.model.horizon, probabilities, paths, future)

    def with_intervals(self, levels: Sequence[float]) -> ForecastModel:
        """Itself, with conformal intervals where it is set to have them or its head has none."""
        own = self.model.head.probabilistic and self.config.intervals == "head"
        check_levels(levels)
        if own or not levels:
            return self
        intervals = None if self.folder is None else load_intervals(self.folder)
        if intervals is None:
            run = "RUN" if self.folder is None else self.folder.path
            raise InputError(
                "level",
                f"needs intervals, which {run} has not yet: measure them with "
                f"`throughtime backtest {run} --save-intervals`, or train with head=quantiles",
            )
        return Conformal(self, intervals)

    def backtest(
        self,
        data: DataLike | Panel | None = None,
        n_windows: int = 8,
        step_size: int | None = None,
        h: int | None = None,
        level: Sequence[float] = (80, 95),
        season: int | None = None,
        intervals: str | None = None,
        earlier_windows: int | None = None,
        unseen: int | None = None,
        date_format: str | None = None,
        progress: Progress | None = None,
    ) -> Backtest:
        """The same as the command: forecasts from `n_windows` origins, judged beside rules of thumb.

        How many of the last rows were `unseen` is known of the data of training; of a panel, say it.
        """
        panel = self._panel(data, date_format)
        if self._is_own(data):
            unseen = self.unseen(panel)
        return backtest(
            self,
            panel,
            h or self.model.horizon,
            n_windows=n_windows,
            step_size=step_size,
            levels=sorted(set(level)),
            intervals=intervals or (CONFORMAL if self.config.intervals == "conformal" else AUTO),
            earlier_windows=earlier_windows,
            season=season or self.config.season,
            history=self.model.lookback,
            unseen=unseen,
            reach=self.model.head.reach,
            fitting=self.fitting(panel) if self._knows(panel, unseen) else None,
            progress=progress,
        )

    def save_intervals(
        self,
        data: DataLike | Panel | None = None,
        h: int | None = None,
        level: Sequence[float] = (80, 95),
        season: int | None = None,
        intervals: str | None = None,
        unseen: int | None = None,
        progress: Progress | None = None,
    ) -> Calibration:
        """Measure conformal intervals on the last rows and keep them in the folder, for `forecast`."""
        if self.folder is None:
            raise InputError("save_intervals", "is for models of a folder: throughtime.load(FOLDER)")
        panel = self._panel(data)
        made = calibrate_intervals(
            self,
            panel,
            h or self.model.horizon,
            sorted(set(level)),
            CONFORMAL if intervals is None or intervals in (AUTO, OWN) else intervals,
            season=season or self.config.season,
            history=self.model.lookback,
            unseen=self.unseen(panel) if self._is_own(data) else unseen,
            progress=progress,
        )
        save_intervals(self.folder, made.intervals)
        return made

    def fitting(self, panel: Panel) -> Fitting:
        """The training and validation rows of the model, so that a baseline is fitted to the same rows."""
        lengths = [len(one) for one in panel.series]
        training, validation = (
            self.config.timeline.part_of_each(each, lengths) for each in ("train", "valid")
        )
        scales = [self.scaling.scale(one, self.config.scaling, self.config.transform) for one in panel.series]
        return Fitting(training, validation, [scale.power for scale in scales])

    def _knows(self, panel: Panel, unseen: int | None) -> bool:
        """Whether a panel with this number of unseen last rows is split as the training data were."""
        longest = max(len(one) for one in panel.series)
        return unseen is not None and self.config.timeline.cuts(longest) and self.unseen(panel) == unseen

    def unseen(self, panel: Panel) -> int:
        """How many rows at the end of every one of its series the model was not trained on."""
        lengths = [len(one) for one in panel.series]
        parts = self.config.timeline.part_of_each("train", lengths)
        return min(length - part.stop for length, part in zip(lengths, parts, strict=True))

    @torch.no_grad()
    def answer(self, request: ForecastRequest) -> list[Forecast]:
        """The next `h` rows of each series; a point head has no quantiles, whatever is asked.

        A recursive model draws whole paths, and its quantiles are theirs. The head of a direct model knows
        each row's distribution but not how rows hang together: its paths are drawn row by row, so that sums
        and extremes over them are narrower than they ought to be.
        """
        panel, h, probabilities, paths, future = request
        if h < 1:
            raise InputError("h", f"is {h}, expected 1 or more")
        arrays, scales = self.scaled_arrays(panel)
        for one in panel.series:
            if len(one) < self.model.lookback:
                raise InputError(
                    f"series {one.unique_id!r}",
                    f"has {len(one):,} rows, a forecast looks back on {self.model.lookback}; give more rows",
                )
        future_columns = [self._future(panel, one, h, future) for one in panel.series]
        self.model.eval()
        forecasts: list[Forecast] = []
        # Draws of paths are rows too: so many series at once that all their rows fit.
        drawn = max(paths, self._draws(probabilities))
        at_once = max(1, ROWS_AT_ONCE // max(1, drawn))
        generator = torch.Generator(self.device).manual_seed(self.config.seed)
        with matmul_precision("float32"):
            for first in range(0, len(panel.series), at_once):
                chosen = range(first, min(first + at_once, len(panel.series)))
                window = last_window(arrays, chosen, self.model.lookback, future_columns, self.device)
                found = answered(self.model, window, h, probabilities, paths, drawn, generator)
                for place, number in enumerate(chosen):
                    one = panel.series[number]
                    forecasts.append(found.forecast(place, one, panel.after(one, h), scales[number]))
        return forecasts

    @property
    def lookback(self) -> int:
        """Number of rows that a forecast is made from."""
        return self.model.lookback

    @property
    def max_steps(self) -> int | None:
        """Maximum number of rows that it can forecast; None for any number."""
        return None if self.model.recursive else self.model.horizon

    def scaled_arrays(self, panel: Panel) -> tuple[PanelArrays, list[SeriesScale]]:
        """The series scaled for the model, and the scale of each."""
        self.check(panel)
        scales = [self.scaling.scale(one, self.config.scaling, self.config.transform) for one in panel.series]
        return self.scaling.arrays(panel, scales), scales

    @torch.no_grad()
    def forecast_windows(
        self, windows: PanelWindows, progress: Progress | None = None
    ) -> Iterator[WindowForecasts]:
        """The mean forecast of each window beside the true values, batch by batch."""
        model, last = self.model.eval(), slice(-windows.horizon, None)
        batches = PanelBatches(windows, WINDOWS_AT_ONCE, shuffle=False)
        with matmul_precision("float32"):
            for number, batch in enumerate(batches, start=1):
                batch = batch.to(self.device)
                mean = model.rollout(window_of(batch), windows.horizon, model.head.mean)
                parts = (batch.values[last], mean, batch.weights[last])
                true, forecast, weights = (each.double().cpu().numpy() for each in parts)
                rows = batch.indices.cpu().numpy()
                yield WindowForecasts(windows.series[rows], windows.starts[rows], true, forecast, weights)
                if progress is not None:
                    progress(number, len(batches.plan()))

    def k_steps(
        self,
        data: DataLike | Panel | None = None,
        steps: Sequence[int] = (1, 4, 16, 64),
        split: str = "heldout",
        progress: Progress | None = None,
    ) -> KSteps:
        """Forecast every row k steps ahead for each k of `steps`, and measure the errors on a split.

        For other data than those of training, give split="all".
        """
        panel = self._panel(data)
        parts = [range(len(one)) for one in panel.series]
        if split != "all":
            parts = self.config.timeline.part_of_each(split, [len(part) for part in parts])
        return k_steps(self, panel, steps, parts, progress)

    def evaluate_split(
        self, dataset: Dataset, split: str, *, progress: Progress | None = None, **options: Any
    ) -> Evaluation:
        """The errors of every window of a split, beside those of simple forecasts of the same windows."""
        from throughtime.tasks.forecast.report import evaluate_windows

        refuse_options(options, (), "is for models of text, and this model forecasts")
        return evaluate_windows(self, dataset, split, progress)

    def sample(self, windows: PanelWindows, shown: int) -> str:
        """The first values of the first window, and what is forecast, in the series' own units."""
        arrays, start, number = windows.arrays, int(windows.starts[0]), int(windows.series[0])
        batch = PanelBatches(windows, 1, shuffle=False)
        window = window_of(next(iter(batch)).to(self.device))
        with torch.no_grad():
            mean = self.model.rollout(window, windows.horizon, self.model.head.mean)[:shown, 0]
        forecast = mean.double().cpu().numpy()
        name = arrays.names[number]
        scale = self.scaling.series[name]
        true = arrays.values[start + windows.lookback :][: len(forecast)].astype(np.float64)
        told = (" ".join(f"{value:.4g}" for value in scale.undone(each)) for each in (true, forecast))
        return f"{name}: " + " → ".join(told)

    def describe(self) -> Description:
        """The model in words."""
        config, scaling = self.config, self.scaling
        cell = f" {config.cell} of {config.hidden_size}" if config.model in ("recurrent", "segment") else ""
        helping = ", ".join((*config.known, *config.past, *(["calendar"] if config.calendar else [])))
        transform = "" if config.transform == "none" else f"{config.transform}, then "
        return Description(
            f"Forecasts of {config.data}",
            f"{config.model}{cell}, {config.strategy}, head {config.head}",
            f"{len(scaling.series):,} series, look-back {config.lookback}, horizon {config.horizon}",
            {
                "series": f"{len(scaling.series)}, one row each {scaling.frequency or 'position'}",
                "window": f"{config.lookback} rows back, {config.horizon} ahead",
                "scaling": f"{transform}{config.scaling} of each series, {config.normalise} of each window; "
                f"scales in {SERIES_FILE}",
                "columns that help": helping or "none",
            },
            [f"forecast FOLDER --h {config.horizon} --level 80 --level 95"],
            f"forecast(h={config.horizon}, level=[80])",
        )

    def suggestions(self, dataset: Dataset) -> list[str]:
        """Forecast with intervals where the head has them, evaluate, and back-test."""
        own = self.model.head.probabilistic and self.config.intervals == "head"
        levels = " --level 80 --level 95" if own else ""
        future = " --future FILE" if self.config.known else ""
        return [
            f"forecast {{run}}{levels}{future} --plot forecast.png",
            *(["evaluate {run} --split test"] if self.config.test_size else []),
            "backtest {run} --n-windows 8",
        ]

    def save_description(self, folder: ModelFolder) -> None:
        """Write all files of the model but its weights and its card."""
        super().save_description(folder)
        self.folder = folder

    @property
    def skips_bad(self) -> bool:
        """Whether bad rows of its own data are left out, as they were in training."""
        return self.folder is not None and self.folder.skips_bad

    def check(self, panel: Panel) -> None:
        """Refuse series of other steps, and other columns, than those of training."""
        self.scaling.check(panel)
        wanted = (self.config.known, self.config.past)
        if (panel.known_names, panel.past_names) != wanted:
            raise InputError(
                "panel", f"has the columns {panel.known_names} and {panel.past_names}, not {wanted}"
            )

    def _draws(self, probabilities: Sequence[float]) -> int:
        drawn = self.model.recursive and self.model.head.probabilistic and probabilities
        return self.config.paths if drawn else 0

    def _future(self, panel: Panel, series: Series, h: int, future: Panel | None) -> NDArray[np.float32]:
        """The columns known in the future, over the rows to forecast."""
        ds = panel.after(series, h if self.model.recursive else max(h, self.model.horizon))
        known = coming(series, ds, h, self.config.known, future)
        return self.scaling.columns(known, ds).astype(np.float32)

    def _is_own(self, data: DataLike | Panel | None) -> bool:
        """Whether data are those of training."""
        return data is None or (isinstance(data, str) and data == self.config.data)

    def _panel(self, data: DataLike | Panel | None, date_format: str | None = None) -> Panel:
        if isinstance(data, Panel):
            return data
        given, skip_bad = self.config.data if data is None else data, self._is_own(data) and self.skips_bad
        written = date_format or self.config.date_format
        dataset = open_dataset(given, kind="series", date_format=written, skip_bad=skip_bad)
        return panel_of(dataset, self.config.roles)
