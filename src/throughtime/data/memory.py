"""Data given as Python objects: turn lists, DataFrames and dicts into the records that readers yield."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from throughtime.data.frames import EXPECTED, choose_columns, format_cells, is_number, list_values, table_rows
from throughtime.data.readers.tables import UNFIT
from throughtime.data.readers.texts import LARGEST
from throughtime.data.records import Described, Flashcard, Kind, Labelled, Line, Pair, Tagged
from throughtime.data.source import BadRecords, MemoryFile
from throughtime.data.splits import ALIASES, SPLITS
from throughtime.errors import InputError

MEMORY = "<memory"
"""The start of the names of data that were given as Python objects."""
KINDS = ("text", "pairs", "labelled", "described", "tags", "series")
RECORDS: dict[type, Kind] = {
    Line: "text",
    Pair: "pairs",
    Labelled: "labelled",
    Described: "described",
    Tagged: "tags",
    Flashcard: "cards",
}
FORMS = {
    "text": "a text",
    "pairs": "a pair (source, target) of texts",
    "labelled": "(text, label)",
    "described": "(condition, text), where the condition is a label or a list of numbers",
    "tags": "(words, tags), two lists of the same length",
}


class Objects(NamedTuple):
    """Records in memory by split, or the rows of tables of series."""

    kind: str
    files: dict[str, tuple[MemoryFile, ...]]
    label_columns: tuple[str, str] | None

    @property
    def name(self) -> str:
        """A name made from a hash of the data."""
        digest = hashlib.sha256(self.kind.encode())
        for split, (file,) in self.files.items():
            digest.update(split.encode())
            for item in file.items:
                digest.update(repr(item).encode("utf-8", "backslashreplace"))
        return f"{MEMORY} {digest.hexdigest()[:8]}>"


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
                    bad.found(item)
                else:
                    yield item


def read_objects(data: Any, kind: str | None, source: str | None, target: str | None) -> Objects:
    """Return the records of Python objects, as `open_dataset` accepts them.

    >>> [pair] = read_objects([("Go.", "Va !")], None, None, None).files["all"][0].items
    >>> pair
    Pair(source='Go.', target='Va !')
    """
    parts = {"all": data}
    if isinstance(data, Mapping) and data and all(str(name).lower() in ALIASES for name in data):
        given = {ALIASES[str(name).lower()]: part for name, part in data.items()}
        parts = {split: given[split] for split in SPLITS if split in given}
    files: dict[str, tuple[MemoryFile, ...]] = {}
    read_as, kinds, columns = kind, list[str](), None
    for split, part in parts.items():
        where = "data" if split == "all" else f"data[{split!r}]"
        read_as, found, own, file = _read(part, where, read_as, source, target)
        files[split], columns = (file,), columns or own
        kinds.append(found)
        if found != kinds[0]:
            raise InputError(where, f"holds {found}, but the split before it holds {kinds[0]}")
    return Objects(kinds[0], files, columns)


def _read(
    data: Any, where: str, kind: str | None, source: str | None, target: str | None
) -> tuple[str, str, tuple[str, str] | None, MemoryFile]:
    """Return the kind that was read, the kind of the records, the columns of text and label, and the data."""
    columns = None
    rows = table_rows(data, where)
    if rows is not None:
        kind, names = choose_columns(MemoryFile(rows, where), kind, source, target)
        if kind == "series":
            dated = any(isinstance(cell, datetime.date) for row in rows[1:2] for cell in row)
            return kind, kind, None, MemoryFile([rows[0], *format_cells(rows[1:])], where, dated)
        columns = (names[0], names[1]) if kind == "labelled" else None
        places = [rows[0].index(name) for name in names]
        items = [tuple(row[place] for place in places) for row in rows[1:]]
        items = [item[0] for item in items] if len(places) == 1 else items
    else:
        try:
            items = list(list_values(data))
        except TypeError:
            raise InputError(where, f"is of type {type(data).__name__}; {EXPECTED}") from None
    if not items:
        raise InputError(where, "is empty; give at least one record")
    kind = kind or _kind(items[0], where)
    if kind == "series":
        return kind, kind, None, MemoryFile([["y"], *format_cells([[value] for value in items])], where)
    records = _records(items, where, kind)
    found = next((RECORDS[type(one)] for one in records if type(one) in RECORDS), kind)
    return kind, found, columns, MemoryFile(records, where)


def _kind(first: Any, where: str) -> str:
    """Return the kind of a list, judging by its first item."""
    if type(first) in RECORDS:
        return RECORDS[type(first)]
    if isinstance(first, str):
        return "text"
    if is_number(first):
        return "series"
    parts = list(first) if isinstance(first, Sequence) else []
    shape = "".join("s" if isinstance(part, str) else "n" if is_number(part) else "l" for part in parts)
    if shape in ("ss", "sn", "ls", "ll", "lls"):
        return {"ss": "pairs", "sn": "labelled", "ls": "described"}.get(shape, "tags")
    raise InputError(f"{where}, item 1", f"is {_shown(first)}, expected {', '.join(FORMS.values())}")


def _records(items: Sequence[Any], where: str, kind: str) -> list[Any]:
    """Return the records of a list, with errors in the place of bad ones."""
    read, first, width = READ[kind], None, 0
    found: list[Any] = []
    for number, item in enumerate(items, start=1):
        try:
            record = item if type(item) in RECORDS else read(item)
            first = first or type(record)
            if type(record) is not first:
                raise ValueError(f"has a different form than the items before it: {_shown(item)}")
            if isinstance(record, Described):
                width = width or len(record.vector)
                if len(record.vector) != width:
                    raise ValueError(f"has {len(record.vector)} numbers, the items before it have {width}")
            found.append(record)
        except ValueError as fault:
            found.append(InputError(f"{where}, item {number}", str(fault)))
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"has {_shown(value)}, expected a text")
    if unfit := UNFIT.search(value):
        raise ValueError(f"has a control character, U+{ord(unfit[0]):04X}; remove it")
    return value


def _parts(item: Any, kind: str, counts: Sequence[int] = (2,)) -> list[Any]:
    parts = list(item) if isinstance(item, Sequence) and not isinstance(item, str) else []
    if len(parts) not in counts:
        raise ValueError(f"is {_shown(item)}, expected {FORMS[kind]}")
    return parts


def _label(value: Any) -> str:
    value = value.item() if hasattr(value, "item") else value
    label = str(value).strip() if isinstance(value, str | int | float) and value == value else ""
    if not label or UNFIT.search(label):
        raise ValueError("has no label")
    return label


def _labelled(item: Any) -> Labelled:
    text, label = _parts(item, "labelled")
    return Labelled(_text(text), _label(label))


def _described(item: Any) -> Described | Labelled:
    condition, text = _parts(item, "described")
    numbers = condition if isinstance(condition, str) else list_values(condition)
    if not isinstance(numbers, list):
        return Labelled(_text(text), _label(condition))
    if not numbers or not all(is_number(number) and abs(number) < LARGEST for number in numbers):
        raise ValueError(f"has the condition {_shown(condition)}, expected a label or finite numbers")
    return Described(_text(text), tuple(float(number) for number in numbers))


def _tagged(item: Any) -> Tagged:
    words, tags, *label = _parts(item, "tags", (2, 3))
    sides = [part.split() if isinstance(part, str) else list(part) for part in (words, tags)]
    if not sides[0] or len(sides[0]) != len(sides[1]):
        raise ValueError(
            f"has {len(sides[0])} words and {len(sides[1])} tags, expected one tag for each word"
        )
    if not all(
        isinstance(part, str) and part.strip() and not UNFIT.search(part) for side in sides for part in side
    ):
        raise ValueError("has a word or a tag that is empty or not a text")
    return Tagged(tuple(sides[0]), tuple(sides[1]), _label(label[0]) if label else "")


READ: dict[str, Callable[[Any], Any]] = {
    "text": lambda item: Line(_text(item)),
    "pairs": lambda item: Pair(*map(_text, _parts(item, "pairs"))),
    "labelled": _labelled,
    "described": _described,
    "tags": _tagged,
}


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
