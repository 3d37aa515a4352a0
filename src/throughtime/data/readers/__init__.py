"""Readers turn files into records. A reader is a class and one line in `READERS`.

A reader may declare the `suffixes` of its files. Another package adds a reader with an entry point of the
group `READERS.group`; it is used if it is chosen by name, and for files whose suffix is its name or one that
it declares.
"""

from __future__ import annotations

import datetime
import functools
import inspect
import itertools
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from throughtime.data.readers.columns import ROLES, find_usual, is_language, names_pairs, width
from throughtime.data.readers.dates import TIME_NAMES, compact_date, like_date, named_date, parse_date
from throughtime.data.readers.layout import MISSING, like_number, parse_number, unread_dates
from throughtime.data.readers.tables import FORMATS, LABELS, PAIRS, TEXTS, DataTable, number_rows, tab_rows
from throughtime.data.readers.vectors import holds_vectors
from throughtime.data.records import Kind, is_number
from throughtime.data.source import BadRecords, MemoryFile, lines_or_errors, text_suffix
from throughtime.errors import InputError, unknown
from throughtime.registry import Registry

__all__ = ["READERS", "Reader", "build_reader", "reader_for"]

TRUTH = {"true": True, "yes": True, "false": False, "no": False}


class Reader(Protocol):
    """Turns files into records, all of one `kind`. A class may also have `suffixes`, those of its files.

    Options are the arguments of the constructor, all with defaults. Users set them by name, as text that is
    converted to the annotated types. In a reader of pairs, `source` and `target` say where the two sides are:
    which columns, fields or languages. A side of a pair may be empty; a text with a control character, which
    `records.UNFIT` finds, is a bad record.

    Files may be packed (gzip, xz, zip). `good_lines` unpacks them and yields their lines; a reader of a
    format without lines, such as XML, reads bytes from `open_source`. Both are in `data/source.py`. For a
    record that cannot be read, call `bad.handle` with an `InputError` that has the path and the line, and
    continue with the next one if it returns, because users may skip bad records. If the rest of a file
    cannot be read, raise the error.
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]

    def read(self, paths: Sequence[Any], bad: BadRecords) -> Iterator[Any]:
        """Yield the records in the files' order; a bad one goes to `bad`, which refuses or counts it."""
        ...


READERS = Registry[type[Reader]](
    "reader",
    "throughtime.readers",
    {
        "text": "throughtime.data.readers.lines:PlainText",
        "tsv": "throughtime.data.readers.tabular:TSV",
        "csv": "throughtime.data.readers.tabular:CSV",
        "jsonl": "throughtime.data.readers.tabular:JSONL",
        "parquet": "throughtime.data.readers.tabular:PARQUET",
        "moses": "throughtime.data.readers.lines:MosesPairs",
        "hsk": "throughtime.data.readers.lines:HskCards",
        "hsk-pairs": "throughtime.data.readers.lines:HskPairs",
        "columns": "throughtime.data.readers.lines:ColumnTags",
        "conllu": "throughtime.data.readers.lines:ConlluTags",
        "slots": "throughtime.data.readers.lines:SlotFiles",
        "series": "throughtime.data.readers.series:SeriesTable",
        "texts": "throughtime.data.readers.tabular:TEXTS",
        "labelled": "throughtime.data.readers.tabular:LABELLED",
        "described": "throughtime.data.readers.tabular:DESCRIBED",
        "tagged": "throughtime.data.readers.tabular:TAGGED",
        "vectors": "throughtime.data.readers.vectors:VectorTable",
    },
)


def build_reader(name: str, options: Mapping[str, object] | None = None) -> Reader:
    """Build the reader of this name; options given as text are converted to their types.

    >>> build_reader("columns", {"word": "1", "tag": "0"}).word
    1
    """
    build: Callable[..., Reader] = READERS[name]
    where, known, values = f"the reader {name}", takes(build), {}
    hints = typing.get_type_hints(build.__init__) if known else {}
    for option, value in (options or {}).items():
        if not known:
            raise InputError(where, f"has no options; leave out {option!r}")
        if option not in known:
            raise unknown(f"option of {where}", option, known)
        hint = hints.get(option, hints.get("columns"))  # the columns of a table share one
        values[option] = _convert(value, hint, where, option)
    return build(**values)


def reader_for(paths: Sequence[Path | str], kind: str | None = None) -> Reader:
    """Build the reader, with default options, that the suffixes and first lines of the files suggest.

    Tables are read as data of this kind, if it is given.

    >>> reader_for(["train.en", "train.fr"]).name
    'moses'
    """
    return build_reader(guess_reader(paths, kind))


def takes(reader: Callable[..., Reader]) -> tuple[str, ...]:
    """Return the names of the options that a reader takes."""
    return tuple(inspect.signature(reader).parameters)


def _convert(value: object, hint: Any, where: str, name: str) -> object:
    """Convert text to the type of the option; return other values unchanged."""
    if not isinstance(value, str):
        return value
    types_allowed = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if int in types_allowed and value.removeprefix("-").isdecimal():
        return int(value)
    if any(typing.get_origin(each) is tuple for each in types_allowed):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    if bool in types_allowed and value.lower() in TRUTH:
        return TRUTH[value.lower()]
    if str in types_allowed:
        # A shell passes a tab as the two characters that stand for it.
        return value.replace("\\t", "\t")
    kind = "true or false" if bool in types_allowed else "a whole number"
    raise InputError(where, f"option {name} is {value!r}, expected {kind}")


SLOT_FILES = ("seq.in", "seq.out", "label")
SIDE_BY_SIDE: dict[int, str] = {2: "moses", len(SLOT_FILES): "slots"}
"""The reader of parallel files, by their number."""
SAMPLE = 20
BY_KIND = {
    "text": "texts",
    "labelled": "labelled",
    "described": "described",
    "tags": "tagged",
    "series": "series",
    "vectors": "vectors",
}
"""The reader of tables of each kind; that of pairs depends on the format."""
NOT_LANGUAGES = ("txt", "tokens", "tags", "text")


@functools.cache
def by_suffix() -> dict[str, str]:
    """Return the name of the reader of each suffix, such as `.tsv`, that a reader declares.

    >>> by_suffix()[".conllu"], by_suffix()[".iob"]
    ('conllu', 'columns')
    """
    names: dict[str, str] = {}
    for name, reader in READERS.available().items():
        suffixes = getattr(reader, "suffixes", (f".{name}",) if name not in READERS.own else ())
        names |= {suffix: name for suffix in suffixes if suffix not in names}
    return names


def names_format(suffix: str) -> bool:
    """Return whether a suffix, without its dot, names a format, not a language.

    >>> names_format("tsv"), names_format("fr")
    (True, False)
    """
    return suffix.lower() in NOT_LANGUAGES or f".{suffix.lower()}" in by_suffix()


def guess_reader(paths: Sequence[Path | str], kind: str | None = None) -> str:
    """Return the name of the reader that fits these files best; users can choose another by name."""
    if not paths:
        raise InputError("no file given to read; name at least one")
    if any((Path(path) / SLOT_FILES[0]).is_file() for path in paths):
        return "slots"
    if len(paths) in SIDE_BY_SIDE:
        # Files with a format of their own are not sides of a parallel corpus: they are read in turn.
        formats = (reader for path in paths if (reader := _format(path, kind)) != "text")
        return next(formats, SIDE_BY_SIDE[len(paths)])
    return _guess_for_single_file(Path(paths[0]), kind)


def _format(path: Path | str, kind: str | None) -> str:
    try:
        return _guess_for_single_file(Path(path), kind)
    except InputError:
        return "text"  # its reader will report the error


def _guess_for_single_file(path: Path, kind: str | None) -> str:
    suffix = text_suffix(path)
    if suffix not in FORMATS:
        guess = by_suffix().get(suffix) or _guess_by_content(path)
        return BY_KIND.get(kind or "", guess) if guess == "tsv" else guess
    table = DataTable(path)
    if kind in (None, "labelled", "tags") and holds_vectors(table):
        return "vectors"
    if suffix == ".tsv" and kind == "tags" and _has_words_in_lines(table):
        return "columns"
    return BY_KIND.get(kind or guess_kind(table), suffix[1:])


def _has_words_in_lines(table: DataTable) -> bool:
    """Return whether each line of a table has a word and its tag, not a sentence and its tags."""
    return 2 * sum(any(" " in cell for cell in row) for row in table.sample) <= len(table.sample)


def _guess_by_content(path: Path) -> str:
    lines = [line for _, line in itertools.islice(lines_or_errors(path), SAMPLE)]
    texts = [line for line in lines if isinstance(line, str)]
    if texts and texts[0].startswith("english: "):
        return "hsk"
    # Tatoeba's .txt files hold two texts separated by a tab on every line.
    if texts and all(line.count("\t") and all(line.split("\t")[:2]) for line in texts):
        return "tsv"
    return "text"


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
        early, late = "ds" in names, _holds_numbers(table) and not find_usual(names, "text")
    else:
        early = late = _holds_series(Path(str(table.path)), table.format, {*names})
    if early:
        return "series"
    if not late and {len(row) for row in table.sample} == {1}:
        return "text"
    if find_usual(names, "text") and find_usual(names, "label"):
        return "labelled"
    if names_pairs(names):
        return "pairs"
    if late:
        return "series"
    if table.has_names and "text" in names:
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
    rows = [row for _, row in itertools.islice(lines, 2) if isinstance(row, list)]
    cells = [cell.strip(' "') for cell in rows[-1]] if rows else []
    named = zip(rows[0], cells, strict=False) if rows else ()
    if any(name.strip(' "').lower() in TEXTS and not like_number(cell) for name, cell in named):
        return False
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
    column = unread_dates(header, cells)
    # With tabs, or beside a label, only a usual name or a month in words distinguishes a date from text.
    sure = column is not None and (
        header[column].strip().lower() in TIME_NAMES or named_date(cells[column]) is not None
    )
    return sure or (column is not None and suffix == ".csv" and not lowered & LABELS)
