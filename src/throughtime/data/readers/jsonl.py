"""Sentence pairs as one JSON object a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from throughtime.data.readers.csv_pairs import USUAL_NAMES
from throughtime.data.readers.reader import Kind
from throughtime.data.records import Pair
from throughtime.data.source import BadRecords, lines_or_errors
from throughtime.errors import InputError

# An escape can smuggle in what the file itself may not hold; half a surrogate pair cannot be written again.
UNFIT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class JsonlPairs:
    """Fields `src` and `tgt`, `source` and `target`, or `{"translation": {"en": "Go.", "fr": "Va !"}}`.

    `source` and `target` name other fields, or the two languages of a translation; without them the languages
    are the two of the first record, in its order.
    """

    name: ClassVar[str] = "jsonl"
    kind: ClassVar[Kind] = "pairs"
    columns: ClassVar[tuple[str, ...]] = Pair._fields

    def __init__(self, source: str | None = None, target: str | None = None) -> None:
        if (source is None) != (target is None):
            raise InputError(
                "the reader jsonl", "options source and target go together; give both or neither"
            )
        self.names = None if source is None or target is None else (source, target)

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[Pair]:
        """Yield one `Pair` for each line of each file; blank lines are passed over."""
        for path in paths:
            names = self.names
            for number, line in lines_or_errors(path):
                if isinstance(line, InputError):
                    bad.found(line)
                    continue
                if not line.strip():
                    continue
                try:
                    fields = _fields(line)
                    names = names or _names(fields)
                    yield Pair(_text(fields, names[0]), _text(fields, names[1]))
                except _FaultyLineError as fault:
                    bad.found(InputError(str(path), str(fault), line=number))


class _FaultyLineError(Exception):
    """What is wrong with a line, before it is known which."""


def _fields(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except RecursionError:
        raise _FaultyLineError("is nested too deeply, expected one flat JSON object") from None
    except ValueError as error:
        detail = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
        raise _FaultyLineError(f"is not JSON: {detail}") from None
    if not isinstance(value, dict):
        raise _FaultyLineError('is not a JSON object, expected one such as {"src": "Go.", "tgt": "Va !"}')
    translation = value.get("translation")
    return translation if isinstance(translation, dict) else value


def _names(fields: dict[str, Any]) -> tuple[str, str]:
    for names in USUAL_NAMES:
        if names[0] in fields and names[1] in fields:
            return names
    if len(fields) == 2:
        first, second = fields
        return first, second
    shown = ", ".join(repr(name) for name in list(fields)[:8]) or "none"
    raise _FaultyLineError(
        f"has no fields src and tgt, its fields are {shown}; choose with source and target"
    )


def _text(fields: dict[str, Any], name: str) -> str:
    if name not in fields:
        shown = ", ".join(repr(field) for field in list(fields)[:8]) or "none"
        raise _FaultyLineError(f"has no field {name!r}, its fields are {shown}")
    text = fields[name]
    if not isinstance(text, str):
        raise _FaultyLineError(f"has a field {name!r} that is not text: {json.dumps(text)[:40]}")
    if unfit := UNFIT.search(text):
        raise _FaultyLineError(f"has a control character in {name!r}, U+{ord(unfit[0]):04X}; remove it")
    return text
