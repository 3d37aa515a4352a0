"""Tables in memory: DataFrames of any library, lists of dicts and dicts of columns."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from throughtime.data.readers.tables import (
    LABEL,
    TEXT,
    USUAL_NAMES,
    VECTOR,
    label_columns,
    shown_names,
    usual_columns,
)
from throughtime.data.source import MemoryFile, name_items
from throughtime.errors import InputError

WORDS, TAGS = "words", "tags"
EXPECTED = "give a name, a path, a list of records, a DataFrame, or a dict of splits"


def table_rows(data: Any, where: str) -> list[list[Any]] | None:
    """Return the rows of a DataFrame, list of dicts or dict of columns, with a header first; else None."""
    if isinstance(data, Mapping):
        columns = {str(name): list_values(column) for name, column in data.items()}
        numbers = all(isinstance(values, list) and all(map(is_number, values)) for values in columns.values())
        if columns and numbers and not {"ds", "y"} & set(columns):
            long = [[name, place, y] for name, values in columns.items() for place, y in enumerate(values)]
            return [["unique_id", "ds", "y"], *long]
    elif hasattr(data, "columns") and hasattr(data, "__getitem__"):
        columns = {str(name): list_values(data[name]) for name in data.columns}
    elif isinstance(data, list | tuple) and data and isinstance(data[0], Mapping):
        names = [str(name) for name in data[0]]
        for number, item in enumerate(data, start=1):
            if not isinstance(item, Mapping) or not set(item) <= set(names):
                raise InputError(
                    f"{where}, item {number}", f"is not a dict with the fields {', '.join(names)}"
                )
        columns = {name: [item.get(name) for item in data] for name in names}
    else:
        return None
    lengths = {len(values) if isinstance(values, list) else -1 for values in columns.values()}
    if len(lengths) != 1 or -1 in lengths:
        raise InputError(
            where, f"has columns of different lengths, or values that are not columns; {EXPECTED}"
        )
    return [list(columns), *(list(row) for row in zip(*columns.values(), strict=True))]


def list_values(column: Any) -> Any:
    """Return the values of a column as a list."""
    for method in ("to_list", "tolist"):
        if hasattr(column, method):
            return getattr(column, method)()
    return list(column) if isinstance(column, Sequence) and not isinstance(column, str) else column


def choose_columns(
    table: MemoryFile, kind: str | None, source: str | None, target: str | None
) -> tuple[str, tuple[str, ...]]:
    """Return the kind of a table's rows, and the columns to read them from (none for series)."""
    names = list(table.items[0])
    lowered = {name.lower(): name for name in names}
    pairs = next((usual for usual in USUAL_NAMES if {*usual} <= {*lowered}), None)
    if kind == "series" or (kind is None and "ds" in names):
        return "series", ()
    if kind in ("labelled", "described") or kind is None:
        if TEXT in names and VECTOR in names and kind != "labelled":
            return "described", (VECTOR, TEXT)
        if kind is None and source is None and target is None:
            if (columns := usual_columns(names)) is not None:
                return "labelled", columns
        elif kind is not None:
            try:
                chosen = label_columns(table, source, target)
            except InputError as error:
                raise name_items(error, table) from None
            if chosen is not None:
                return "labelled", chosen
    if kind in ("tags", None) and WORDS in names and TAGS in names:
        return "tags", (WORDS, TAGS, *([LABEL] if LABEL in names else []))
    if source in names and target in names:
        return "pairs", (cast(str, source), cast(str, target))
    if kind != "text" and pairs is not None:
        return "pairs", tuple(lowered[side] for side in pairs)
    if kind in ("text", None) and (TEXT in names or len(names) == 1):
        if kind is None and len(names) == 1 and not isinstance(next(iter(table.items[1:]), [""])[0], str):
            return "series", ()
        return "text", (TEXT if TEXT in names else names[0],)
    first: list[Any] = next(iter(table.items[1:]), [])
    if kind is None and any(is_number(cell) or isinstance(cell, datetime.date) for cell in first):
        return "series", ()
    raise InputError(
        str(table),
        f"has the columns {shown_names(names)}; name them source and target, text and label, words and "
        "tags, or unique_id, ds and y, or choose with source and target",
    )


def format_cells(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    """Return the cells of a table of series as a CSV file would hold them."""
    columns = [_format_column(column) for column in zip(*rows, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def _format_column(column: Sequence[Any]) -> list[str]:
    # NaN and NaT differ from themselves.
    present = [value if isinstance(value, str) or value == value else None for value in column]
    times = [value for value in present if isinstance(value, datetime.datetime)]
    if times and all(time.time() == datetime.time() and time.tzinfo is None for time in times):
        present = [value.date() if isinstance(value, datetime.datetime) else value for value in present]
    return ["" if value is None else str(value) for value in present]


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number or NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isinf(value)
