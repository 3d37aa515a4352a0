"""The endpoint of forecasters: series in, the rows after them out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from throughtime.data.panel import YEARS, Panel, Series, Times, make_regular
from throughtime.data.readers.dates import ISO, DateCell, DateForm, check_date_format, settle_form
from throughtime.interrupt import check_interrupt
from throughtime.models.recursive_forecasters import RecursiveForecaster
from throughtime.results import Forecast
from throughtime.runtime.forecast import ends, interval_ends
from throughtime.series.baselines import ForecastModel
from throughtime.series.conformal import Conformal
from throughtime.series.notes import describe_outliers
from throughtime.serve.bodies import answer, body_schema, read_body
from throughtime.serve.cost import Cost
from throughtime.serve.models import Served
from throughtime.serve.requests import Fields, RefusalError, Text, check_cost, check_limit
from throughtime.serve.service import admit
from throughtime.text.texts import MAX_NUMBER

router = APIRouter(tags=["prediction"])
MAX_LEVELS = 20
FARTHEST = 10**12

Value = Annotated[float, Field(ge=-MAX_NUMBER, le=MAX_NUMBER, allow_inf_nan=False)] | None
# Not validated by the schema: `check_levels` gives a clearer message.
Level = Annotated[float, Field(json_schema_extra={"minimum": 1, "exclusiveMaximum": 100})]
Place = Annotated[int, Field(ge=-FARTHEST, le=FARTHEST)]


class SeriesRequest(Fields):
    """One series: values, null where one is missing, at their times (dates in ISO format, or numbers)."""

    unique_id: Text = "series"
    y: Annotated[list[Value], Field(min_length=1, fail_fast=True)]
    ds: (
        Annotated[list[Text], Field(fail_fast=True)] | Annotated[list[Place], Field(fail_fast=True)] | None
    ) = None


class ForecastRequest(Fields):
    """Series to forecast, the number of rows `h`, and the levels of intervals in per cent.

    Dates that are not in ISO format are read in `date_format`, or in the only order of day, month and year
    that fits.
    """

    series: Annotated[list[SeriesRequest], Field(min_length=1, fail_fast=True)]
    model: Text | None = None
    h: int | None = Field(None, ge=1)
    date_format: Text | None = None
    level: list[Level] = Field(default=[], max_length=MAX_LEVELS)


@router.post("/forecast", openapi_extra=body_schema(ForecastRequest))
async def forecast(request: Request) -> Response:
    """Forecast the next rows of each series: the mean, and an interval for each level."""
    asked = await read_body(request, ForecastRequest)
    service = admit(request)
    served = service.models.choose(asked.model, "forecast")
    rows = sum(len(one.y) for one in asked.series)
    check_limit("the number of rows", rows, service.options.max_rows, status=413)
    check_limit("h", asked.h or 1, service.options.max_horizon)
    h = asked.h or served.model.model.horizon
    levels = sorted(set(asked.level))
    lookback, paths = served.model.lookback, served.model.config.paths if levels else 0
    each = lookback if isinstance(served.model.model, RecursiveForecaster) else 1
    cost = Cost.of_forecasting(len(asked.series), lookback, h, len(levels), paths=paths, each=each)
    check_cost(cost, service.options)
    probabilities = interval_ends(levels)
    forecasting = _choose_forecaster(served, levels)
    panel = await service.run_aside(request, partial(build_panel, asked.series, asked.date_format))

    def compute(panels: list[Panel]) -> list[list[Forecast]]:
        with np.errstate(all="ignore"):
            return [forecasting.predict(panel, h, probabilities) for panel in panels]

    key = ("forecast", h, tuple(levels))
    (answers,) = await service.compute(request, served, key, compute, [panel])
    forecasts = await service.run_aside(request, lambda: [_values(one, levels) for one in answers])
    notes = [*panel.notes, *describe_outliers(panel, served.model.scaling)]
    return await answer(request, {"model": served.name, "forecasts": forecasts, "notes": notes})


def _choose_forecaster(served: Served, levels: Sequence[float]) -> ForecastModel:
    """Return what forecasts at these levels: the model, or the model with its saved intervals."""
    forecaster: ForecastModel = served.model
    if not levels or served.model.has_own_intervals:
        return forecaster
    if served.intervals is None:
        problem = f"level needs intervals, which {served.name} does not have"
        cure = "measure them with `throughtime backtest RUN --save-intervals`, and start the server again"
        raise RefusalError(400, f"{problem}: {cure}")
    return Conformal(forecaster, served.intervals)


def build_panel(requests: Sequence[SeriesRequest], date_format: str | None = None) -> Panel:
    """Return the series of a request on a common grid, sorted by time."""
    (twice, count), *_ = Counter(one.unique_id for one in requests).most_common(1)
    if count > 1:
        raise RefusalError(400, f"two series are named {twice!r}; give each a unique_id of its own")
    form = ISO if date_format is None else DateForm(format=check_date_format(date_format))
    times = [(request.unique_id, text) for request in requests for text in request.ds or ()]
    dates = [DateCell(None, name, str(text)) for name, text in times if not isinstance(text, int)]
    if form == ISO and dates and not _read_iso(dates[0].text):
        form = settle_form(dates, "ds")
    series = [_series(one, form) for one in requests]
    if len({one.ds.dtype.kind for one in series}) > 1:
        raise RefusalError(400, "some series have dates and others numbers; give all the same")
    return make_regular(series)


def _values(one: Forecast, levels: Sequence[float]) -> dict[str, Any]:
    """Return a forecast for JSON, with quantiles as the ends of intervals."""
    check_interrupt()
    values = one.to_dict()
    bounds = {f"{level:g}": [values["quantiles"][end] for end in ends(level)] for level in levels}
    intervals = {level: {"lo": low, "hi": high} for level, (low, high) in bounds.items()}
    ds, mean = values["ds"] or [], values["mean"]
    return {"unique_id": values["unique_id"], "ds": ds, "mean": mean, "intervals": intervals}


def _series(request: SeriesRequest, form: DateForm) -> Series:
    check_interrupt()
    y = np.array([np.nan if value is None else value for value in request.y], dtype=np.float64)
    if request.ds is None:
        return Series.of(request.unique_id, y)
    if len(request.ds) != len(y):
        counts = f"{len(request.ds)} times for {len(y)} values"
        raise RefusalError(400, f"series {request.unique_id!r} has {counts}; give one for each")
    ds = _times(request.unique_id, request.ds, form)
    order = np.argsort(ds, kind="stable")
    if len(np.unique(ds)) < len(ds):
        problem = f"series {request.unique_id!r} has a time twice; keep one value for each time"
        raise RefusalError(400, problem)
    return Series.of(request.unique_id, y[order], ds[order])


def _read_iso(text: str) -> datetime | None:
    """Read a time in ISO format and convert it to UTC; None for other text."""
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def _times(name: str, times: Sequence[str] | Sequence[int], form: DateForm) -> Times:
    if isinstance(times[0], int):
        return np.array(times, dtype=np.int64)
    moments = []
    for text in times:
        moment = _read_iso(str(text)) if form == ISO else form.read(str(text))
        if moment is None:
            problem = "which is not a date" if form == ISO else f"which is not {form.description}"
            raise RefusalError(400, f"series {name!r} has the time {str(text)[:40]!r}, {problem}")
        if moment.year not in YEARS:
            known = f"its year must be from {YEARS[0]} to {YEARS[-1]}"
            raise RefusalError(400, f"series {name!r} has the time {text}; {known}")
        moments.append(moment)
    return np.array(moments, dtype="datetime64[ns]")
