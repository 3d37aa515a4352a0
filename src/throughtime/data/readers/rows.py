"""Rows of a CSV file, each with the line on which it starts."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from throughtime.data.source import MemoryFile, Place, lines_or_errors, text_suffix
from throughtime.errors import InputError, unknown

NumberedRow = tuple[int, list[str] | InputError]

DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*", re.ASCII)
_NUMBERS = re.compile(r"[-+/\d.,:;\s\"TeE]*", re.ASCII)


def delimiter_of(path: Path) -> str:
    r"""What parts the cells of a table: a comma, unless its first rows rather have semicolons or tabs.

    Where both would do, as in `2020-01-01;1,5`, rows of numbers are parted by the semicolon, and a `.tsv`
    file by tabs.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "rain.csv"
    ...     _ = file.write_text("ds;y\n2020-01-01;1,5\n")
    ...     delimiter_of(file)
    ';'
    """
    rows = [line for _, line in islice(lines_or_errors(path), 2) if isinstance(line, str) and line.strip()]
    if text_suffix(path) == ".tsv" and _parts(rows, "\t"):
        return "\t"
    numbers = all(_NUMBERS.fullmatch(row) for row in rows)
    fitting = [delimiter for delimiter in ",;\t" if _parts(rows, delimiter)]
    return fitting[-1] if fitting and (numbers or fitting[0] != ",") else ","


def _parts(rows: list[str], delimiter: str) -> bool:
    """Whether all rows have the same number of cells with this between them, more than one."""
    try:
        widths = {len(row) for row in csv.reader(rows, delimiter=delimiter)}
    except csv.Error:
        return False
    return len(widths) == 1 and min(widths) > 1


def number_rows(path: Place, delimiter: str | None = None) -> Iterator[NumberedRow]:
    """Like `csv_rows`, also of a table in memory; where semicolons part the cells, 1,5 is 1.5."""
    if isinstance(path, MemoryFile):
        yield from enumerate(path.items, start=1)
        return
    delimiter = delimiter or delimiter_of(path)
    for number, row in csv_rows(path, delimiter):
        if delimiter == ";" and isinstance(row, list):
            row = [cell.replace(",", ".") if DECIMAL_COMMA.fullmatch(cell) else cell for cell in row]
        yield number, row


def csv_rows(path: Path, delimiter: str | None = None) -> Iterator[NumberedRow]:
    """Line and cells of each row, or its error; quoted cells may run over lines, blank ones are left out."""
    faults: dict[int, InputError] = {}
    reader = csv.reader(_fed(path, faults), delimiter=delimiter or delimiter_of(path), strict=True)
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
            yield first, row


def place(path: Place, names: list[str], column: str | int) -> int:
    """Where a column stands, given by its name in the header or by its number from 0."""
    if isinstance(column, str):
        if column not in names:
            raise InputError(str(path), str(unknown("column", column, names)), line=1)
        return names.index(column)
    if not 0 <= column < len(names):
        raise InputError(str(path), f"has {len(names)} columns, so no column {column} (from 0)", line=1)
    return column


def ragged(path: Place, number: int, row: list[str], width: int) -> InputError:
    """The error for a row that is longer or shorter than the first."""
    cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
    problem = f"has {cells}, the first row has {width}; quote a text that holds a comma"
    return InputError(str(path), problem, line=number)


def _fed(path: Path, faults: dict[int, InputError]) -> Iterator[str]:
    """Lines for the CSV parser; a bad line is noted as a fault of the row that it is part of."""
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
