"""Data given as Python objects: turn lists, DataFrames and dicts into the records that readers yield."""

from __future__ import annotations

import datetime
import hashlib
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from throughtime.data.dataset import Dataset
from throughtime.data.readers import build_reader
from throughtime.data.readers.tables import (
    LABEL,
    TEXT,
    UNFIT,
    USUAL_NAMES,
    VECTOR,
    find_label_columns,
    shown_names,
    usual_columns,
)
from throughtime.data.records import DescribedText, Flashcard, Kind, LabelledText, Line, Pair, TaggedSentence
from throughtime.data.source import BadRecords, MemoryFile, name_items
from throughtime.data.splits import ALIASES, SPLITS
from throughtime.errors import InputError
from throughtime.text.texts import LARGEST

MEMORY = "<memory"
"""The start of the names of data that were given as Python objects."""
WORDS, TAGS = "words", "tags"
_EXPECTED = "give a name, a path, a list of records, a DataFrame, or a dict of splits"
KINDS = ("text", "pairs", "labelled", "described", "tags", "series")
RECORDS: dict[type, Kind] = {
    Line: "text",
    Pair: "pairs",
    LabelledText: "labelled",
    DescribedText: "described",
    TaggedSentence: "tags",
    Flashcard: "cards",
}
FORMS = {
    "text": "a text",
    "pairs": "a pair (source, target) of texts",
    "labelled": "(text, label)",
    "described": "(condition, text), where the condition is a label or a list of numbers",
    "tags": "(words, tags), two lists of the same length",
}


class MemoryReader:
    """Yields records that are in memory; errors among them go to `bad`."""

    name = "memory"

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def read(self, paths: Sequence[Any], bad: BadRecords) -> Iterator[Any]:
        """Yield the records of each file."""
        for file in paths:
            for item in file.items:
                if isinstance(item, InputError):
                    bad.handle(item)
                else:
                    yield item


def open_objects(
    data: Any, kind: str | None, source: str | None, target: str | None, bad: BadRecords
) -> Dataset:
    """Return the records of Python objects, as `open_dataset` accepts them; raise for the first bad one.

    >>> list(open_objects([("Go.", "Va !")], None, None, None, BadRecords()).records())
    [Pair(source='Go.', target='Va !')]
    """
    parts = {"all": data}
    if isinstance(data, Mapping) and data and all(str(name).lower() in ALIASES for name in data):
        given = {ALIASES[str(name).lower()]: part for name, part in data.items()}
        parts = {split: given[split] for split in SPLITS if split in given}
    files: dict[str, tuple[MemoryFile, ...]] = {}
    read_as, kinds, columns = kind, list[str](), None
    for split, part in parts.items():
        where = "data" if split == "all" else f"data[{split!r}]"
        read_as, kind_of_part, own, file = _read(part, where, read_as, source, target)
        files[split], columns = (file,), columns or own
        kinds.append(kind_of_part)
        if kind_of_part != kinds[0]:
            raise InputError(
                where, f"holds {kind_of_part} data, but the split before it holds {kinds[0]} data"
            )
    digest = hashlib.sha256(kinds[0].encode())
    for split, (file,) in files.items():
        digest.update(split.encode())
        for item in file.items:
            # As a plain tuple: the same data keep their name when a class of records is renamed.
            plain = repr(tuple(item) if isinstance(item, tuple) else item)
            digest.update(plain.encode("utf-8", "backslashreplace"))
    series = kinds[0] == "series"
    dataset = Dataset(
        f"{MEMORY} {digest.hexdigest()[:8]}>",
        build_reader("series") if series else MemoryReader(kinds[0]),
        files,
        languages=(source, target) if kinds[0] == "pairs" and source and target else (),
        label_columns=columns,
        bad=bad,
    )
    if not series and not bad.skip:
        deque(dataset.records(), maxlen=0)
    return dataset


def _read(
    data: Any, where: str, kind: str | None, source: str | None, target: str | None
) -> tuple[str, str, tuple[str, str] | None, MemoryFile]:
    """Return the kind that was read, the kind of the records, the columns of text and label, and the data."""
    if isinstance(data, str | os.PathLike):
        raise InputError(
            where,
            f"is {str(data)!r}, expected records; for files, give a folder of train, valid and test files",
        )
    columns = None
    rows = _table_rows(data, where)
    if rows is not None:
        kind, names = _choose_columns(MemoryFile(rows, where), kind, source, target)
        if kind == "series":
            dated = any(isinstance(cell, datetime.date) for row in rows[1:2] for cell in row)
            return kind, kind, None, MemoryFile([rows[0], *_format_cells(rows[1:])], where, dated)
        columns = (names[0], names[1]) if kind == "labelled" else None
        places = [rows[0].index(name) for name in names]
        items = [tuple(row[place] for place in places) for row in rows[1:]]
        items = [item[0] for item in items] if len(places) == 1 else items
    else:
        try:
            items = list(_list_values(data))
        except TypeError:
            raise InputError(where, f"is of type {type(data).__name__}; {_EXPECTED}") from None
    if not items:
        raise InputError(where, "is empty; give at least one record")
    kind = kind or _kind(items[0], where)
    if kind == "series":
        return kind, kind, None, MemoryFile([["y"], *_format_cells([[value] for value in items])], where)
    records = _records(items, where, kind)
    record_kind = next((RECORDS[type(one)] for one in records if type(one) in RECORDS), kind)
    return kind, record_kind, columns, MemoryFile(records, where)


def _kind(first: Any, where: str) -> str:
    """Return the kind of a list, judging by its first item."""
    if type(first) in RECORDS:
        return RECORDS[type(first)]
    if isinstance(first, str):
        return "text"
    if _is_number(first):
        return "series"
    parts = list(first) if isinstance(first, Sequence) else []
    shape = "".join("s" if isinstance(part, str) else "n" if _is_number(part) else "l" for part in parts)
    if shape in ("ss", "sn", "ls", "ll", "lls"):
        return {"ss": "pairs", "sn": "labelled", "ls": "described"}.get(shape, "tags")
    raise InputError(f"{where}, item 1", f"is {_shorten_repr(first)}, expected {', '.join(FORMS.values())}")


def _records(items: Sequence[Any], where: str, kind: str) -> list[Any]:
    """Return the records of a list, with errors in the place of bad ones."""
    read, first, width = READ[kind], None, 0
    records: list[Any] = []
    for number, item in enumerate(items, start=1):
        try:
            record = item if type(item) in RECORDS else read(item)
            first = first or type(record)
            if type(record) is not first:
                raise ValueError(f"has a different form than the items before it: {_shorten_repr(item)}")
            if isinstance(record, DescribedText):
                width = width or len(record.vector)
                if len(record.vector) != width:
                    raise ValueError(f"has {len(record.vector)} numbers, the items before it have {width}")
            records.append(record)
        except ValueError as fault:
            records.append(InputError(f"{where}, item {number}", str(fault)))
    return records


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"has {_shorten_repr(value)}, expected a text")
    if unfit := UNFIT.search(value):
        raise ValueError(f"has a control character, U+{ord(unfit[0]):04X}; remove it")
    return value


def _parts(item: Any, kind: str, counts: Sequence[int] = (2,)) -> list[Any]:
    parts = list(item) if isinstance(item, Sequence) and not isinstance(item, str) else []
    if len(parts) not in counts:
        raise ValueError(f"is {_shorten_repr(item)}, expected {FORMS[kind]}")
    return parts


def _label(value: Any) -> str:
    value = value.item() if hasattr(value, "item") else value
    label = str(value).strip() if isinstance(value, str | int | float) and value == value else ""
    if not label or UNFIT.search(label):
        raise ValueError("has no label")
    return label


def _read_labelled(item: Any) -> LabelledText:
    text, label = _parts(item, "labelled")
    return LabelledText(_text(text), _label(label))


def _read_described(item: Any) -> DescribedText | LabelledText:
    condition, text = _parts(item, "described")
    numbers = condition if isinstance(condition, str) else _list_values(condition)
    if not isinstance(numbers, list):
        return LabelledText(_text(text), _label(condition))
    if not numbers or not all(_is_number(number) and abs(number) < LARGEST for number in numbers):
        raise ValueError(f"has the condition {_shorten_repr(condition)}, expected a label or finite numbers")
    return DescribedText(_text(text), tuple(float(number) for number in numbers))


def _read_tagged(item: Any) -> TaggedSentence:
    words, tags, *label = _parts(item, "tags", (2, 3))
    sides = [part.split() if isinstance(part, str) else list(part) for part in (words, tags)]
    if not sides[0] or len(sides[0]) != len(sides[1]):
        raise ValueError(f"has {len(sides[0])} words, but {len(sides[1])} tags; give one tag for each word")
    if not all(
        isinstance(part, str) and part.strip() and not UNFIT.search(part) for side in sides for part in side
    ):
        raise ValueError("has a word or a tag that is empty or not a text")
    return TaggedSentence(tuple(sides[0]), tuple(sides[1]), _label(label[0]) if label else "")


READ: dict[str, Callable[[Any], Any]] = {
    "text": lambda item: Line(_text(item)),
    "pairs": lambda item: Pair(*map(_text, _parts(item, "pairs"))),
    "labelled": _read_labelled,
    "described": _read_described,
    "tags": _read_tagged,
}


def _shorten_repr(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _table_rows(data: Any, where: str) -> list[list[Any]] | None:
    """Return the rows of a DataFrame, list of dicts or dict of columns, with a header first; else None."""
    if isinstance(data, Mapping):
        columns = {str(name): _list_values(column) for name, column in data.items()}
        numbers = all(
            isinstance(values, list) and all(map(_is_number, values)) for values in columns.values()
        )
        if columns and numbers and not {"ds", "y"} & set(columns):
            long = [[name, place, y] for name, values in columns.items() for place, y in enumerate(values)]
            return [["unique_id", "ds", "y"], *long]
    elif hasattr(data, "columns") and hasattr(data, "__getitem__"):
        columns = {str(name): _list_values(data[name]) for name in data.columns}
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
            where, f"has columns of different lengths, or values that are not columns; {_EXPECTED}"
        )
    return [list(columns), *(list(row) for row in zip(*columns.values(), strict=True))]


def _list_values(column: Any) -> Any:
    """Return the values of a column as a list."""
    for method in ("to_list", "tolist"):
        if hasattr(column, method):
            return getattr(column, method)()
    return list(column) if isinstance(column, Sequence) and not isinstance(column, str) else column


def _choose_columns(
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
                chosen = find_label_columns(table, source, target)
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
    if kind is None and any(_is_number(cell) or isinstance(cell, datetime.date) for cell in first):
        return "series", ()
    raise InputError(
        str(table),
        f"has the columns {shown_names(names)}; name them source and target, text and label, words and "
        "tags, or unique_id, ds and y, or choose with source and target",
    )


def _format_cells(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
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


def _is_number(value: Any) -> bool:
    """Return whether a value is a finite number or NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isinf(value)
