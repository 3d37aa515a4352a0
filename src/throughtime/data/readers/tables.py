"""Rows of CSV files and of tables with tabs, with their line numbers."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from throughtime.data.source import Place, lines_or_errors, text_suffix
from throughtime.errors import InputError, unknown
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
    rows = [line for _, line in islice(lines_or_errors(path), 2) if isinstance(line, str) and line.strip()]
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
    for number, line in lines_or_errors(path):
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
    for number, line in lines_or_errors(path):
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
