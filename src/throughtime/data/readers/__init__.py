"""Readers turn files into records. A reader is a class and one line in `READERS`.

Another package adds a reader with an entry point of the group `READERS.group`; it is used if it is chosen
by name, and for files whose suffix is its name.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from throughtime.data.readers.guess import guess_reader
from throughtime.data.records import Kind
from throughtime.data.source import BadRecords, text_suffix
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
        "labelled": "throughtime.data.readers.texts:LabelledText",
        "described": "throughtime.data.readers.texts:DescribedText",
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
                raise InputError(f"the reader {reader_name}", f"has no options, so not {name!r}")
            raise unknown(f"option of the reader {reader_name}", name, known)
        values[name] = _typed(value, hints[name], f"the reader {reader_name}", name)
    build: Callable[..., Reader] = reader
    return build(**values)


def _typed(value: object, hint: Any, where: str, name: str) -> object:
    """Convert text to the type of the option; return other values unchanged."""
    if not isinstance(value, str):
        return value
    wanted = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if int in wanted and value.removeprefix("-").isdecimal():
        return int(value)
    if any(typing.get_origin(each) is tuple for each in wanted):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if bool in wanted and value.lower() in TRUTH:
        return TRUTH[value.lower()]
    if str in wanted:
        # A shell passes a tab as the two characters that stand for it.
        return value.replace("\\t", "\t")
    kind = "true or false" if bool in wanted else "a whole number"
    raise InputError(where, f"option {name} is {value!r}, expected {kind}")
