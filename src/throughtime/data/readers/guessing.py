"""What a table holds if nobody says so: its columns suggest a kind of data."""

from __future__ import annotations

import datetime
from itertools import islice
from pathlib import Path

from throughtime.data.readers.columns import ROLES, find_usual, is_language, names_pairs, width
from throughtime.data.readers.dates import TIME_NAMES, compact_date, like_date, named_date, parse_date
from throughtime.data.readers.layout import MISSING, like_number, parse_number, unread_dates
from throughtime.data.readers.tables import LABELS, PAIRS, TEXTS, DataTable, number_rows, tab_rows
from throughtime.data.records import is_number
from throughtime.data.source import MemoryFile


def guess_kind(table: DataTable) -> str:
    """Return the kind of data that the columns of a table suggest."""
    names = table.first
    if names == ["y"] and len(table.sample) == 1:
        return "series"  # whose reader says that it has no rows
    if {"text", "vector"} <= {*names}:
        return "described"
    if {"words", "tags"} <= {*names}:
        return "tags"
    if {"text", "label"} <= {*names}:
        return "labelled"
    if table.has_names:
        early, late = "ds" in names, _holds_numbers(table)
    else:
        early = late = _holds_series(Path(str(table.path)), table.format, {*names})
    if early:
        return "series"
    if find_usual(names, "text") and find_usual(names, "label"):
        return "labelled"
    if names_pairs(names):
        return "pairs"
    if late:
        return "series"
    if table.has_names and ("text" in names or len(names) == 1):
        return "text"
    return "pairs" if width(table) <= len(ROLES["pairs"]) or sum(map(is_language, names)) == 2 else "text"


def _holds_numbers(table: DataTable) -> bool:
    """Return whether the first row of values has numbers or dates: beside texts, only both are a series."""
    cells = table.sample[1] if len(table.sample) > 1 else []
    numbers = any(map(is_number, cells))
    dates = any(
        isinstance(cell, datetime.date) or (isinstance(cell, str) and parse_date(cell)) for cell in cells
    )
    return (numbers or dates) if isinstance(table.path, MemoryFile) else numbers and dates


def _holds_series(path: Path, suffix: str, names: set[str]) -> bool:
    """Return whether the first row under the header has a date and a number; in CSV one is enough."""
    lowered = {name.lower() for name in names}
    if "ds" in names or any(lowered.issuperset(sides) for sides in PAIRS):
        return "ds" in names
    # In a file with tabs, quotes have no special meaning and may be unbalanced.
    lines = tab_rows(path) if suffix == ".tsv" else number_rows(path)
    rows = [row for _, row in islice(lines, 2) if isinstance(row, list)]
    cells = [cell.strip(' "') for cell in rows[-1]] if rows else []
    if any(map(like_date, cells)) and any(like_number(cell) or cell.lower() in MISSING for cell in cells):
        return True
    if rows and _has_date(rows[0], cells, suffix, lowered):
        return True
    # With tabs, two numbers or two dates are a pair of source and target.
    if suffix == ".tsv" or not cells:
        return False
    return any(parse_date(cell) for cell in cells) or all(parse_number(cell) is not None for cell in cells)


def _has_date(header: list[str], cells: list[str], suffix: str, lowered: set[str]) -> bool:
    """Return whether a row has numbers beside one date, written in words, in digits or in another form."""
    if lowered & TEXTS:
        return False
    usual = header[0].strip().lower() in TIME_NAMES
    numbers = bool(cells[1:]) and all(like_number(cell) or cell.lower() in MISSING for cell in cells[1:])
    if numbers and ((suffix == ".csv" and named_date(cells[0])) or (usual and compact_date(cells[0]))):
        return True
    place = unread_dates(header, cells)
    # With tabs, or beside a label, only a usual name or a month in words distinguishes a date from text.
    sure = place is not None and (
        header[place].strip().lower() in TIME_NAMES or named_date(cells[place]) is not None
    )
    return sure or (place is not None and suffix == ".csv" and not lowered & LABELS)
