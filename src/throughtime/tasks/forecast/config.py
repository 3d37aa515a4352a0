"""The settings of `train forecast`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from throughtime.config import Effect, architecture, only_with
from throughtime.data.panel import Panel
from throughtime.data.readers.panel import Roles
from throughtime.errors import InputError
from throughtime.fit.config import Positive, Schedule, Share, TrainingConfig
from throughtime.series.baselines import find_season
from throughtime.series.outliers import Outliers, clean_panel
from throughtime.series.panels import Timeline
from throughtime.series.scaling import Scaling, Transform
from throughtime.text.texts import format_count

Count = Annotated[int, Field(ge=1)]
Probability = Annotated[float, Field(gt=0, lt=1)]
Rows = Annotated[int, Field(ge=0)] | Share
SEASONS_BACK = 4
LONG = 96  # a look-back above this is read in segments, which takes fewer steps
MAX_SEGMENTS = 24
RECURRENT_ONLY = ("num_layers", "hidden_dropout", "warm_up", "warm_up_gradient")
AFFORDABLE = 2.5e8  # values that a training by default reads and forecasts: about a minute of a core
RECURRENT_COST = 20  # time that a recurrent layer of 64 units needs for a row, compared with other models
MAX_EPOCHS = 100
PATIENCE = 20  # epochs without improvement that are tolerated by default; the best is often an early one
WITHOUT_SEASON = 10
HELD_OUT = 0.1
FEW_ROWS = 400
"""Up to this number of rows in the longest series, no network was seen to gain anything."""
OF_NETWORKS = frozenset(
    "lookback normalise strategy stride highway channels cell hidden_size num_layers segment hidden_dropout "
    "output_dropout warm_up warm_up_gradient epochs lr batch_size schedule loss early_stopping "
    "network".split()
)
"""Settings whose use says that a network is wanted."""


def _only_with_model(key: str, *models: str) -> Effect:
    """Say that `key` has an effect only with these models; the default, null, may become one of them."""
    plain = only_with(key, "model", *models)
    return Effect(key, lambda config: config.model is None or plain.counts(config), plain.without)


class ForecastConfig(TrainingConfig):
    """A forecaster, its series, and its training. Null settings are derived from the series."""

    SUGGESTED: ClassVar[frozenset[str]] = frozenset(
        "horizon lookback season transform normalise channels stride model warm_up segment "
        "train_size valid_size test_size epochs batch_size".split()
    )
    EFFECTS: ClassVar[tuple[Effect, ...]] = (
        *TrainingConfig.EFFECTS,
        _only_with_model("cell", "recurrent", "segment"),
        _only_with_model("hidden_size", "recurrent", "segment", "mlp"),
        _only_with_model("num_layers", "recurrent", "mlp"),
        _only_with_model("segment", "segment"),
        Effect(
            "hidden_dropout",
            lambda config: config.model == "mlp" or (config.model == "recurrent" and config.num_layers > 1),
            "with model={model} and num_layers={num_layers}; set model=mlp, or recurrent with num_layers=2",
        ),
        _only_with_model("output_dropout", "recurrent", "segment"),
        Effect(
            "warm_up_gradient",
            lambda config: config.model == "recurrent" and config.warms_up,
            "without a warm-up; set model=recurrent and warm_up",
        ),
        Effect(
            "channels",
            lambda config: config.corrects,
            "with strategy={strategy}, model={model} and highway={highway}; "
            "set strategy=direct, highway=ridge and a model other than linear",
        ),
        only_with("loss", "head", "point"),
        only_with("probabilities", "head", "quantiles"),
        Effect(
            "paths",
            lambda config: config.strategy == "recursive" and config.head != "point",
            "with strategy={strategy} and head={head}; set strategy=recursive, and a head other than point",
        ),
    )

    data: str = Field(description="a name from `throughtime data list`, or a CSV file, long or wide")
    id: str | None = Field(None, description="column of series names; null: unique_id, or the one of text")
    time: str | None = Field(None, description="column of the times; null: ds, or the first with dates")
    target: tuple[str, ...] = Field((), description="columns to forecast; by default y, or else all")
    known: tuple[str, ...] = architecture((), description="columns whose future values are known: [temp]")
    past: tuple[str, ...] = architecture((), description="columns whose future values are not known: [load]")
    date_format: str | None = Field(None, description="such as %d.%m.%Y; null: ISO, or the one that fits")
    calendar: bool = architecture(False, description="add hour, weekday and month as known columns")
    train_size: Rows | None = Field(
        None, description="rows for training, or a fraction below 1; null: all before the held-out rows"
    )
    valid_size: Rows | None = Field(
        None, description="rows for validation, after those; null: a tenth, at least a horizon"
    )
    test_size: Rows | None = Field(None, description="rows for testing, after those; null: as valid_size")

    horizon: Count | None = architecture(None, le=100_000, description="rows forecast; null: a season, or 10")
    lookback: Count | None = architecture(
        None, le=1_000_000, description="rows that a forecast reads; null: as many as linear forecasts need"
    )
    season: Count | None = Field(
        None, description="rows in a season; null: 24 hours, 7 days, 12 months, or found in the data"
    )
    transform: Transform | None = architecture(
        None,
        description="none, or log or box-cox before scaling, if variation grows with the level; null: none, "
        "and with model=smoothing log where it lowers the error",
    )
    scaling: Scaling = architecture(
        "standard", description="scale a series by its training rows: standard, robust (to outliers) or none"
    )
    outliers: Outliers = architecture(
        "replace",
        description="isolated outliers, far beyond the usual steps of a series: replace, as missing values "
        "are, with a note; or keep",
    )
    normalise: Literal["none", "last", "mean", "standard"] | None = architecture(
        None,
        description="subtract the last value or the mean of a window; standard also divides by its "
        "deviation; null: last or mean, whichever has the lower error",
    )
    stride: Count | None = Field(
        None,
        description="rows between the starts of two training windows; null: 1, or, if neither epochs nor "
        "minutes is given, more if an epoch would take more than about a minute on a CPU",
    )

    model: Literal["smoothing", "linear", "mlp", "recurrent", "segment"] | None = architecture(
        None,
        description="smoothing: a mean of simple forecasts, without a network; linear or mlp over the "
        "window, recurrent, or segment, which reads several rows at once; null: smoothing for up to 400 "
        "rows, else recurrent, or segment if the look-back is above 96",
    )
    strategy: Literal["direct", "recursive"] = architecture(
        "direct",
        description="direct: the whole horizon at once; recursive: row by row, from its own forecasts",
    )
    head: Literal["point", "gaussian", "student", "quantiles"] = architecture(
        "quantiles", description="what is predicted: point, gaussian, student (heavy tails) or quantiles"
    )
    loss: Literal["mse", "mae", "huber"] = Field("mse", description="loss of a point head: mse, mae or huber")
    probabilities: tuple[Probability, ...] = architecture(
        (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975),
        min_length=1,
        description="probabilities of the quantiles head",
    )
    highway: Literal["ridge", "trained", "none"] = architecture(
        "ridge",
        description="linear map of the window that the network corrects (direct): ridge regressions, one "
        "that is trained with the network, or none",
    )
    channels: Literal["shared", "own"] | None = architecture(
        None,
        description="the linear map of highway=ridge: shared by all series, or own: each series has one, "
        "near the shared one; null: own if that lowers the error on rows held back from the fit, else shared",
    )
    cell: str = architecture("gru", description="gru, lstm, rnn, mingru, ...; see `throughtime doctor`")
    hidden_size: Count = architecture(64, description="number of units in each layer")
    num_layers: Count = architecture(1, le=1_000, description="layers of recurrent, hidden layers of mlp")
    segment: Count | None = architecture(None, description="rows in a segment; null: half a season, or 10")
    hidden_dropout: Share = Field(0.0, description="dropout between layers")
    output_dropout: Share = Field(0.0, description="dropout before the head, for recurrent and segment")
    warm_up: Annotated[int, Field(ge=0)] | None = architecture(
        None,
        description="recurrent: first rows of a window that add no loss; null: half of it if recursive",
    )
    warm_up_gradient: bool = Field(False, description="let gradients flow back through the warm-up")

    epochs: int | None = Field(
        None,
        ge=1,
        description="number of passes over the training windows; null: 100, fewer if there are many windows, "
        "for about a minute on a CPU",
    )
    batch_size: int | None = Field(  # type: ignore[assignment]
        None, ge=1, description="number of windows in a batch, over all processes; null: 32 to 256"
    )
    lr: Positive = Field(1e-3, description="learning rate; `--find-lr` suggests one")
    schedule: Schedule = Field("cosine", description="constant, step, plateau, cosine or one-cycle")
    choose_by: Literal["loss", "mse", "mae"] = Field(
        "loss", description="validation measure, on scaled values, that selects the best weights"
    )
    intervals: Literal["head", "conformal"] = Field(
        "head", description="intervals of `forecast`: from the head, or conformal, measured by back-testing"
    )
    paths: Count = Field(200, le=100_000, description="paths drawn for the intervals of a recursive model")

    @field_validator("target", "known", "past", mode="before")
    @classmethod
    def _accept_single(cls, value: object) -> object:
        """Accept a single column without brackets."""
        return (value,) if isinstance(value, str) else value

    @property
    def data_options(self) -> dict[str, Any]:
        """Options of `open_dataset` for the training data."""
        return {"id": self.id, "time": self.time, "date_format": self.date_format, "kind": "series"}

    @property
    def roles(self) -> Roles:
        """The role of each column."""
        return Roles(self.target, self.known, self.past, self.id, self.time)

    @property
    def warms_up(self) -> bool:
        """Whether a window of a recurrent model starts with rows that have no loss."""
        return self.strategy == "recursive" if self.warm_up is None else self.warm_up > 0

    @property
    def corrects(self) -> bool:
        """Whether a network corrects linear forecasts that are fitted before its training."""
        return self.strategy == "direct" and self.model != "linear" and self.highway == "ridge"

    @property
    def timeline(self) -> Timeline:
        """How series are split along time."""
        assert self.valid_size is not None
        assert self.test_size is not None
        return Timeline(self.train_size, self.valid_size, self.test_size)

    @classmethod
    def derive_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings that only one model has select this model."""
        if settings.get("model") is not None:
            return {}
        if any(settings.get(name) is not None for name in RECURRENT_ONLY):
            return {"model": "recurrent"}
        return {} if settings.get("segment") is None else {"model": "segment"}

    def divide(self, panel: Panel) -> ForecastConfig:
        """Return the configuration with the season, the horizon and the splits derived from the series."""
        self._check()
        longest = max(len(series) for series in panel.series)
        shown = panel.drop_last(round(2 * HELD_OUT * longest))
        detected = find_season(shown if self.outliers == "keep" else clean_panel(shown))
        season = self.season or (detected if detected > 1 else None)
        dated = None if panel.frequency is None else panel.frequency.season
        usual = self.season or dated or season or WITHOUT_SEASON
        horizon = self.horizon or (usual if longest >= 4 * usual else max(1, longest // 5))
        held = max(horizon, round(HELD_OUT * longest)) if longest > 4 * horizon else horizon
        # Held-out rows are given up where no training window would be left.
        spare = (longest - 1) // horizon - 1 if self.train_size is None else 2
        valid = (held if spare > 1 else 0) if self.valid_size is None else self.valid_size
        test = (held if spare > 0 else 0) if self.test_size is None else self.test_size
        if longest <= horizon:
            raise InputError(
                "horizon",
                f"is {horizon}, but the longest series has {format_count(longest, 'row')}, expected at least "
                f"{horizon + 1}",
            )
        Timeline(self.train_size, valid, test).parts(longest)  # refuses impossible sizes
        updates = {"season": season, "horizon": horizon, "valid_size": valid, "test_size": test}
        return self.model_copy(update=updates)

    def suit_few(self, rows: int, fixed: Collection[str]) -> dict[str, Any]:
        """Return horizon and splits if the longest series is too short for the usual ones: see `divide`."""
        usual: dict[str, Any] = {"horizon": self.season or WITHOUT_SEASON}
        usual |= dict.fromkeys(("valid_size", "test_size"), self.horizon)
        chosen = {name: getattr(self, name) for name in usual if name not in fixed}
        return chosen if any(value < usual[name] for name, value in chosen.items()) else {}

    def complete(self, panel: Panel) -> ForecastConfig:
        """Return the configuration with null settings derived from the series."""
        config = self.divide(panel)
        season, horizon = config.season, config.horizon
        assert horizon is not None
        rows = [len(split) for split in config.timeline.part_of_each("train", panel)]
        lookback = self.lookback or _lookback(season, horizon, max(rows))
        reads_segments = lookback > LONG and self.strategy == "direct" and self.hidden_size % 2 == 0
        model = self.model or ("segment" if reads_segments else "recurrent")
        warm_up = lookback // 2 if model == "recurrent" and self.strategy == "recursive" else 0
        half = (season or 2 * WITHOUT_SEASON) // 2 or 1
        windows = sum(max(0, each - lookback - horizon + 1) for each in rows)
        row_cost = RECURRENT_COST if model == "recurrent" else 1
        width = len(self.probabilities) if self.head == "quantiles" else 1
        cost = windows * (lookback * row_cost + horizon * width) * max(1.0, self.hidden_size / 64)
        planned = self.epochs is not None or self.minutes is not None
        stride = self.stride or (1 if planned else max(1, math.ceil(cost / AFFORDABLE)))
        windows, cost = windows // stride, cost / stride
        epochs = min(MAX_EPOCHS, max(1, round(AFFORDABLE / max(cost, 1.0))))
        updates = {
            "lookback": lookback,
            "transform": self.transform or (None if model == "smoothing" else "none"),
            "normalise": self.normalise or "last",
            "channels": self.channels or "shared",
            "stride": stride,
            "model": model,
            "warm_up": warm_up if self.warm_up is None else self.warm_up,
            "segment": self.segment or min(lookback, max(half, -(-lookback // MAX_SEGMENTS))),
            "epochs": self.epochs or (None if self.minutes else epochs),
            "early_stopping": self.early_stopping or (None if planned else PATIENCE),
            "batch_size": self.batch_size or min(256, max(32, 2 ** round(math.log2(max(windows, 1) / 200)))),
        }
        return config.model_copy(update=updates)

    def smooths(self, panel: Panel) -> bool:
        """Whether simple forecasts are asked for, or suffice as the series are short; then check columns."""
        columns = {"known": self.known, "past": self.past, "calendar": self.calendar}
        if self.model == "smoothing":
            for name in (name for name, used in columns.items() if used):
                raise InputError(name, "has no effect with model=smoothing; leave it out, or set model")
            return True
        wanted = any(getattr(self, name) is not None for name in OF_NETWORKS & self.model_fields_set)
        short = max(map(len, panel.series)) <= FEW_ROWS
        return self.model is None and short and not wanted and not any(columns.values())

    def without_network(self, lookback: int, series: int) -> ForecastConfig:
        """Return the configuration of simple forecasts of this look-back."""
        return self.model_copy(
            update={
                "model": "smoothing",
                "lookback": lookback,
                "normalise": "last",
                "channels": "own" if series > 1 else "shared",
                "stride": 1,
                "epochs": 1,
                "minutes": None,
            }
        )

    def _check(self) -> None:
        if self.model == "smoothing" and (self.strategy == "recursive" or self.highway != "ridge"):
            raise InputError("model", "is smoothing, which needs strategy=direct and highway=ridge")
        if self.strategy == "recursive" and self.model == "segment":
            raise InputError(
                "strategy", "is recursive, which does not suit model=segment; set model=recurrent"
            )
        if self.strategy == "recursive" and self.past:
            raise InputError("past", "is unknown in rows that are forecast one by one; set strategy=direct")
        if self.model not in (None, "recurrent") and self.warm_up:
            raise InputError("warm_up", f"needs model=recurrent, but model is {self.model}; leave it out")


def _lookback(season: int | None, horizon: int, rows: int) -> int:
    """Four seasons or horizons, at most a third of the rows before the last horizon."""
    unit = season or horizon
    most = max(1, (rows - horizon) // 3)
    return min(SEASONS_BACK * max(unit, horizon), max(most // unit * unit, 1) if most >= unit else most)
