"""Readers turn files into records. A reader is a class and one line in `READERS`.

Another package adds a reader with an entry point of the group `READERS.group`; it is used if it is chosen
by name, and for files whose suffix is its name.
"""

from __future__ import annotations

import inspect
import itertools
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from throughtime.data.readers.dates import TIME_NAMES, compact_date, like_date, named_date, parse_date
from throughtime.data.readers.layout import MISSING, like_number, parse_number, unread_dates
from throughtime.data.readers.tables import (
    LABEL,
    LABELS,
    TEXT,
    TEXTS,
    USUAL_NAMES,
    VECTOR,
    number_rows,
    read_column_names,
    tab_rows,
)
from throughtime.data.records import Kind
from throughtime.data.source import BadRecords, lines_or_errors, text_suffix
from throughtime.errors import InputError, unknown
from throughtime.registry import Registry

__all__ = ["READERS", "Reader", "build_reader", "reader_for"]

TRUTH = {"true": True, "yes": True, "false": False, "no": False}


class Reader(Protocol):
    """Turns files into records. The options of a reader are the arguments of its constructor."""

    name: ClassVar[str]
    kind: ClassVar[Kind]

    def read(self, paths: Sequence[Any], bad: BadRecords) -> Iterator[Any]:
        """Yield the records in the files' order; a bad one goes to `bad`, which refuses or counts it."""
        ...


READERS = Registry[type[Reader]](
    "reader",
    "throughtime.readers",
    {
        "text": "throughtime.data.readers.texts:PlainText",
        "tsv": "throughtime.data.readers.pairs:TsvPairs",
        "csv": "throughtime.data.readers.pairs:CsvPairs",
        "jsonl": "throughtime.data.readers.pairs:JsonlPairs",
        "moses": "throughtime.data.readers.pairs:MosesPairs",
        "hsk": "throughtime.data.readers.pairs:HskCards",
        "hsk-pairs": "throughtime.data.readers.pairs:HskPairs",
        "columns": "throughtime.data.readers.tags:ColumnTags",
        "conllu": "throughtime.data.readers.tags:ConlluTags",
        "slots": "throughtime.data.readers.tags:SlotFiles",
        "series": "throughtime.data.readers.series:SeriesTable",
        "labelled": "throughtime.data.readers.texts:LabelledFiles",
        "described": "throughtime.data.readers.texts:DescribedFiles",
    },
)


def build_reader(name: str, options: Mapping[str, object] | None = None) -> Reader:
    """Build the reader of this name; options given as text are converted to their types.

    >>> build_reader("tsv", {"source": "1", "target": "0"}).source
    1
    """
    return _read_options(name, READERS[name], options or {})


def reader_for(paths: Sequence[Path | str]) -> Reader:
    """Build the reader, with default options, that the suffixes and first lines of the files suggest.

    >>> reader_for(["train.en", "train.fr"]).name
    'moses'
    """
    suffix = text_suffix(paths[0])[1:] if paths else ""
    return build_reader(suffix if suffix in READERS.outside else guess_reader(paths))


def _read_options(reader_name: str, reader: type[Reader], options: Mapping[str, object]) -> Reader:
    """Build a reader with these options; an unknown option raises an error."""
    known = inspect.signature(reader).parameters
    hints = typing.get_type_hints(reader.__init__) if known else {}
    values = {}
    for name, value in options.items():
        if name not in known:
            if not known:
                raise InputError(f"the reader {reader_name}", f"has no options; leave out {name!r}")
            raise unknown(f"option of the reader {reader_name}", name, known)
        values[name] = _convert(value, hints[name], f"the reader {reader_name}", name)
    build: Callable[..., Reader] = reader
    return build(**values)


def _convert(value: object, hint: Any, where: str, name: str) -> object:
    """Convert text to the type of the option; return other values unchanged."""
    if not isinstance(value, str):
        return value
    types_allowed = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if int in types_allowed and value.removeprefix("-").isdecimal():
        return int(value)
    if any(typing.get_origin(each) is tuple for each in types_allowed):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if bool in types_allowed and value.lower() in TRUTH:
        return TRUTH[value.lower()]
    if str in types_allowed:
        # A shell passes a tab as the two characters that stand for it.
        return value.replace("\\t", "\t")
    kind = "true or false" if bool in types_allowed else "a whole number"
    raise InputError(where, f"option {name} is {value!r}, expected {kind}")


SLOT_FILES = ("seq.in", "seq.out", "label")
BY_SUFFIX: dict[str, str] = {
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".conll": "columns",
    ".conllu": "conllu",
    ".bio": "columns",
    ".iob": "columns",
}
SIDE_BY_SIDE: dict[int, str] = {2: "moses", len(SLOT_FILES): "slots"}
"""The reader of parallel files, by their number."""
SAMPLE = 20


def guess_reader(paths: Sequence[Path | str]) -> str:
    """Return the name of the reader that fits these files best; users can choose another by name."""
    if not paths:
        raise InputError("no file given to read; name at least one")
    if any((Path(path) / SLOT_FILES[0]).is_file() for path in paths):
        return "slots"
    if len(paths) in SIDE_BY_SIDE:
        # Files with a format of their own are not sides of a parallel corpus: they are read in turn.
        formats = (reader for path in paths if (reader := _format(path)) != "text")
        return next(formats, SIDE_BY_SIDE[len(paths)])
    return _guess_for_single_file(Path(paths[0]))


def _format(path: Path | str) -> str:
    try:
        return _guess_for_single_file(Path(path))
    except InputError:
        return "text"  # its reader will report the error


def _guess_for_single_file(path: Path) -> str:
    suffix = text_suffix(path)
    names = set(read_column_names(path))
    if TEXT in names and VECTOR in names:
        return "described"
    if TEXT in names and LABEL in names:
        return "labelled"
    if suffix in (".csv", ".tsv") and _holds_series(path, suffix, names):
        return "series"
    if suffix == ".csv":
        return "csv"
    return BY_SUFFIX.get(suffix) or _guess_by_content(path)


def _guess_by_content(path: Path) -> str:
    lines = [line for _, line in itertools.islice(lines_or_errors(path), SAMPLE)]
    texts = [line for line in lines if isinstance(line, str)]
    if texts and texts[0].startswith("english: "):
        return "hsk"
    # Tatoeba's .txt files hold two texts separated by a tab on every line.
    if texts and all(line.count("\t") and all(line.split("\t")[:2]) for line in texts):
        return "tsv"
    return "text"


def _holds_series(path: Path, suffix: str, names: set[str]) -> bool:
    """Return whether the first row under the header has a date and a number; in CSV one is enough."""
    lowered = {name.lower() for name in names}
    if "ds" in names or any(lowered.issuperset(sides) for sides in USUAL_NAMES):
        return "ds" in names
    # In a file with tabs, quotes have no special meaning and may be unbalanced.
    lines = tab_rows(path) if suffix == ".tsv" else number_rows(path)
    rows = [row for _, row in itertools.islice(lines, 2) if isinstance(row, list)]
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
    numbers = all(like_number(cell) or cell.lower() in MISSING for cell in cells[1:])
    if suffix == ".csv" and cells and named_date(cells[0]) and cells[1:] and numbers:
        return True
    if usual and cells[1:] and numbers and compact_date(cells[0]):
        return True
    place = unread_dates(header, cells)
    # With tabs, or beside a label, only a usual name or a month in words distinguishes a date from text.
    sure = place is not None and (
        header[place].strip().lower() in TIME_NAMES or named_date(cells[place]) is not None
    )
    return sure or (place is not None and suffix == ".csv" and not lowered & LABELS)
