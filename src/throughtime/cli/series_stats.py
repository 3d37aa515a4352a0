"""`throughtime stats` for numeric series: their level and spread, and whether they drift."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from throughtime.cli.output import build_table, say
from throughtime.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.table import Table

    from throughtime.data.dataset import Dataset
    from throughtime.series.stationarity import Drift

MIN_ROWS = 30
"""A tenth of a series is compared with the others from three values on."""


class Column(NamedTuple):
    """One column of one series, on the grid that a forecaster reads: NaN is a missing value."""

    series: str
    name: str
    values: NDArray[np.float64]


def series_stats(dataset: Dataset, split: str, plot: Path | None) -> tuple[dict[str, Any], Table]:
    """Figures of each column of each series, and a table of them; drift compares the means of ten parts.

    `plot` draws the first series that is long enough.
    """
    rows: list[dict[str, Any]] = []
    drawn: tuple[Column, Drift] | None = None
    columns, notes = _columns(dataset, split)
    for column in columns:
        drift = _drift(column.values)
        if drift is not None and drawn is None:
            drawn = column, drift
        rows.append({"series": column.series, "column": column.name, **_figures(column.values, drift)})
    for note in notes:
        say(note)
    if plot is not None:
        _draw(dataset, drawn, len(rows), plot)
    return {"data": dataset.name, "series": rows, "notes": notes}, _table(dataset.name, rows)


def _columns(dataset: Dataset, split: str) -> tuple[list[Column], list[str]]:
    """The columns that `train forecast` can read, and its notes about them."""
    from throughtime.data.readers.panel import read_series_panel

    columns: list[Column] = []
    notes: list[str] = []
    for path in dataset.files(split):
        of_file, of_file_notes = _read_columns(path, dataset)
        columns += of_file
        notes += of_file_notes
    if not columns:  # made by the package
        columns = [Column(series.unique_id, "y", series.y) for series in read_series_panel(dataset).series]
    cut = [column.values[dataset.stretch(split, len(column.values))] for column in columns]
    return [column._replace(values=values) for column, values in zip(columns, cut, strict=True)], notes


def _read_columns(path: Path, dataset: Dataset) -> tuple[list[Column], list[str]]:
    from throughtime.data.readers.panel import Roles, read_panel
    from throughtime.data.readers.series import SeriesTable

    assert isinstance(dataset.reader, SeriesTable)
    given = dataset.reader
    time, owner, values = given.time, given.identifier, given.values
    table = SeriesTable(time, owner, values, missing=True, date_format=dataset.date_format)
    layout = table.layout(path)
    names = layout.columns
    left: tuple[str, ...] = ()
    if layout.header and "y" in names:
        # A forecaster reads only y, so text in another column is no error.
        left = table.columns_with_text(path, "y")
        names = tuple(name for name in names if name not in left)
    roles = Roles(names if layout.header else (), id=owner, time=time)
    panel = read_panel(path, roles, dataset.bad, dataset.date_format)
    columns = []
    for number, entry in enumerate(panel.series):
        name = names[number % len(names)]
        series = entry.unique_id
        if len(names) > 1:  # a panel calls each by its column
            series = layout.name if layout.identifier is None else series.removesuffix(f"/{name}")
        columns.append(Column(series, name, entry.y))
    words = [f"{path.name}: {', '.join(left)} left out: not all values are numbers."] if left else []
    return columns, [*words, *panel.notes]


def _drift(values: NDArray[np.float64]) -> Drift | None:
    from throughtime.series.stationarity import drift

    try:
        return drift(values)
    except InputError:
        return None  # there are too few values to compare


def _figures(values: NDArray[np.float64], drift: Drift | None) -> dict[str, Any]:
    """The figures of one series; a short one has no drift, and one without values no level."""
    import numpy as np

    there = values[~np.isnan(values)]
    return {
        "steps": len(values),
        "missing": len(values) - len(there),
        "mean": float(there.mean()) if len(there) else None,
        "deviation": float(there.std()) if len(there) else None,
        "minimum": float(there.min()) if len(there) else None,
        "maximum": float(there.max()) if len(there) else None,
        "segments": [] if drift is None else [segment._asdict() for segment in drift.segments],
        "spread": None if drift is None else drift.spread,
        "spread_by_chance": None if drift is None else drift.expected,
        "drifts": None if drift is None else drift.drifts,
    }


def _draw(dataset: Dataset, drawn: tuple[Column, Drift] | None, count: int, plot: Path) -> None:
    from throughtime import plots

    if drawn is None:
        raise InputError(
            dataset.name, f"has no series of {MIN_ROWS} values or more, so --plot has no drift to draw"
        )
    column, drift = drawn
    plots.drift(column.values, drift, path=plot)
    name = f"{column.series}, column {column.name}"
    say(f"wrote {plot}" + (f": {name}, the first of {count} series that is long enough" if count > 1 else ""))


def _table(name: str, rows: list[dict[str, Any]]) -> Table:
    headings = ["series", "column", ">steps", ">mean", ">sd", ">min", ">max"]
    headings += [">spread of the tenths' means", ">by chance", "the level"]
    table = build_table(*headings, title=name, title_justify="left")
    for row in rows:
        cells = [row[key] for key in ("mean", "deviation", "minimum", "maximum")]
        numbers = ["–" if level is None else f"{level:.4g}" for level in cells]
        spread, verdict = ["–", "–"], "too short"
        if row["drifts"] is not None:
            spread = [f"{row[key]:.2f} sd" for key in ("spread", "spread_by_chance")]
            verdict = "drifts" if row["drifts"] else "stays"
        table.add_row(str(row["series"]), row["column"], f"{row['steps']:,}", *numbers, *spread, verdict)
    return table
