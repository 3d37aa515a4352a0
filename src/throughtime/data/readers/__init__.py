"""Readers turn files into records. A reader is a class and one line in `READERS`.

A reader may declare the `suffixes` of its files. Another package adds a reader with an entry point of the
group `READERS.group`; it is used if it is chosen by name, and for files whose suffix is its name or one that
it declares.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from throughtime.data.readers.columns import has_header
from throughtime.data.readers.guessing import guess_kind
from throughtime.data.readers.tables import FORMATS, DataTable
from throughtime.data.records import Kind
from throughtime.data.source import BadRecords, lines_or_errors, text_suffix
from throughtime.errors import InputError, unknown
from throughtime.registry import Registry

__all__ = ["READERS", "Reader", "build_reader", "reader_for"]

TRUTH = {"true": True, "yes": True, "false": False, "no": False}


class Reader(Protocol):
    """Turns files into records. The options of a reader are the arguments of its constructor.

    A class may also have `suffixes`, those of its files.
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
        "tsv": "throughtime.data.readers.tabular:TsvPairs",
        "csv": "throughtime.data.readers.tabular:CsvPairs",
        "jsonl": "throughtime.data.readers.tabular:JsonlPairs",
        "parquet": "throughtime.data.readers.tabular:ParquetPairs",
        "moses": "throughtime.data.readers.lines:MosesPairs",
        "hsk": "throughtime.data.readers.lines:HskCards",
        "hsk-pairs": "throughtime.data.readers.lines:HskPairs",
        "columns": "throughtime.data.readers.lines:ColumnTags",
        "conllu": "throughtime.data.readers.lines:ConlluTags",
        "slots": "throughtime.data.readers.lines:SlotFiles",
        "series": "throughtime.data.readers.series:SeriesTable",
        "texts": "throughtime.data.readers.tabular:Texts",
        "labelled": "throughtime.data.readers.tabular:LabelledTexts",
        "described": "throughtime.data.readers.tabular:DescribedTexts",
        "tagged": "throughtime.data.readers.tabular:TaggedSentences",
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
        return tuple(part.strip() for part in value.split(",") if part.strip())
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
}
"""The reader of tables of each kind; that of pairs depends on the format."""
NOT_LANGUAGES = ("txt", "tokens", "tags", "text")


@functools.cache
def by_suffix() -> dict[str, str]:
    """Return the name of the reader of each suffix, such as `.tsv`, that a reader declares.

    >>> by_suffix()[".conllu"], by_suffix()[".iob"]
    ('conllu', 'columns')
    """
    found: dict[str, str] = {}
    for name, reader in READERS.available().items():
        suffixes = getattr(reader, "suffixes", (f".{name}",) if name not in READERS.own else ())
        found |= {suffix: name for suffix in suffixes if suffix not in found}
    return found


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
    if suffix == ".tsv" and kind == "tags" and not has_header(table, kind):
        return "columns"
    return BY_KIND.get(kind or guess_kind(table), suffix[1:])


def _guess_by_content(path: Path) -> str:
    lines = [line for _, line in itertools.islice(lines_or_errors(path), SAMPLE)]
    texts = [line for line in lines if isinstance(line, str)]
    if texts and texts[0].startswith("english: "):
        return "hsk"
    # Tatoeba's .txt files hold two texts separated by a tab on every line.
    if texts and all(line.count("\t") and all(line.split("\t")[:2]) for line in texts):
        return "tsv"
    return "text"
