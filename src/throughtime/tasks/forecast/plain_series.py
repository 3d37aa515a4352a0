"""Build panels from plain values, the input of exported forecasters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Panel, Series
from throughtime.errors import InputError
from throughtime.runtime.forecast import History

PlainSeries = Mapping[str, Sequence[float]] | Sequence[History]
"""Values by name of the series, oldest first; or `History`s, which can hold further columns."""


class GivenPanels(NamedTuple):
    """The series, and the known columns of the rows to forecast."""

    panel: Panel
    future: Panel | None


def panels_of(
    given: Mapping[str, Any] | Sequence[Any], known: tuple[str, ...], past: tuple[str, ...]
) -> GivenPanels:
    """The panels of these series for a model that reads these columns; their times are positions from 0 on.

    >>> panel, future = panels_of([History("shop", [3.0, 1.0], known=[[0], [1], [1]])], ("sale",), ())
    >>> panel.series[0].known.ravel(), future.series[0].ds
    (array([0., 1.]), array([0, 1, 2]))
    """
    histories = [History(*one) for one in given.items()] if isinstance(given, Mapping) else list(given)
    for place, one in enumerate(histories):
        if not isinstance(one, History):
            raise InputError(f"data[{place}]", f"is of type {type(one).__name__}, expected a History")
    names = [one.unique_id for one in histories]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError("data", f"has two series named {twice!r}; give each a name of its own")
    series, coming = [], []
    for one in histories:
        rows = len(one.y)
        ahead = _columns(one, "known", one.known, known, rows)
        own = Series.of(one.unique_id, one.y)
        series.append(
            replace(own, known=ahead[:rows], past=_columns(one, "past", one.past, past, rows)[:rows])
        )
        coming.append(replace(Series.of(one.unique_id, np.full(len(ahead), np.nan)), known=ahead))
    panel = Panel(tuple(series), None, known, past, undated=True)
    return GivenPanels(panel, Panel(tuple(coming), None, known, undated=True) if known else None)


def _columns(history: History, role: str, given: Any, names: Sequence[str], rows: int) -> NDArray[np.float64]:
    """The further columns that a model reads, [rows or more, columns]."""
    if not names:
        return np.zeros((rows, 0))
    table = np.array(given, dtype=float)
    if table.ndim != 2 or table.shape[1] != len(names) or len(table) < rows:
        raise InputError(
            f"series {history.unique_id!r}",
            f"its {role} columns have the shape {list(table.shape)}, expected [{rows} or more, "
            f"{len(names)}]: {', '.join(names)}",
        )
    return table
