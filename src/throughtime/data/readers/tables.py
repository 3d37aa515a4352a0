"""Tables of every format, CSV, TSV, JSON lines and Parquet: their rows, and the names of their columns."""

from __future__ import annotations

import csv
import datetime
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from throughtime.data.source import MemoryFile, Place, lines_or_errors, open_source, text_suffix
from throughtime.errors import InputError, first_line, import_optional, unknown
from throughtime.text.texts import format_count

NumberedRow = tuple[int, list[Any] | InputError]
SHOWN = 8
PAIRS = (("source", "target"), ("src", "tgt"), ("src", "trg"))
"""Usual names of the columns of pairs."""
TEXTS = frozenset(
    "text sentence review comment content body message document utterance tweet question query".split()
)
LABELS = frozenset(
    "label labels class category stars rating sentiment polarity intent topic emotion genre score".split()
)

csv.field_size_limit(max(csv.field_size_limit(), 1 << 20))  # a text may be a chapter, of more than 131,072

MAX_CELLS = 100_000
"""Cells of a row: guessing what its columns mean takes some microseconds for each."""
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*", re.ASCII)
_NUMBERS = re.compile(r"[-+/\d.,:;\s\"TeE]*", re.ASCII)


def find_delimiter(path: Path) -> str:
    r"""Return the delimiter of a table: a comma, unless its first rows suggest semicolons or tabs.

    If several fit, as in `2020-01-01;1,5`, rows of numbers have semicolons, and a `.tsv` file has tabs.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "rain.csv"
    ...     _ = file.write_text("ds;y\n2020-01-01;1,5\n")
    ...     find_delimiter(file)
    ';'
    """
    rows = [
        line
        for _, line in islice(lines_or_errors(path, drop=True), 2)
        if isinstance(line, str) and line.strip()
    ]
    if text_suffix(path) == ".tsv" and _parts(rows, "\t"):
        return "\t"
    numbers = all(_NUMBERS.fullmatch(row) for row in rows)
    fitting = [delimiter for delimiter in ",;\t" if _parts(rows, delimiter)]
    return fitting[-1] if fitting and (numbers or fitting[0] != ",") else ","


def _parts(rows: list[str], delimiter: str) -> bool:
    """Return whether this delimiter gives all rows the same number of cells, more than one."""
    try:
        widths = {len(row) for row in csv.reader(rows, delimiter=delimiter)}
    except csv.Error:
        return False
    return len(widths) == 1 and min(widths) > 1


def csv_rows(path: Path, delimiter: str | None = None) -> Iterator[NumberedRow]:
    """Yield line number and cells (or the error) of each row; quoted cells may span several lines."""
    faults: dict[int, InputError] = {}
    reader = csv.reader(_read_for_csv(path, faults), delimiter=delimiter or find_delimiter(path), strict=True)
    while True:
        first = reader.line_num + 1
        row: list[str] | InputError
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            row = InputError(str(path), _problem(str(error)), line=first)
        if faults:
            row = faults[min(faults)]
            faults.clear()
        if row:
            yield first, _check_width(path, first, row)


def tab_rows(path: Path) -> Iterator[NumberedRow]:
    """Yield line number and cells (or the error) of each row of a table with tabs; a blank line is [""]."""
    for number, line in lines_or_errors(path, drop=True):
        if isinstance(line, InputError):
            yield number, line
        else:
            yield number, _check_width(path, number, line.split("\t") if line.strip(" ") else [""])


def _check_width(path: Path, number: int, row: list[str] | InputError) -> list[str] | InputError:
    if isinstance(row, InputError) or len(row) <= MAX_CELLS:
        return row
    problem = f"has {len(row):,} cells, more than the {MAX_CELLS:,} that a table may have; is it a table?"
    return InputError(str(path), problem, line=number)


def read_first_row(path: Place, rows: Iterator[NumberedRow]) -> tuple[int, list[str]]:
    """Return the first row; without a readable one, nothing in a table can be trusted."""
    number, row = next(rows, (1, InputError(str(path), "has no rows")))
    if isinstance(row, InputError):
        raise row
    return number, row


def shown_names(names: Iterable[str]) -> str:
    """Format the first few names of columns or fields for a message."""
    names = list(names)
    return ", ".join(map(repr, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "") or "none"


def place(path: Place, names: list[str], column: str) -> int:
    """Return the position of a column of this name."""
    if column not in names:
        raise InputError(str(path), str(unknown("column", column, names)), line=1)
    return names.index(column)


def width_error(path: Place, number: int, row: list[str], width: int) -> InputError:
    """Return the error for a row that is longer or shorter than the first."""
    count = format_count(len(row), "cell")
    problem = f"has {count}, the first row has {width}; quote a text that holds a comma"
    return InputError(str(path), problem, line=number)


def _read_for_csv(path: Path, faults: dict[int, InputError]) -> Iterator[str]:
    """Yield lines for the CSV parser; the error of a bad line is noted for its row."""
    for number, line in lines_or_errors(path, drop=True):
        if isinstance(line, InputError):
            faults[number] = line
            yield "\n"
        else:
            yield line + "\n"


def _problem(error: str) -> str:
    if "end of data" in error:
        return 'opens a quote that is never closed; close it, or double a quote that is text ("")'
    if "limit" in error:
        return f"holds a cell of more than {csv.field_size_limit():,} characters; is a quote never closed?"
    return 'has text after a closing quote; double a quote that is part of the text ("")'


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
    except (ValueError, OSError, TypeError, LookupError, OverflowError, NotImplementedError) as error:
        raise InputError(str(path), f"cannot be read as Parquet: {first_line(error)}") from None


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
