"""The readers of tables: CSV, TSV, JSON lines and Parquet, for records of each kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from inspect import Parameter, Signature
from typing import Any, ClassVar

from throughtime.data.readers.columns import OPTIONAL, ROLES, ChosenColumns, choose_columns
from throughtime.data.readers.tables import DataTable, read_first_row, width_error
from throughtime.data.records import CellError, DescribedText, Kind, Pair, Records, shorten_repr
from throughtime.data.source import BadRecords, Place
from throughtime.errors import InputError
from throughtime.text.texts import format_count


class TableReader:
    """One record per row; the columns are chosen by name, or by number from 0 in a table without names.

    Its options are the roles of columns for its kind, and `header`, which says whether the first row holds
    names. Columns that are not given are found by their usual names, and those of pairs also by the names of
    two languages, or as the only two. With tabs, quotes have no special meaning: Tatoeba's sentences are full
    of them. A JSON line may also be `{"translation": {"en": "Go.", "fr": "Va !"}}`. A text with a label may
    be empty; a condition is a list of numbers, of which all have one length; words and their tags are lists,
    or separated by spaces.
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    suffixes: ClassVar[tuple[str, ...]]
    format: ClassVar[str | None] = None
    """The format of all files; by default that of each file."""

    def __init__(self, header: bool | None = None, **columns: str | int | None) -> None:
        self.columns, self.header = columns, header
        for role, column in columns.items():
            if isinstance(column, int) and column < 0:
                raise InputError(f"the reader {self.name}", f"option {role} counts columns from 0")

    def __init_subclass__(cls) -> None:
        """Declare the options, which follow from the kind."""
        names = (*ROLES[cls.kind], *OPTIONAL.get(cls.kind, ()), "header")
        cls.__signature__ = Signature([Parameter(name, Parameter.KEYWORD_ONLY) for name in names])  # type: ignore[attr-defined]

    def open(self, path: Place) -> tuple[DataTable, ChosenColumns]:
        """Return a table, whose first row must be readable, and the columns that are read from it."""
        table = DataTable(path, self.format)
        if table.format != ".tsv" or not table.sample:
            read_first_row(path, table.rows())
        return table, choose_columns(table, self.kind, self.columns, self.header)

    def read(self, paths: Sequence[Place], bad: BadRecords) -> Iterator[Any]:
        """Yield one record for each row of each file."""
        for path in paths:
            table, choice = self.open(path)
            rows = table.rows()
            if choice.header:
                next(rows)
            yield from self._records(rows, table, choice, bad)

    def _records(
        self, rows: Iterator[tuple[int, Any]], table: DataTable, choice: ChosenColumns, bad: BadRecords
    ) -> Iterator[Any]:
        where, width, places = str(table.path), len(table.first), choice.places
        needed = max(places) + 1
        # The cells of CSV and TSV are texts without control characters.
        plain = self.kind == "pairs" and not table.has_names
        convert = partial(self._convert, Records(self.kind), choice)
        for number, row in rows:
            if isinstance(row, InputError):
                bad.handle(row)
            elif row == [""] and table.format == ".tsv" and not plain:
                continue
            elif table.format == ".tsv" and len(row) < needed:
                bad.handle(_too_few(where, number, row, needed))
            elif table.format == ".csv" and len(row) != width:
                bad.handle(width_error(table.path, number, row, width))
            elif plain:
                yield Pair(row[places[0]], row[places[1]])
            else:
                try:
                    record = convert([row[each] for each in places])
                except ValueError as fault:
                    bad.handle(InputError(where, str(fault), line=number))
                else:
                    yield record

    def _convert(self, records: Records, choice: ChosenColumns, cells: list[Any]) -> Any:
        try:
            record = records.convert(cells[0] if self.kind == "text" else cells)
            if self.kind == "described" and not isinstance(record, DescribedText):
                raise CellError(cells[0], f"has {shorten_repr(cells[0])}, expected a list of finite numbers")
            return record
        except CellError as fault:
            columns = zip(choice.names.values(), cells, strict=False)
            names = [f", in column {name!r}" for name, cell in columns if cell is fault.cell]
            raise ValueError(f"{fault}{''.join(names[:1])}") from None


def _too_few(where: str, number: int, row: list[str], needed: int) -> InputError:
    if row == [""]:
        problem = "is blank, expected a pair; remove the line (tagged words need the reader columns)"
    else:
        problem = f"has {format_count(len(row), 'column')}, expected at least {needed} separated by tabs"
    return InputError(where, problem, line=number)


def _define_reader(name: str, kind: Kind, format: str | None = None) -> type[TableReader]:  # noqa: A002
    """Define the reader of tables of one kind; one of a format reads the files with its suffix."""
    attributes = {"name": name, "kind": kind, "format": format, "suffixes": (format,) if format else ()}
    return type(f"{name.title()}Reader", (TableReader,), attributes)


CSV, TSV, JSONL, PARQUET = (
    _define_reader(name, "pairs", f".{name}") for name in ("csv", "tsv", "jsonl", "parquet")
)
TEXTS = _define_reader("texts", "text")
LABELLED = _define_reader("labelled", "labelled")
DESCRIBED = _define_reader("described", "described")
TAGGED = _define_reader("tagged", "tags")
