"""Texts with one label each, in CSV, TSV or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from throughtime.data.readers.jsonl import UNFIT
from throughtime.data.readers.reader import Kind
from throughtime.data.readers.rows import csv_rows, place, ragged
from throughtime.data.records import Labelled
from throughtime.data.source import BadRecords, lines_or_errors, text_suffix
from throughtime.errors import InputError

TEXT, LABEL = "text", "label"


class LabelledText:
    """One text a row, with columns or fields `text` and `label`, or those that the options name.

    The suffix tells the format: `.jsonl`, `.tsv` (a quote is a character like any other there), else CSV. A
    table begins with a header. An empty text is a text; an empty label is none.
    """

    name: ClassVar[str] = "labelled"
    kind: ClassVar[Kind] = "labelled"
    columns: ClassVar[tuple[str, ...]] = Labelled._fields

    def __init__(self, text: str = TEXT, label: str = LABEL) -> None:
        self.text, self.label = text, label

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[Labelled]:
        """Yield one `Labelled` for each row of each file."""
        for path in paths:
            suffix = text_suffix(path)
            if suffix == ".jsonl":
                yield from self._of_objects(path, bad)
            else:
                rows = tab_rows(path) if suffix == ".tsv" else csv_rows(path)
                yield from self._of_rows(path, rows, bad)

    def _of_rows(
        self, path: Path, rows: Iterator[tuple[int, list[str] | InputError]], bad: BadRecords
    ) -> Iterator[Labelled]:
        _, header = next(rows, (1, InputError(str(path), "has no rows")))
        # Without its header nothing in a table can be trusted: skipping bad records does not help there.
        if isinstance(header, InputError):
            raise header
        names = [name.strip() for name in header]
        text, label = (place(path, names, column) for column in (self.text, self.label))
        for number, row in rows:
            if isinstance(row, InputError):
                bad.found(row)
            elif len(row) != len(names):
                bad.found(ragged(path, number, row, len(names)))
            elif not row[label].strip():
                bad.found(InputError(str(path), "has no label", line=number))
            else:
                yield Labelled(row[text], row[label].strip())

    def _of_objects(self, path: Path, bad: BadRecords) -> Iterator[Labelled]:
        for number, fields in json_objects(path, bad):
            try:
                text, label = text_of(fields, self.text), fields.get(self.label)
                if isinstance(label, int | float):
                    label = json.dumps(label)
                if not isinstance(label, str) or not label.strip() or UNFIT.search(label):
                    raise ValueError(f"has no field {self.label!r} with a label in it")
            except ValueError as fault:
                bad.found(InputError(str(path), str(fault), line=number))
            else:
                yield Labelled(text, label.strip())


def json_objects(path: Path, bad: BadRecords) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and fields of each line that is a JSON object; blank lines are passed over."""
    for number, line in lines_or_errors(path):
        if isinstance(line, InputError):
            bad.found(line)
        elif line.strip():
            try:
                fields = json.loads(line)
            except (ValueError, RecursionError):
                fields = None
            if isinstance(fields, dict):
                yield number, fields
            else:
                bad.found(InputError(str(path), "is not a JSON object", line=number))


def tab_rows(path: Path) -> Iterator[tuple[int, list[str] | InputError]]:
    """Line and cells of each row of a table with tabs; blank lines are passed over."""
    for number, line in lines_or_errors(path):
        if isinstance(line, InputError):
            yield number, line
        elif line.strip():
            yield number, line.split("\t")


def text_of(fields: dict[str, Any], name: str) -> str:
    """The text in a field; a ValueError says what is wrong with it."""
    text = fields.get(name)
    if not isinstance(text, str):
        raise ValueError(f"has no field {name!r} with text in it")
    if unfit := UNFIT.search(text):
        raise ValueError(f"has a control character in {name!r}, U+{ord(unfit[0]):04X}; remove it")
    return text
