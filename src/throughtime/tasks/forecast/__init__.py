"""Forecasts of one or many time series."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from throughtime.runtime.keywords import MAX_SEED, Keyword
from throughtime.tasks import COMMON_OPTIONS, Task


class ForecastOptions(TypedDict, total=False):
    """The options of `forecast`."""

    h: Annotated[int | None, Keyword("Number of rows to forecast; by default as in training.", min=1)]
    level: Annotated[
        Sequence[float], Keyword("Level of an interval to report, in per cent, such as 80; repeatable.", ())
    ]
    paths: Annotated[int, Keyword("Number of sample paths to draw.", 0, min=0)]
    seed: Annotated[
        int | None, Keyword("Seed of the paths; by default that of training.", min=0, max=MAX_SEED)
    ]
    date_format: Annotated[
        str | None, Keyword("Format of dates, such as %d.%m.%Y; by default detected.", group="Data")
    ]


class ForecastTask(Task):
    """The declaration of the task: `throughtime train forecast`."""

    name = "forecast"
    title = "a forecaster"
    summary = "Train a forecaster of one or many series, from a CSV file, long or wide."
    description = """
    By default it is a mean of simple forecasts for up to 400 rows, and a GRU that corrects ridge regressions
    for more; both forecast quantiles of the next season. Errors on earlier rows choose what it consists of.
    Gaps in time and missing values are reported and handled. The last rows of each series are held out.
    """
    examples = (
        "train forecast --data sales.csv --out runs/sales",
        "train forecast --data load.csv --known temp --set calendar=true --out runs/load",
        "train forecast --data passengers.csv --set transform=log --out runs/passengers",
        "train forecast --data series/ETTh1 --set model=segment --set horizon=96 --out runs/ett",
        "train forecast --data embedded/sine --set strategy=recursive --out runs/sine",
    )
    options = COMMON_OPTIONS | {
        "outliers": (str, "Isolated outliers: replace, as missing values are, or keep."),
    }
    data = "series"
    prediction = ForecastOptions
    config = "throughtime.tasks.forecast.config:ForecastConfig"
    predictor = "throughtime.tasks.forecast.model:SeriesForecaster"
    exporter = "throughtime.tasks.forecast.network:build_export"
    runner = "throughtime.tasks.forecast.runner:SeriesForecasterRunner"
    route = "throughtime.serve.forecasting:router"
    requests = {  # noqa: RUF012
        "/forecast": {"series": [{"unique_id": "sales", "y": [112, 118, 132, 129]}], "h": 2, "level": [80]}
    }
