"""Read a table of series as a panel: assign roles to columns, sort rows, and fill gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from throughtime.data.memory import MemoryReader
from throughtime.data.panel import YEARS, Panel, Series, Times, make_regular
from throughtime.data.readers.layout import Row, SeriesLayout, ask_columns
from throughtime.data.readers.series import SeriesTable
from throughtime.data.readers.tables import shown_names
from throughtime.data.source import BadRecords, Place, naming_items
from throughtime.errors import InputError

if TYPE_CHECKING:
    from throughtime.data.dataset import Dataset


class Roles(NamedTuple):
    """The columns to forecast, and helping columns: known in the future too, or in the past only.

    By default, the target is the column `y`; if there is none, every other column is a series to forecast.
    `id` names the series and `time` their times; by default, they are found by their names or what they hold.
    """

    target: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    past: tuple[str, ...] = ()
    id: str | None = None
    time: str | None = None


def read_series_panel(dataset: Dataset, roles: Roles = Roles()) -> Panel:  # noqa: B008
    """Read all series of a data set."""
    if dataset.kind != "series":
        raise InputError(
            "data",
            f"{dataset.name} holds {dataset.kind} data; forecasting needs series, as in a table of ds and y",
        )
    if dataset.panel is not None:
        return dataset.panel
    if isinstance(dataset.reader, MemoryReader):  # an embedded series
        values = [observation.y for observation in dataset.records()]
        times = np.arange(1, len(values) + 1)
        return make_regular([Series.of(dataset.name.partition("/")[2], values, times)])
    if len(dataset.tables) > 1:
        problem = f"{dataset.name} has {len(dataset.tables)} tables; give one, which is split along time"
        raise InputError("data", problem)
    dataset.bad = BadRecords(dataset.bad.skip)
    table = dataset.tables[0]
    assert isinstance(dataset.reader, SeriesTable)
    with naming_items(table):
        return _panel(table, roles, dataset.bad, dataset.reader, sizes=dataset.series_sizes)


def read_panel(
    path: Place | str,
    roles: Roles = Roles(),  # noqa: B008
    bad: BadRecords | None = None,
    date_format: str | None = None,
) -> Panel:
    r"""Read all series of a file; rows are sorted, missing rows become NaN, and `notes` mention both.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "load.csv"
    ...     _ = file.write_text("ds,y,heat\n2020-01-03,3,9\n2020-01-01,1,8\n2020-01-02,,7\n")
    ...     panel = read_panel(file, Roles(known=("heat",)))
    >>> panel.series[0].y, panel.series[0].known.ravel(), panel.known_names
    (array([ 1., nan,  3.]), array([8., 7., 9.]), ('heat',))
    """
    file = Path(path) if isinstance(path, str) else path
    with naming_items(file):
        reader = SeriesTable(roles.time, roles.id, date_format=date_format)
        return _panel(file, roles, bad or BadRecords(), reader)


def read_future(path: Place | str, roles: Roles, date_format: str | None = None) -> Panel:
    """Read the columns that are known in the future from a file that may have no others."""
    if not roles.known:
        raise InputError("future", "is for models with columns that are known in the future; leave it out")
    file = Path(path) if isinstance(path, str) else path
    reader = SeriesTable(roles.time, roles.id, date_format=date_format)
    return _panel(file, Roles(known=roles.known), BadRecords(), reader, future=True)


def choose_series(
    path: Place, roles: Roles, reader: SeriesTable, future: bool = False
) -> tuple[SeriesTable, SeriesLayout, tuple[str, ...], str | None]:
    """Return a reader of the columns of these roles, the layout, the target, and a note, if any."""
    values = roles.known if future else roles.target and (*roles.target, *roles.known, *roles.past)
    layout = reader.with_values(values).layout(path)
    target, note = ((), None) if future else _targets(layout, roles)
    names = (*target, *roles.known, *roles.past)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError("target, known and past", f"name the column {twice!r} twice; give it one role only")
    if not layout.header and (roles.known or roles.past or roles.target):
        raise InputError(str(path), "has no header, so its columns cannot be chosen by name", line=1)
    chosen = reader.with_values(names if layout.header else (), layout.identifier_name)
    chosen.missing = True
    return chosen, layout, target, note


def _panel(
    path: Place,
    roles: Roles,
    bad: BadRecords,
    reader: SeriesTable,
    *,
    future: bool = False,
    sizes: dict[str, int] | None = None,
) -> Panel:
    """Read a panel; `sizes` receives the number of rows of each series."""
    chosen, layout, target, note = choose_series(path, roles, reader, future)
    rows: dict[str, list[Row]] = {}
    for found_layout, row in chosen.any_rows(path, bad):
        layout = found_layout
        rows.setdefault(row.unique_id, []).append(row)
    if not rows:
        raise InputError(str(path), "has no row that can be read")
    if sizes is not None:
        sizes |= {name: len(mine) for name, mine in rows.items()}
    late = sum(_sort(path, mine, bad, layout) for mine in rows.values())
    sorted_note = [f"{path.name}: rows out of order in time were sorted, {late:,} of them."] if late else []
    series = [
        entry for name, mine in rows.items() for entry in _series(name, layout, mine, len(target), roles)
    ]
    panel = make_regular(series)
    notes = [*([note] if note else []), *sorted_note, *panel.notes]
    return replace(
        panel,
        known_names=roles.known,
        past_names=roles.past,
        notes=tuple(notes),
        target_names=target if layout.header else (),
    )


def _targets(layout: SeriesLayout, roles: Roles) -> tuple[tuple[str, ...], str | None]:
    """Return the columns to forecast, and a note on columns that are not used."""
    helping = {*roles.known, *roles.past}
    free = tuple(name for name in layout.columns if name not in helping)
    if roles.target:
        return roles.target, None
    if not free:
        problem = "has no column left to forecast: all others are in known or past"
        raise InputError(str(layout.path), problem, line=1)
    if "y" not in free or len(free) == 1:
        return free, None
    others = shown_names(name for name in free if name != "y")
    note = f"{layout.path.name}: column y is forecast; to use {others}, set known=[...] or past=[...]."
    return ("y",), note


def _sort(path: Place, rows: list[Row], bad: BadRecords, layout: SeriesLayout) -> int:
    """Sort the rows of one series by time, in place; return the number that were out of order.

    Rows that repeat a time are bad records, and are removed, unless a column of numbers may name the series.
    """
    if rows[0].moment is None:
        return 0
    late = sum(bool(row.moment < before.moment) for before, row in pairwise(rows))
    rows.sort(key=lambda row: row.moment)
    unique = rows[:1]
    for row in rows[1:]:
        if row.moment == unique[-1].moment:
            problem = f"repeats the time of line {unique[-1].line}, {row.ds}, in series {row.unique_id!r}"
            if not bad.skip and (names := _find_numbered(rows, layout)):
                others = (name for name in layout.columns if name != names)
                raise ask_columns(path, problem, {"id": names, "target": next(others)}, row.line)
            bad.handle(InputError(str(path), f"{problem}; keep one row for each time", line=row.line))
        else:
            unique.append(row)
    rows[:] = unique
    return late


def _find_numbered(rows: Sequence[Row], layout: SeriesLayout) -> str | None:
    """Return the column of whole numbers that recur, each at most once at a time, if there is one."""
    if not layout.header or layout.identifier is not None or len(layout.columns) < 2:
        return None
    for each, name in enumerate(layout.columns):
        numbers = [row.values[each] for row in rows]
        once = len({(row.moment, number) for row, number in zip(rows, numbers, strict=True)}) == len(rows)
        if once and all(number == int(number) for number in numbers) and 2 * len({*numbers}) <= len(rows):
            return name
    return None


def _series(
    unique_id: str, layout: SeriesLayout, rows: Sequence[Row], targets: int, roles: Roles
) -> list[Series]:
    """Return one series for each target column of these rows."""
    values = np.array([row.values for row in rows], dtype=np.float64)
    ds = _times(layout, rows)
    if not layout.header:
        targets = values.shape[1]
    helpers = targets + len(roles.known)
    known, past = values[:, targets:helpers], values[:, helpers:]
    if not targets:
        return [Series(unique_id, ds, np.full(len(ds), np.nan), known, past)]
    names = layout.columns[:targets]
    return [
        Series(layout.series_name(unique_id, column, targets), ds, values[:, position], known, past)
        for position, column in enumerate(names)
    ]


def _times(layout: SeriesLayout, rows: Sequence[Row]) -> Times:
    if not layout.dated:
        places = [number if row.moment is None else row.moment for number, row in enumerate(rows)]
        return np.array(places, dtype=np.int64)
    for row in rows:
        if row.moment.year not in YEARS:
            problem = f"has the year of {row.ds}, expected {YEARS[0]} to {YEARS[-1]}"
            raise InputError(str(layout.path), problem, line=row.line)
    return np.array([row.moment for row in rows], dtype="datetime64[ns]")
