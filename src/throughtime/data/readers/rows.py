"""Rows of a CSV file, each with the line on which it starts."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from throughtime.data.source import lines_or_errors
from throughtime.errors import InputError, unknown

NumberedRow = tuple[int, list[str] | InputError]


def csv_rows(path: Path, delimiter: str = ",") -> Iterator[NumberedRow]:
    """Line and cells of each row, or its error; quoted cells may run over lines, blank ones are left out."""
    faults: dict[int, InputError] = {}
    reader = csv.reader(_fed(path, faults), delimiter=delimiter, strict=True)
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


def place(path: Path, names: list[str], column: str | int) -> int:
    """Where a column stands, given by its name in the header or by its number from 0."""
    if isinstance(column, str):
        if column not in names:
            raise InputError(str(path), str(unknown("column", column, names)), line=1)
        return names.index(column)
    if not 0 <= column < len(names):
        raise InputError(str(path), f"has {len(names)} columns, so no column {column} (from 0)", line=1)
    return column


def ragged(path: Path, number: int, row: list[str], width: int) -> InputError:
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
