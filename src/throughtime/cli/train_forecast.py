"""`throughtime train forecast`: a forecaster, from a table of series to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.cli.opening import SkipBad
from throughtime.cli.output import Debug, Json, Outcome, reported, say
from throughtime.cli.training import (
    CheckpointName,
    ConfigFile,
    Data,
    FindRate,
    InitFrom,
    Out,
    Request,
    Resume,
    Settings,
    ShowConfig,
    settings_of,
    shown_config,
    train,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from throughtime.data.datasets import Dataset
    from throughtime.tasks.trained_forecaster import TrainedForecaster
    from throughtime.train.task import Task


@reported
def train_forecast(
    data: Data = None,
    out: Out = None,
    config: ConfigFile = None,
    settings: Settings = None,
    resume: Resume = False,
    checkpoint: CheckpointName = None,
    init_from: InitFrom = None,
    show_config: ShowConfig = False,
    find_lr: FindRate = False,
    skip_bad: SkipBad = False,
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Train a forecaster of one series or of many, from a CSV file, long or wide.

    Without settings it is a GRU that reads four seasons and says the quantiles of the next one. Gaps in time
    and missing values are reported and need no care. The last rows of each series are held out.

    [bold]Examples[/bold]

      throughtime train forecast --data sales.csv --out runs/sales

      throughtime train forecast --data load.csv --set known=[temp] --set calendar=true --out runs/load

      throughtime train forecast --data passengers.csv --set transform=log --out runs/passengers

      throughtime train forecast --data series/ETTh1 --set model=segment --set horizon=96 --out runs/ett

      throughtime train forecast --data embedded/sine --set strategy=recursive --out runs/sine
    """
    from throughtime.tasks.forecast_config import ForecastConfig

    given = settings_of(config, settings, {"data": data})
    if show_config:
        return shown_config(ForecastConfig, given)
    request = Request(out, resume, checkpoint, init_from, find_lr, skip_bad, hints)
    return train(Telling(), given, request)


def hints(model: TrainedForecaster, dataset: Dataset) -> list[str]:
    """With intervals where the head gives them, and the columns that a forecast has to be told."""
    own = model.model.head.probabilistic and model.config.intervals == "head"
    levels = " --level 80 --level 95" if own else ""
    future = " --future FILE" if model.config.known else ""
    return [
        f"forecast {{run}}{levels}{future} --plot forecast.png",
        *(["evaluate {run} --split test"] if model.config.test_size else []),
        "backtest {run} --n-windows 8",
    ]


class Telling:
    """The trade of forecasting, which tells what it found amiss in the series before it trains."""

    def __init__(self) -> None:
        from throughtime.tasks import forecast

        self._trade = forecast
        self.TASK, self.CONFIG = forecast.TASK, forecast.CONFIG

    def made(self, config: Any, dataset: Dataset) -> TrainedForecaster:
        """A new model for these data."""
        return self._trade.made(config, dataset)

    def inherited(self, source: Path, config: Any, given: Mapping[str, Any]) -> TrainedForecaster:
        """A model that starts from the weights of another run."""
        return self._trade.inherited(source, config, given)

    def taken_up(self, out: Path, config: Any) -> TrainedForecaster:
        """The model of a run that goes on."""
        return self._trade.taken_up(out, config)

    def task_of(self, model: Any, dataset: Dataset, /) -> Task:
        """The training task, with what has to be said of the data."""
        task = self._trade.task_of(model, dataset)
        for note in model.notes:
            say(note)
        return task
