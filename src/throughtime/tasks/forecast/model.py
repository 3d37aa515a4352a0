"""A trained forecaster: series in, forecasts with intervals out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from throughtime.data.dataset import Dataset
from throughtime.data.datasets import DataLike
from throughtime.data.panel import Panel
from throughtime.data.readers.panel import read_future, read_series_panel
from throughtime.data.readers.series import SeriesTable
from throughtime.data.seen import Hashes, SeenCount, hash_panel
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.models.forecasters import DirectForecaster, Forecaster
from throughtime.results import Evaluation, Forecast
from throughtime.runtime.forecast import interval_ends
from throughtime.series.backtest import AUTO, CONFORMAL, OWN, Calibration, calibrate_intervals
from throughtime.series.baselines import ForecastModel
from throughtime.series.conformal import add_saved_intervals, load_intervals, save_intervals
from throughtime.series.notes import describe_outliers, describe_unusual_series
from throughtime.series.panels import (
    SERIES_FILE,
    PanelScaling,
    load_history,
    save_history,
)
from throughtime.tasks.base import Progress
from throughtime.tasks.description import Description, refuse_options
from throughtime.tasks.forecast.config import ForecastConfig
from throughtime.tasks.forecast.evaluation import TestedForecaster, evaluate_windows
from throughtime.tasks.forecast.network import NetworkPipeline, build_forecaster
from throughtime.tasks.forecast.pipeline import PlainSeries, build_panels
from throughtime.tasks.saved import SavedModel

if TYPE_CHECKING:
    from throughtime.tasks.forecast.training import ForecastObjective


class SeriesForecaster(TestedForecaster, NetworkPipeline):
    """Forecasts time series: `tt.load("RUN").forecast(h=24, level=[80])`."""

    task = "forecast"
    config_type = ForecastConfig
    model: Forecaster
    assets: PanelScaling
    config: ForecastConfig

    def __init__(self, model: Forecaster, assets: PanelScaling, config: ForecastConfig) -> None:
        super().__init__(model, assets, config)
        self.scaling, self.name = assets, str(config.model)
        self.lookback, self.horizon, self.recursive = model.lookback, model.horizon, model.recursive
        self.reach, self.known, self.past = model.head.reach, config.known, config.past
        self.paths, self.seed = config.paths, config.seed
        self.pads = (config.season or 1) if config.model == "smoothing" else 0
        self.data_notes: tuple[str, ...] = ()
        self._history: Panel | None = None

    @classmethod
    def prepare(cls, config: ForecastConfig, dataset: Dataset) -> tuple[ForecastConfig, PanelScaling]:
        """Measure the scale of each series on its training rows, and choose the look-back.

        A model that forecasts directly reads as many rows as linear forecasts that it may begin with.
        """
        from throughtime.tasks.forecast.training import choose_window, fit_simple

        panel = read_series_panel(dataset, config.roles)
        config = config.divide(panel)
        if config.smooths(panel):
            config, scaling = fit_simple(config, panel)
            return config.complete(panel), scaling
        rows = config.timeline.part_of_each("train", panel)
        transform = config.transform or "none"
        scaling = PanelScaling.of(panel, rows, config.scaling, config.calendar, transform, config.outliers)
        if config.strategy == "direct":
            config, scaling.ridge = choose_window(config, panel, scaling)
        return config.complete(panel), scaling

    @classmethod
    def load_assets(cls, folder: ModelFolder, config: ForecastConfig) -> PanelScaling:
        """Read the scales."""
        for name in ("lookback", "horizon"):
            if getattr(config, name) is None:
                raise InputError(str(folder.path / "config.json"), f"lacks {name}; train the model again")
        values, where = folder.read_json(SERIES_FILE), str(folder.path / SERIES_FILE)
        transform = config.transform or "none"
        scaling = PanelScaling.from_values(values, where, config.scaling, transform, config.outliers)
        for role, scales in (("known", scaling.known), ("past", scaling.past)):
            if len(scales) != (count := len(getattr(config, role))):
                problem = f"has scales of {len(scales)} {role} columns, the model has {count}"
                raise InputError(where, f"{problem}; train the model again")
        return scaling

    @classmethod
    def build_network(cls, config: ForecastConfig, assets: PanelScaling) -> Forecaster:
        """Build the network that a configuration describes."""
        return build_forecaster(config, assets)

    def adapt_to(self, dataset: Dataset) -> None:
        """Note what is unusual about the series, and begin with a ridge regression if there is one."""
        from throughtime.tasks.forecast.training import start_from_ridge, start_from_simple

        panel = self._history = read_series_panel(dataset, self.config.roles)
        unusual = describe_unusual_series(self.config.timeline, panel)
        self.data_notes = (*panel.notes, *unusual, *describe_outliers(panel, self.scaling))
        if self.scaling.short is not None:
            start_from_simple(self)
        elif (
            self.scaling.ridge is not None
            and isinstance(self.model, DirectForecaster)
            and self.model.corrects
        ):
            start_from_ridge(self.model, self.scaling, self.config, panel)

    def count_rows(self, dataset: Dataset) -> int:
        """The configuration has been derived from the number of rows already."""
        return 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about series that are too short or constant."""
        return self.data_notes

    def build_objective(self, dataset: Dataset) -> ForecastObjective:
        """Return the batches, loss and validation of these series, for the trainer."""
        from throughtime.tasks.forecast.training import ForecastObjective, training_windows

        panel = self._history = read_series_panel(dataset, self.config.roles)
        self.scaling.check(panel)
        self.config = self.config.complete(panel)
        if self.is_refitted:
            return ForecastObjective.without_training(self, panel)
        notes = () if self.scaling.ridge is None else (self.scaling.ridge.describe(self.config.corrects),)
        return ForecastObjective(self, *training_windows(self, panel, dataset.name), notes)

    @property
    def is_refitted(self) -> bool:
        """Whether it takes no network, and so is fitted again, in no time, to the rows before any test."""
        return self.config.model == "smoothing" and self.config.network is None

    def refit(self, panel: Panel) -> Self:
        """Return a model with the same settings that knows these rows alone."""
        from throughtime.tasks.forecast.training import fit_simple, start_from_simple

        refitted = type(self).initialise(*fit_simple(self.config, panel))
        start_from_simple(refitted)
        refitted.model.to(self.device)
        return refitted

    @property
    def history(self) -> Panel | None:
        """The series that the model was trained on, from its folder; None if it has none."""
        if self._history is None and self.folder is not None:
            self._history = load_history(self.folder)
        return self._history

    def save_description(self, folder: ModelFolder) -> None:
        """Write all files of the model except its weights and its card, with the series that it continues."""
        super().save_description(folder)
        if self.history is not None:
            save_history(folder, self.history)

    def open_data(self, data: Any = None, *, skip_bad: bool = False, **options: Any) -> Dataset:
        """Open data as the training data were opened; by default, the series in the model folder.

        The file that the configuration names is not opened again: pass its name to read what was added to it.
        """
        if data is not None:
            return super().open_data(data, skip_bad=skip_bad, **options)
        if options.get("date_format") is not None:
            raise InputError("date_format", "is for data that you pass; leave it out, or pass data")
        if self.history is None:
            raise InputError("data", "is missing, and the model folder holds no series; pass some")
        return Dataset(self.config.data, SeriesTable(), {}, panel=self.history)

    def forecast(
        self,
        data: DataLike | Panel | PlainSeries | None = None,
        *,
        h: int | None = None,
        level: Sequence[float] = (),
        future: str | Path | Panel | None = None,
        paths: int = 0,
        seed: int | None = None,
        date_format: str | None = None,
    ) -> list[Forecast]:
        """Forecast the next `h` values of each series, by default of the training data and its horizon.

        Args:
            data: a data set name, a file, a DataFrame or a panel; or, as for an exported model, a dict of
                values by series name, or a list of `History`. A series of the training data keeps its scale;
                a new one is scaled by its own values.
            h: number of rows to forecast.
            level: levels of intervals in per cent; an interval of level 80 lies between the quantiles 0.1 and
                0.9. If the head has no intervals, or the model was trained with intervals=conformal, the
                conformal intervals saved in the model folder are used.
            future: a table of the columns that are known in the future, if the model reads any.
            paths: number of sample paths to draw.
            seed: seed of the paths, by default that of training. An exported model draws the same paths.
            date_format: format of the dates in `data` and `future`, in the notation of `strptime`.
        """
        if isinstance(data, Mapping | Sequence) and not isinstance(data, str):
            data, known = build_panels(data, self.config.known, self.config.past)
            future = known if future is None else future
        if isinstance(future, str | Path):
            future = read_future(future, self.config.roles, date_format or self.config.date_format)
        probabilities = interval_ends(level)
        model: ForecastModel = self
        if level and not self.has_own_intervals:
            model = add_saved_intervals(self, self.folder)
        rows = self.horizon if h is None else h
        panel = self.open_panel(data, date_format)
        return model.predict(panel, rows, probabilities, paths=paths, future=future, seed=seed)

    def save_intervals(
        self,
        data: DataLike | Panel | None = None,
        *,
        h: int | None = None,
        level: Sequence[float] = (80, 95),
        season: int | None = None,
        intervals: str | None = None,
        unseen: int | None = None,
        progress: Progress | None = None,
    ) -> Calibration:
        """Measure conformal intervals on the last rows and save them in the model folder, for `forecast`."""
        if self.folder is None:
            raise InputError(
                "save_intervals", "needs a model folder: load the model with throughtime.load(FOLDER)"
            )
        panel = self.open_panel(data)
        calibration = calibrate_intervals(
            self.as_tested,
            self.clean(panel),
            self.horizon if h is None else h,
            levels=sorted(set(level)),
            intervals=CONFORMAL if intervals in (None, AUTO, OWN) else intervals,
            season=season or self.config.season,
            unseen=self.unseen(panel) if unseen is None and not self.is_refitted else unseen,
            progress=progress,
        )
        save_intervals(self.folder, calibration.intervals)
        return calibration

    def hash_split(self, dataset: Dataset, split: str) -> Iterator[Hashes]:
        """Yield the hashes of the rows of a split, series by series."""
        panel = read_series_panel(dataset, self.config.roles)
        all_train = split == "train" and self.is_refitted
        parts = self.config.timeline.part_of_each("all" if all_train else split, panel)
        return (hashes[rows.start : rows.stop] for hashes, rows in zip(hash_panel(panel), parts, strict=True))

    def save_measurements(self, folder: ModelFolder) -> None:
        """Write the conformal intervals that were saved with this model."""
        intervals = None if self.folder is None else load_intervals(self.folder)
        if intervals is not None:
            save_intervals(folder, intervals)

    @property
    def has_own_intervals(self) -> bool:
        """Whether the intervals of forecasts come from the head and are not conformal."""
        return self.model.head.probabilistic and self.config.intervals == "head"

    def evaluate_split(
        self, dataset: Dataset, split: str, *, progress: Progress | None = None, **options: Any
    ) -> Evaluation:
        """Measure the errors on every window of a split, and those of baselines on the same windows."""
        refuse_options(options, (), "is for models of text, and this model forecasts")
        return evaluate_windows(self, dataset, split, progress)

    def count_seen(self, dataset: Dataset, split: str, others: Sequence[SavedModel] = ()) -> SeenCount | None:
        """Count the rows of a split that the tested model was fitted to: none, if they come after its own."""
        seen = super().count_seen(dataset, split, others)
        tested_later = self.is_refitted and split not in ("train", "all")
        return seen._replace(trained_on=0) if seen is not None and tested_later else seen

    def summary(self, values: Mapping[str, Any]) -> str:
        """Summarise the training, or the fit of simple forecasts."""
        if not self.is_refitted:
            return super().summary(values)
        measured = ", ".join(f"{name} {value:.4g}" for name, value in values["best"].items())
        return f"Fitted in {values['seconds']:.1f} s: {values['why']}.\n" + (
            f"On the validation rows, when fitted to those before them: {measured}."
            if measured
            else "Not validated."
        )

    @property
    def facts(self) -> dict[str, Any]:
        """How many rows it reads and forecasts, and the further columns that it needs."""
        values: dict[str, Any] = {"horizon": self.model.horizon, "lookback": self.model.lookback}
        if not self.model.recursive:
            values["max_h"] = self.model.horizon
        columns = {"known": list(self.config.known), "past": list(self.config.past)}
        return values | {role: names for role, names in columns.items() if names}

    def describe(self) -> Description:
        """Describe the model in words."""
        config, scaling = self.config, self.scaling
        cell = f" {config.cell} of {config.hidden_size}" if config.model in ("recurrent", "segment") else ""
        helping = ", ".join((*config.known, *config.past, *(["calendar"] if config.calendar else [])))
        transform = "" if config.transform in (None, "none") else f"{config.transform}, then "
        steps = f"one row per {scaling.frequency}" if scaling.frequency else "without dates"
        return Description(
            f"Forecasts of {config.data}",
            "simple forecasts without a network"
            if scaling.chosen
            else f"{config.model}{cell}, {config.strategy}, head {config.head}",
            f"{len(scaling.series):,} series, look-back {config.lookback}, horizon {config.horizon}",
            {
                **({"forecast": scaling.chosen} if scaling.chosen else {}),
                "series": f"{len(scaling.series)}, {steps}",
                "window": f"{config.lookback} rows back, {config.horizon} ahead",
                "scaling": f"{transform}{config.scaling} of each series, {config.normalise} of each window; "
                f"scales in {SERIES_FILE}",
                "additional columns": helping or "none",
            },
            [f"forecast FOLDER --h {config.horizon} --level 80 --level 95"],
            f"forecast(h={config.horizon}, level=[80])",
        )

    def suggestions(self, dataset: Dataset) -> list[str]:
        """Suggest commands: forecast, evaluate and back-test."""
        levels = " --level 80 --level 95" if self.has_own_intervals else ""
        future = " --future FILE" if self.config.known else ""
        return [
            f"forecast {{run}}{levels}{future} --plot forecast.png",
            *(["evaluate {run} --split test"] if self.config.test_size else []),
            "backtest {run}",
        ]

    def open_panel(self, data: DataLike | Panel | None, date_format: str | None = None) -> Panel:
        """Return the series of some data, by default those in the model folder."""
        if isinstance(data, Panel):
            return data
        return read_series_panel(self.open_data(data, date_format=date_format), self.config.roles)
