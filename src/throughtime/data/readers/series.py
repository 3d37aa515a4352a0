"""Time series in a CSV file, one or many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain, islice
from typing import Any, ClassVar

from throughtime.data.readers import dates
from throughtime.data.readers.dates import ISO, DateCell, DateForm
from throughtime.data.readers.layout import WHOLE, Row, SeriesLayout, find_layout
from throughtime.data.readers.tables import NumberedRow, number_rows, read_first_row
from throughtime.data.records import Kind, Observation
from throughtime.data.source import BadRecords, Place
from throughtime.errors import InputError

SAMPLE = 100
"""Rows that are looked at to find out what the columns hold."""


class SeriesTable:
    """A CSV file in one of three layouts, recognised by its header and first row.

    Long (`unique_id,ds,y`: a row is one time of one series), wide (a column of dates and columns of values),
    or values only (the times are 0, 1, 2, ...). The time is the column `time`, else `ds`, else the first with
    dates; a column chosen by name may hold whole numbers. The name of the series is the column `identifier`,
    else `unique_id`, else the only one of text. The values are the columns `values`, else all other columns.
    A missing value (empty, NaN, NA, null) is an error, or NaN if `missing` is true.

    Cells are separated by `delimiter`, else by what the first rows suggest: commas, tabs, or semicolons, with
    which 1,5 is a number too. Dates are in ISO form or in `date_format`, a format of `strptime`. Without it,
    dates such as 31.12.2023 or 12/31/2023 are read if only one order fits all dates of the file, and so are
    English names of months. In a column with a usual name such as date, whole numbers like 20231231 are dates
    if all of them can be.
    """

    name: ClassVar[str] = "series"
    kind: ClassVar[Kind] = "series"

    def __init__(
        self,
        time: str | None = None,
        identifier: str | None = None,
        values: tuple[str, ...] = (),
        delimiter: str | None = None,
        missing: bool = False,
        date_format: str | None = None,
    ) -> None:
        if delimiter is not None and len(delimiter) != 1:
            problem = f"option delimiter is {delimiter!r}, expected one character"
            raise InputError("the reader series", problem)
        self.time, self.identifier, self.values = time, identifier, values
        self.delimiter, self.missing = delimiter, missing
        self.date_format = None if date_format is None else dates.check_date_format(date_format)

    def with_values(self, values: tuple[str, ...], identifier: str | None = None) -> SeriesTable:
        """Return a reader of these columns that is otherwise the same."""
        other = copy(self)
        other.values, other.identifier = values, self.identifier or identifier
        return other

    def read(self, paths: Sequence[Place], bad: BadRecords) -> Iterator[Observation]:
        """Yield one `Observation` for each value; several columns of a row are series of their own."""
        for path in paths:
            for layout, row in self.rows(path, bad):
                for column, value in zip(layout.columns, row.values, strict=True):
                    name = layout.series_name(row.unique_id, column, len(row.values))
                    yield Observation(name, row.ds, value)

    def rows(self, path: Place, bad: BadRecords) -> Iterator[tuple[SeriesLayout, Row]]:
        """Yield the good rows of a file, each later than the one before it in its series."""
        last: dict[str, Row] = {}
        for layout, row in self.any_rows(path, bad):
            try:
                last[row.unique_id] = row = _after(path, row, last.get(row.unique_id))
            except InputError as error:
                bad.handle(error)
                continue
            yield layout, row

    def any_rows(self, path: Place, bad: BadRecords) -> Iterator[tuple[SeriesLayout, Row]]:
        """Yield the good rows of a file in the order of the file."""
        layout, rows = self.open_rows(path)
        for number, cells in rows:
            try:
                if isinstance(cells, InputError):
                    raise cells
                row = layout.row(number, cells)
            except InputError as error:
                bad.handle(error)
                continue
            yield layout, row

    def open_rows(self, path: Place) -> tuple[SeriesLayout, Iterator[NumberedRow]]:
        """Return the role of each column of a file, and its rows."""
        lines = number_rows(path, self.delimiter)
        layout, waiting = self._layout(path, lines)
        return layout, chain(waiting, lines)

    def layout(self, path: Place) -> SeriesLayout:
        """Return the role of each column of a file."""
        return self.open_rows(path)[0]

    def columns_with_text(self, path: Place, target: str) -> tuple[str, ...]:
        """Return the columns beside `target` that hold more than numbers in a row that is good otherwise."""
        layout, rows = self.open_rows(path)
        alone = {
            name: replace(layout, values=(each,), columns=(name,))
            for name, each in zip(layout.columns, layout.values, strict=True)
        }
        good = alone.pop(target).is_good
        names_with_text: set[str] = set()
        for number, cells in rows:
            if isinstance(cells, list) and good(number, cells):
                names_with_text |= {
                    name for name, layout_alone in alone.items() if not layout_alone.is_good(number, cells)
                }
        return tuple(name for name in alone if name in names_with_text)

    def _dates(self, path: Place, layout: SeriesLayout) -> Iterator[DateCell]:
        """Yield the dates of a whole file, as they are written."""
        assert layout.time is not None
        for line, cells in number_rows(path, self.delimiter):
            if isinstance(cells, list) and len(cells) == layout.width:
                series = "" if layout.identifier is None else cells[layout.identifier]
                yield DateCell(line, series, cells[layout.time].strip())

    def _compact(self, path: Place, first: list[str], sample: list[str]) -> str | None:
        """Return the column with a usual name for times if its whole numbers are all dates like 20231231."""
        names = [cell.strip() for cell in first]
        if not sample or any(map(dates.like_date, sample)):
            return None
        usual = [name for name in names if name.lower() in dates.TIME_NAMES and name != self.identifier]
        name = self.time or ("ds" if "ds" in usual else next(iter(usual), None))
        if name not in usual or len(names) < 2 or not dates.compact_date(sample[names.index(name)]):
            return None
        rows = (cells for _, cells in number_rows(path, self.delimiter) if isinstance(cells, list))
        cells = (cells[names.index(name)].strip() for cells in rows if len(cells) == len(names))
        return name if all(dates.compact_date(cell) for cell in cells if WHOLE.fullmatch(cell)) else None

    def _layout(self, path: Place, lines: Iterator[NumberedRow]) -> tuple[SeriesLayout, list[NumberedRow]]:
        """Return the layout, and the lines read to find it that still have to be processed."""
        number, first = read_first_row(path, lines)
        waiting = [*islice(lines, SAMPLE)]
        rows = [row for _, row in waiting if isinstance(row, list) and len(row) == len(first)]
        sample = rows[0] if rows else []
        form = ISO if self.date_format is None else DateForm(format=self.date_format)
        time = self.time
        if form == ISO and (named := self._compact(path, first, sample)) is not None:
            time, form = named, DateForm(format=dates.COMPACT)
        options: dict[str, Any] = {"identifier": self.identifier, "values": self.values}
        layout = find_layout(path, first, rows, time=time, form=form, missing=self.missing, **options)
        column, values = layout.time, sample if layout.header else first
        unread = column is not None and column < len(values) and not dates.parse_date(values[column])
        if form == ISO and layout.dated and unread:
            layout = replace(layout, form=dates.settle_form(self._dates(path, layout), str(path)))
        if not layout.header:
            return layout, [(number, first), *waiting]
        if not waiting:
            raise InputError(str(path), "has a header but no rows of values", line=1)
        return layout, waiting


def _after(path: Place, row: Row, before: Row | None) -> Row:
    """Return the row with its time; raise an error unless that is later than the row before it."""
    if row.moment is None:
        index = 0 if before is None else before.moment + 1
        return row._replace(ds=str(index), moment=index)
    if before is None or row.moment > before.moment:
        return row
    if row.moment == before.moment:
        problem = f"repeats the time of line {before.line}, {row.ds}; keep one row for each time"
    else:
        problem = f"is out of order, {row.ds} comes after {before.ds}; sort the rows by time"
    raise InputError(str(path), problem, line=row.line)
