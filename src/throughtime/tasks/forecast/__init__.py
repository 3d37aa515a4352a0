"""Forecasts of one or many time series."""

from throughtime.tasks import Task


class ForecastTask(Task):
    """The declaration of the task: `throughtime train forecast`."""

    name = "forecast"
    title = "a forecaster"
    summary = "Train a forecaster of one or many series, from a CSV file, long or wide."
    description = """
    By default it is a GRU that corrects ridge regressions, and forecasts quantiles of the next season.
    Errors on the training and validation rows choose how many rows it reads. Gaps in time and missing values
    are reported and handled. The last rows of each series are held out.
    """
    examples = (
        "train forecast --data sales.csv --out runs/sales",
        "train forecast --data load.csv --known temp --set calendar=true --out runs/load",
        "train forecast --data passengers.csv --set transform=log --out runs/passengers",
        "train forecast --data series/ETTh1 --set model=segment --set horizon=96 --out runs/ett",
        "train forecast --data embedded/sine --set strategy=recursive --out runs/sine",
    )
    data = "series"
    config = "throughtime.tasks.forecast.config:ForecastConfig"
    predictor = "throughtime.tasks.forecast.predictor:SeriesForecaster"
    exporter = "throughtime.tasks.forecast.export:build_export"
    runner = "throughtime.tasks.forecast.runner:SeriesForecasterRunner"
    route = "throughtime.serve.forecasting:router"
