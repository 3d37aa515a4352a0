"""Tables of every format: their rows, and the names of their columns."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from throughtime.data.readers.tables import (
    DECIMAL_COMMA,
    NumberedRow,
    csv_rows,
    find_delimiter,
    shown_names,
    tab_rows,
)
from throughtime.data.source import MemoryFile, Place, lines_or_errors, open_source, text_suffix
from throughtime.errors import InputError, import_optional


def parquet_rows(path: Path) -> Iterator[NumberedRow]:
    """Yield the names of the columns, then the number and the values of each row."""
    with open_source(path) as file:
        content = io.BytesIO(file.read())
    parquet = import_optional("pyarrow.parquet", feature=f"reading {path}", extra="parquet")
    try:
        table = parquet.ParquetFile(content)
        yield 1, list(table.schema_arrow.names)
        batches = ([column.to_pylist() for column in batch.columns] for batch in table.iter_batches())
        yield from enumerate((list(row) for batch in batches for row in zip(*batch, strict=True)), start=2)
    except (ValueError, OSError) as error:
        raise InputError(str(path), f"cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def json_rows(path: Path) -> Iterator[NumberedRow]:
    """Yield the fields of the first JSON object, then the values of each object; skip blank lines.

    In the place of a field that an object lacks, there is an error, in case the field is needed.
    """
    names: list[str] = []
    waiting: list[NumberedRow] = []
    for number, line in lines_or_errors(path):
        if isinstance(line, str) and not line.strip():
            continue
        fields = line if isinstance(line, InputError) else _json_object(path, number, line)
        if isinstance(fields, dict) and not names:
            names = list(fields)
            yield 1, [*names]
            yield from waiting
        row = fields if isinstance(fields, InputError) else _values(fields, names)
        if names:
            yield number, row
        else:
            waiting.append((number, row))
    yield from waiting if not names else ()


def _values(fields: dict[str, Any], names: list[str]) -> list[Any]:
    def describe(name: str) -> ValueError:
        return ValueError(f"has no field {name!r}, its fields are {shown_names(fields)}")

    return [fields[name] if name in fields else describe(name) for name in names]


def _json_object(path: Path, number: int, line: str) -> dict[str, Any] | InputError:
    """Return the fields of a line, or what is wrong with it."""
    try:
        fields = json.loads(line)
    except RecursionError:
        problem = "is nested too deeply, expected one flat JSON object"
    except json.JSONDecodeError as error:
        problem = f"is not JSON: {error.msg} at column {error.colno}"
    except ValueError as error:
        problem = f"is not JSON: {error}"
    else:
        if isinstance(fields, dict):
            translation = fields.get("translation")
            return translation if isinstance(translation, dict) else fields
        problem = 'is not a JSON object, expected one such as {"src": "Go.", "tgt": "Va !"}'
    return InputError(str(path), problem, line=number)


FORMATS: dict[str, Callable[[Path], Iterator[NumberedRow]]] = {
    ".csv": csv_rows,
    ".tsv": tab_rows,
    ".jsonl": json_rows,
    ".parquet": parquet_rows,
}
"""How the rows of a table are read, by its suffix."""
SAMPLE_ROWS = 1_000
"""Rows that are looked at to find out what the columns hold."""
SAMPLE_CELLS = 100_000
"""Cells of these rows after which no further row is looked at."""


class DataTable:
    """A table of any format: a file, or the rows of Python objects with the names of the columns first.

    `format` is a key of `FORMATS`; by default the suffix or else the first line decides.
    """

    def __init__(self, path: Place, format: str | None = None) -> None:  # noqa: A002
        self.path, self.format = path, format or ("" if isinstance(path, MemoryFile) else _format(path))
        self.has_names = self.format not in (".csv", ".tsv")

    def rows(self) -> Iterator[NumberedRow]:
        """Yield number and cells (or the error) of each row; names come first if the format has them."""
        if isinstance(self.path, MemoryFile):
            return enumerate(self.path.items, start=1)
        return FORMATS[self.format](self.path)

    @cached_property
    def sample(self) -> list[list[Any]]:
        """The first rows that can be read, with a limited number of cells."""
        sample: list[list[Any]] = []
        for _, row in islice(self.rows(), SAMPLE_ROWS):
            if isinstance(row, list) and (row != [""] or self.has_names):
                sample.append(row)
            if len(sample) > 1 and sum(map(len, sample)) > SAMPLE_CELLS:
                break
        return sample

    @cached_property
    def first(self) -> list[str]:
        """The cells of the first row: perhaps names."""
        return [str(cell).strip() for cell in self.sample[0]] if self.sample else []


def _format(path: Path) -> str:
    suffix = text_suffix(path)
    if suffix in FORMATS:
        return suffix
    line = next((line for _, line in lines_or_errors(path)), "")
    if not isinstance(line, str):
        return ".csv"
    return ".jsonl" if line.startswith("{") else ".tsv" if "\t" in line else ".csv"


def number_rows(path: Place, delimiter: str | None = None) -> Iterator[NumberedRow]:
    """Yield the rows of a table of series as text; if semicolons separate the cells, 1,5 is 1.5."""
    if isinstance(path, MemoryFile):
        yield from enumerate(path.items, start=1)
        return
    if delimiter is None and text_suffix(path) in (".jsonl", ".parquet"):
        rows = list(DataTable(path).rows())
        cells = iter(format_cells([row for _, row in rows if isinstance(row, list)]))
        yield from ((number, next(cells) if isinstance(row, list) else row) for number, row in rows)
        return
    delimiter = delimiter or find_delimiter(path)
    for number, row in csv_rows(path, delimiter):
        if delimiter == ";" and isinstance(row, list):
            row = [cell.replace(",", ".") if DECIMAL_COMMA.fullmatch(cell) else cell for cell in row]
        yield number, row


def format_cells(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    """Return the cells of a table of series as a CSV file would hold them."""
    columns = [_format_column(column) for column in zip(*rows, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def _format_column(column: Sequence[Any]) -> list[str]:
    # NaN and NaT differ from themselves; a field that is missing is an error.
    present = [None if isinstance(value, ValueError) or value != value else value for value in column]
    times = [value for value in present if isinstance(value, datetime.datetime)]
    if times and all(time.time() == datetime.time() and time.tzinfo is None for time in times):
        present = [value.date() if isinstance(value, datetime.datetime) else value for value in present]
    return ["" if value is None else str(value) for value in present]
