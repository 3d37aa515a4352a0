"""`throughtime train forecast`: a forecaster, from a table of series to a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from throughtime.cli.train_command import TrainCommand

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.forecast.predictor import TrainedForecaster

HELP = """Train a forecaster of one series or of many, from a CSV file, long or wide.

Without settings it is a GRU that reads four seasons and says the quantiles of the next one. Gaps in time
and missing values are reported and need no care. The last rows of each series are held out.

[bold]Examples[/bold]

  throughtime train forecast --data sales.csv --out runs/sales

  throughtime train forecast --data load.csv --set known=\\[temp] --set calendar=true --out runs/load

  throughtime train forecast --data passengers.csv --set transform=log --out runs/passengers

  throughtime train forecast --data series/ETTh1 --set model=segment --set horizon=96 --out runs/ett

  throughtime train forecast --data embedded/sine --set strategy=recursive --out runs/sine
"""


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


train_forecast = TrainCommand(HELP, "forecast.task", "forecast.config.ForecastConfig", hints).of_series()
