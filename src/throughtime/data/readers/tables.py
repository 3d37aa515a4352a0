"""Rows of tables with their line numbers, and the roles of columns."""

from __future__ import annotations

import contextlib
import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from throughtime.data.source import BadRecords, MemoryFile, Place, good_lines, lines_or_errors, text_suffix
from throughtime.errors import InputError, unknown
from throughtime.text.texts import format_count

TEXT, LABEL = "text", "label"
VECTOR = "vector"
USUAL_NAMES = (("source", "target"), ("src", "tgt"), ("src", "trg"))
"""Names of the columns of pairs."""
# An escape can hold what the file itself may not; half a surrogate pair cannot be written again.
UNFIT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
NumberedRow = tuple[int, list[str] | InputError]
Record = TypeVar("Record")

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


def number_rows(path: Place, delimiter: str | None = None) -> Iterator[NumberedRow]:
    """Like `csv_rows`, also for tables in memory; if semicolons separate the cells, 1,5 is 1.5."""
    if isinstance(path, MemoryFile):
        yield from enumerate(path.items, start=1)
        return
    delimiter = delimiter or find_delimiter(path)
    for number, row in csv_rows(path, delimiter):
        if delimiter == ";" and isinstance(row, list):
            row = [cell.replace(",", ".") if DECIMAL_COMMA.fullmatch(cell) else cell for cell in row]
        yield number, row


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
    """Yield line number and cells (or the error) of each row of a table with tabs; skip blank lines."""
    for number, line in lines_or_errors(path):
        if isinstance(line, InputError):
            yield number, line
        elif line.strip():
            yield number, _check_width(path, number, line.split("\t"))


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


def good_rows(
    path: Path, rows: Iterator[NumberedRow], width: int, bad: BadRecords
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that can be read and have `width` cells; the errors of others go to `bad`."""
    for number, row in rows:
        if isinstance(row, InputError):
            bad.handle(row)
        elif len(row) != width:
            bad.handle(width_error(path, number, row, width))
        else:
            yield number, row


def json_records(
    path: Path, bad: BadRecords, convert: Callable[[dict[str, Any]], Record]
) -> Iterator[Record]:
    """Convert each line, a JSON object, to a record; skip blank lines.

    If an object is bad, `convert` raises a `ValueError` that says what is wrong with it.
    """
    for number, line in good_lines(path, bad):
        if not line.strip():
            continue
        try:
            record = convert(_json_object(line))
        except ValueError as fault:
            bad.handle(InputError(str(path), str(fault), line=number))
        else:
            yield record


def _json_object(line: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except RecursionError:
        raise ValueError("is nested too deeply, expected one flat JSON object") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg} at column {error.colno}") from None
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError('is not a JSON object, expected one such as {"src": "Go.", "tgt": "Va !"}')
    return fields


def read_text_field(fields: dict[str, Any], name: str) -> str:
    """Return the text in a field; raise a ValueError if there is none."""
    if name not in fields:
        raise ValueError(f"has no field {name!r}, its fields are {shown_names(fields)}")
    text = fields[name]
    if not isinstance(text, str):
        raise ValueError(f"has a field {name!r} that is not text: {json.dumps(text)[:40]}")
    if unfit := UNFIT.search(text):
        raise ValueError(f"has a control character in {name!r}, U+{ord(unfit[0]):04X}; remove it")
    return text


def shown_names(names: Iterable[str]) -> str:
    """Format the first few names of columns or fields for a message."""
    names = list(names)
    return ", ".join(map(repr, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "") or "none"


def place(path: Place, names: list[str], column: str | int) -> int:
    """Return the position of a column, given by its name in the header or by its number from 0."""
    if isinstance(column, str):
        if column not in names:
            raise InputError(str(path), str(unknown("column", column, names)), line=1)
        return names.index(column)
    if not 0 <= column < len(names):
        raise InputError(
            str(path), f"has {len(names)} columns, counted from 0, so there is no column {column}", line=1
        )
    return column


def width_error(path: Place, number: int, row: list[str], width: int) -> InputError:
    """Return the error for a row that is longer or shorter than the first."""
    problem = (
        f"has {format_count(len(row), 'cell')}, the first row has {width}; quote a text that holds a comma"
    )
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


TABLES = (".csv", ".tsv", ".jsonl")
TEXTS = frozenset(
    "text sentence review comment content body message document utterance tweet question query".split()
)
LABELS = frozenset(
    "label labels class category stars rating sentiment polarity intent topic emotion genre score".split()
)
SHOWN = 8


def read_column_names(path: Place) -> list[str]:
    """Return the names in a table's header, or the fields of the first JSON object; else an empty list."""
    if isinstance(path, MemoryFile):
        return list(path.items[0])
    suffix = text_suffix(path)
    if suffix in (".csv", ".tsv"):
        rows = tab_rows(path) if suffix == ".tsv" else csv_rows(path)
        _, header = next(rows, (1, []))
        return [name.strip() for name in header] if isinstance(header, list) else []
    if suffix == ".jsonl":
        _, line = next(lines_or_errors(path))
        with contextlib.suppress(ValueError):
            return list(_json_object(line)) if isinstance(line, str) else []
    return []


def find_label_columns(path: Place, text: str | None, label: str | None) -> tuple[str, str] | None:
    """Return the columns of text and label: those given, else those with a usual name, else the one left.

    Return None if the file has no header, or columns named source and target, which its reader finds.
    """
    names = read_column_names(path)
    shown = shown_names(names)
    text, label = (_find_column(path, names, name, shown) for name in (text, label))
    found_text = text or _find_usual_column([name for name in names if name != label], TEXT, TEXTS)
    found_label = label or _find_usual_column([name for name in names if name != text], LABEL, LABELS)
    if len(names) == 2 and (found_text is None) != (found_label is None):
        (left,) = (name for name in names if name not in (found_text, found_label))
        found_text, found_label = found_text or left, found_label or left
    if found_text is not None and found_label is not None and found_text != found_label:
        return found_text, found_label
    named = text is not None or label is not None
    pairs = any({*sides} <= {name.lower() for name in names} for sides in USUAL_NAMES)
    if not named and (
        pairs or (text_suffix(str(path)) == ".tsv" and found_text is None and found_label is None)
    ):
        return None
    missing = [role for role, found in (("text", found_text), ("label", found_label)) if found is None]
    roles = " and which the ".join(missing) or "text and which the label"
    raise InputError(
        str(path),
        f"has the columns {shown}, and it is not clear which holds the {roles}; choose them with the "
        "settings text and label, as in text=review and label=stars",
        line=1,
    )


def usual_columns(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the columns of text and label if both have usual names."""
    text, label = _find_usual_column(names, TEXT, TEXTS), _find_usual_column(names, LABEL, LABELS)
    return (text, label) if text is not None and label is not None else None


def _find_column(path: Place, names: Sequence[str], name: str | None, shown: str) -> str | None:
    """Return the column with this name, or the only one that differs from it in case alone."""
    if name is None or name in names:
        return name
    fitting = [one for one in names if one.lower() == name.lower()]
    if len(fitting) == 1:
        return fitting[0]
    problem = f"has no column {name!r}, its columns are {shown}; choose with the settings text and label"
    raise InputError(str(path), problem, line=1)


def _find_usual_column(names: Sequence[str], first: str, usual: frozenset[str]) -> str | None:
    """Return the column called `first`, else the only one with a usual name, ignoring case."""
    if first in names:
        return first
    fitting = [name for name in names if name.lower() in usual]
    return fitting[0] if len(fitting) == 1 else None
