"""Data given as Python objects: turn lists, DataFrames and dicts into the records that readers yield."""

from __future__ import annotations

import datetime
import hashlib
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from throughtime.data.dataset import ALIASES, SIDES, SPLITS, Dataset
from throughtime.data.readers import build_reader, guess_kind
from throughtime.data.readers.columns import Column, choose_columns, kind_of, languages_of
from throughtime.data.readers.tables import DataTable, format_cells
from throughtime.data.readers.vectors import VectorTable, holds_vectors
from throughtime.data.records import FORMS, RECORDS, Records, is_number, list_values, shorten_repr
from throughtime.data.source import BadRecords, MemoryFile, naming_items
from throughtime.data.vectors import VectorSequence, divide_arrays
from throughtime.errors import InputError

MEMORY = "<memory"
"""The start of the names of data that were given as Python objects."""
_EXPECTED = "give a name, a path, a list of records, a DataFrame, or a dict of splits"
KINDS = ("text", "pairs", "labelled", "described", "tags", "series", "vectors")


class MemoryReader:
    """Reads records that are in memory; errors among them go to `bad`."""

    name = "memory"

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def read(self, paths: Sequence[Any], bad: BadRecords) -> Iterator[Any]:
        """Return the records of each file."""
        return bad.keep(item for file in paths for item in file.items)


def open_objects(
    data: Any, kind: str | None, columns: Mapping[str, Column | None], bad: BadRecords, strict: bool = True
) -> Dataset:
    """Return the records of Python objects, as `open_dataset` accepts them; raise for the first bad one.

    >>> list(open_objects([("Go.", "Va !")], None, {}, BadRecords()).records())
    [Pair(source='Go.', target='Va !')]
    """
    parts = {"all": data}
    if isinstance(data, Mapping) and data and all(str(name).lower() in ALIASES for name in data):
        named = {ALIASES[str(name).lower()]: items for name, items in data.items()}
        parts = {split: named[split] for split in SPLITS if split in named}
    files: dict[str, tuple[MemoryFile, ...]] = {}
    read_as, record_kind, names = kind, "", dict[str, str]()
    for split, items in parts.items():
        where = "data" if split == "all" else f"data[{split!r}]"
        read_as, part_kind, part_names, file = _read(items, where, read_as, columns)
        record_kind = record_kind or part_kind
        if part_kind != record_kind:
            problem = f"holds {part_kind} data, but the split before it holds {record_kind} data"
            raise InputError(where, problem)
        files[split], names = (file,), names or part_names
    series, pairs, vectors = (record_kind == kind for kind in ("series", "pairs", "vectors"))
    unused = [
        role for role, column in columns.items() if column is not None and not (pairs and role in SIDES)
    ]
    if strict and unused and not (series or names or vectors):
        problem = f"is {columns[unused[0]]!r}, but data have no named columns; leave it out"
        raise InputError(unused[0], problem)
    digest = hashlib.sha256(record_kind.encode())
    for split, (file,) in files.items():
        digest.update(split.encode())
        for item in file.items:
            # As a plain tuple: the same data keep their name when a class of records is renamed.
            plain = repr(tuple(item) if isinstance(item, tuple) else item)
            plain = repr((item.key, item.labels)) if isinstance(item, VectorSequence) else plain
            digest.update(plain.encode("utf-8", "backslashreplace"))
    options: dict[str, Any] = {"identifier": columns.get("id"), "time": columns.get("time")}
    reader = build_reader("series", options) if series else MemoryReader(record_kind)
    if vectors:
        options |= {
            "label": columns.get("label") or columns.get("tags"),
            "values": columns.get("features") or (),
        }
        table = VectorTable(**options)
        reader, names = table, table.names(file) if isinstance(file.items[0], list) else {}
    languages = languages_of(names, *map(columns.get, SIDES)) if pairs else ()
    name = f"{MEMORY} {digest.hexdigest()[:8]}>"
    dataset = Dataset(name, reader, files, languages=languages, columns=names, bad=bad)
    if not series and not bad.skip:
        deque(dataset.records(), maxlen=0)
    return dataset


def _read(
    data: Any, where: str, kind: str | None, roles: Mapping[str, Column | None]
) -> tuple[str, str, dict[str, str], MemoryFile]:
    """Return the kind that was read, the kind of the records, the chosen columns by role, and the data."""
    if isinstance(data, str | os.PathLike):
        problem = (
            f"is {str(data)!r}, expected records; for files, give a folder of train, valid and test files"
        )
        raise InputError(where, problem)
    names: dict[str, str] = {}
    if (arrays := _arrays(data)) is not None:
        return "vectors", "vectors", names, MemoryFile(divide_arrays(arrays, where), where)
    rows = _table_rows(data, where)
    if rows is not None:
        file = MemoryFile(rows, where)
        if kind == "vectors" or (kind in (None, "labelled", "tags") and holds_vectors(DataTable(file))):
            return "vectors", "vectors", names, MemoryFile([rows[0], *format_cells(rows[1:])], where)
        kind = kind or kind_of(roles) or guess_kind(DataTable(file))
        if kind == "series":
            dated = any(isinstance(cell, datetime.date) for row in rows[1:2] for cell in row)
            return kind, kind, names, MemoryFile([rows[0], *format_cells(rows[1:])], where, dated)
        with naming_items(file):
            choice = choose_columns(DataTable(file), kind, roles)
        names = choice.names
        items = [tuple(row[place] for place in choice.places) for row in rows[1:]]
        items = [item[0] for item in items] if kind == "text" else items
    else:
        try:
            items = list(list_values(data))
        except TypeError:
            raise InputError(where, f"is of type {type(data).__name__}; {_EXPECTED}") from None
    if not items:
        raise InputError(where, "is empty; give at least one record")
    kind = "vectors" if _has_vectors(items[0], kind) else kind or _kind(items[0], where)
    if kind == "series":
        return kind, kind, names, MemoryFile([["y"], *format_cells([[value] for value in items])], where)
    records = _records(items, where, kind)
    record_kind = next((RECORDS[type(one)] for one in records if type(one) in RECORDS), kind)
    return kind, record_kind, names, MemoryFile(records, where)


def _arrays(data: Any) -> Mapping[str, Any] | None:
    """Return X, y and lengths if data are such arrays: a dict of them, or (X, y)."""
    if isinstance(data, Mapping) and hasattr(data.get("X"), "ndim"):
        return data
    if isinstance(data, tuple) and len(data) == 2 and getattr(data[0], "ndim", None) in (2, 3):
        return dict(zip(("X", "y"), data, strict=True))
    return None


def _has_vectors(item: Any, kind: str | None) -> bool:
    """Return whether an item is (vectors, label); a list of numbers alone may be the condition of a text."""
    if kind not in (None, "labelled", "tags") or not isinstance(item, list | tuple) or len(item) != 2:
        return False
    values = list_values(item[0])
    first = list_values(values[0]) if isinstance(values, list) and values else None
    return (kind is not None and is_number(first)) or (isinstance(first, list) and all(map(is_number, first)))


def _kind(first: Any, where: str) -> str:
    """Return the kind of a list, judging by its first item."""
    if type(first) in RECORDS:
        return RECORDS[type(first)]
    if isinstance(first, str):
        return "text"
    if is_number(first):
        return "series"
    parts = list(first) if isinstance(first, Sequence) else []
    shape = "".join("s" if isinstance(value, str) else "n" if is_number(value) else "l" for value in parts)
    if shape in ("ss", "sn", "ls", "ll", "lls"):
        return {"ss": "pairs", "sn": "labelled", "ls": "described"}.get(shape, "tags")
    raise InputError(f"{where}, item 1", f"is {shorten_repr(first)}, expected {', '.join(FORMS.values())}")


def _records(items: Sequence[Any], where: str, kind: str) -> list[Any]:
    """Return the records of a list, with errors in the place of bad ones."""
    rules, records = Records(kind), list[Any]()
    for number, item in enumerate(items, start=1):
        try:
            records.append(rules.convert(item))
        except ValueError as fault:
            records.append(InputError(f"{where}, item {number}", str(fault)))
    return records


def _table_rows(data: Any, where: str) -> list[list[Any]] | None:
    """Return the rows of a DataFrame, list of dicts or dict of columns, with a header first; else None."""
    if isinstance(data, Mapping):
        columns = {str(name): list_values(column) for name, column in data.items()}
        numbers = all(isinstance(values, list) and all(map(is_number, values)) for values in columns.values())
        if columns and numbers and not {"ds", "y"} & set(columns):
            long = [
                [name, position, y] for name, values in columns.items() for position, y in enumerate(values)
            ]
            return [["unique_id", "ds", "y"], *long]
    elif hasattr(data, "columns") and hasattr(data, "__getitem__"):
        columns = {str(name): list_values(data[name]) for name in data.columns}
    elif isinstance(data, list | tuple) and data and isinstance(data[0], Mapping):
        names = [str(name) for name in data[0]]
        for number, item in enumerate(data, start=1):
            if not isinstance(item, Mapping) or not set(item) <= set(names):
                problem = f"is not a dict with the fields {', '.join(names)}"
                raise InputError(f"{where}, item {number}", problem)
        columns = {name: [item.get(name) for item in data] for name in names}
    else:
        return None
    lengths = {len(values) if isinstance(values, list) else -1 for values in columns.values()}
    if len(lengths) != 1 or -1 in lengths:
        problem = f"has columns of different lengths, or values that are not columns; {_EXPECTED}"
        raise InputError(where, problem)
    return [list(columns), *(list(row) for row in zip(*columns.values(), strict=True))]
