"""The input of a forecaster: panels from plain values, and the columns known in the future."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Panel, Series, Times
from throughtime.errors import InputError
from throughtime.results import format_times
from throughtime.runtime.forecast import History, read_histories

PlainSeries = Mapping[str, Sequence[float]] | Sequence[History]
"""Values by series name, oldest first; or a list of `History`, which can hold further columns."""


def panels_of(
    given: Mapping[str, Any] | Sequence[Any], known: tuple[str, ...], past: tuple[str, ...]
) -> tuple[Panel, Panel | None]:
    """Return the series, and a panel of their known columns that includes the rows to forecast.

    Times are positions, starting at 0. `known` and `past` are the columns that the model reads.

    >>> panel, future = panels_of([History("shop", [3.0, 1.0], known=[[0], [1], [1]])], ("sale",), ())
    >>> panel.series[0].known.ravel(), future.series[0].ds
    (array([0., 1.]), array([0, 1, 2]))
    """
    series, future = [], []
    for one in read_histories(given):
        rows = len(one.y)
        ahead = one.columns("known", len(known), rows, known)
        before = one.columns("past", len(past), rows, past)[:rows]
        series.append(replace(Series.of(one.unique_id, one.y), known=ahead[:rows], past=before))
        future.append(replace(Series.of(one.unique_id, np.full(len(ahead), np.nan)), known=ahead))
    panel = Panel(tuple(series), None, known, past, undated=True)
    return panel, Panel(tuple(future), None, known, undated=True) if known else None


def future_columns(
    series: Series, ds: Times, h: int, names: Sequence[str], future: Panel | None
) -> NDArray[np.float64]:
    """Return the known columns at the times `ds` after a series; the first `h` rows must be complete.

    If `future` has a single series, it is used for all.
    """
    known = np.full((len(ds), len(names)), np.nan)
    if not names:
        return known
    if future is None:
        raise InputError("future", f"is missing: the model needs {', '.join(names)} of the rows to forecast")
    given = future.by_name().get(series.unique_id)
    if given is None and len(future.series) == 1:
        given = future.series[0]
    if given is None:
        raise InputError("future", f"has no rows for series {series.unique_id!r}")
    _, here, there = np.intersect1d(ds, given.ds, return_indices=True)
    known[here] = given.known[there]
    absent = np.flatnonzero(np.isnan(known[:h]).any(axis=1))
    if len(absent):
        where = f"series {series.unique_id!r} at {format_times(ds)[absent[0]]}"
        raise InputError("future", f"lacks {', '.join(names)} for {where}")
    return known
