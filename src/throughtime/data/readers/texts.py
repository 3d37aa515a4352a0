"""Running text, and texts with a label or a vector of numbers each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from throughtime.data.readers.tables import (
    LABEL,
    TEXT,
    UNFIT,
    VECTOR,
    csv_rows,
    good_rows,
    json_records,
    place,
    read_first_row,
    read_text_field,
    tab_rows,
)
from throughtime.data.records import DescribedText, Kind, LabelledText, Line
from throughtime.data.source import BadRecords, good_lines, text_suffix
from throughtime.errors import InputError
from throughtime.text.texts import LARGEST


class PlainText:
    """Every line is a record, including blank lines, which separate paragraphs."""

    name: ClassVar[str] = "text"
    kind: ClassVar[Kind] = "text"

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[Line]:
        """Yield one `Line` for each line of each file."""
        for path in paths:
            for _, line in good_lines(path, bad):
                yield Line(line)


class LabelledFiles:
    """One text per row, in columns or fields `text` and `label`, or those that the options name.

    The suffix decides on the format: `.jsonl`, `.tsv` (where quotes have no special meaning), else CSV. A
    table starts with a header. A text may be empty, but a label may not.
    """

    name: ClassVar[str] = "labelled"
    kind: ClassVar[Kind] = "labelled"

    def __init__(self, text: str = TEXT, label: str = LABEL) -> None:
        self.text, self.label = text, label

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[LabelledText]:
        """Yield one `LabelledText` for each row of each file."""
        for path in paths:
            if text_suffix(path) == ".jsonl":
                yield from json_records(path, bad, self._read_object)
            else:
                yield from self._read_rows(path, bad)

    def _read_rows(self, path: Path, bad: BadRecords) -> Iterator[LabelledText]:
        rows = tab_rows(path) if text_suffix(path) == ".tsv" else csv_rows(path)
        _, header = read_first_row(path, rows)
        names = [name.strip() for name in header]
        text, label = (place(path, names, column) for column in (self.text, self.label))
        for number, row in good_rows(path, rows, len(names), bad):
            if not row[label].strip():
                bad.handle(InputError(str(path), "has no label", line=number))
            else:
                yield LabelledText(row[text], row[label].strip())

    def _read_object(self, fields: dict[str, Any]) -> LabelledText:
        text, label = read_text_field(fields, self.text), fields.get(self.label)
        label = json.dumps(label) if isinstance(label, int | float) else label
        if not isinstance(label, str) or not label.strip() or UNFIT.search(label):
            raise ValueError(f"has no field {self.label!r} that holds a label")
        return LabelledText(text, label.strip())


class DescribedFiles:
    """JSON lines such as {"vector": [0.1, -2], "text": "a cold wet day"}; all vectors have one length."""

    name: ClassVar[str] = "described"
    kind: ClassVar[Kind] = "described"

    def __init__(self, text: str = TEXT, vector: str = VECTOR) -> None:
        self.text, self.vector = text, vector

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[DescribedText]:
        """Yield one `DescribedText` for each line of each file."""
        width = 0

        def read_object(fields: dict[str, Any]) -> DescribedText:
            nonlocal width
            record = DescribedText(
                read_text_field(fields, self.text), read_vector(fields, self.vector, width)
            )
            width = width or len(record.vector)
            return record

        for path in paths:
            yield from json_records(path, bad, read_object)


def read_vector(fields: dict[str, Any], name: str, width: int) -> tuple[float, ...]:
    """Return the numbers in a field; raise a ValueError unless there are `width` (0: any number)."""
    numbers = fields.get(name)
    good = isinstance(numbers, list) and all(
        isinstance(number, int | float) and not isinstance(number, bool) and abs(number) < LARGEST
        for number in numbers
    )
    if not good or not numbers:
        raise ValueError(f"has no field {name!r} with a list of finite numbers")
    if width and len(numbers) != width:
        raise ValueError(f"has {len(numbers)} numbers in {name!r}, the first line has {width}")
    return tuple(float(number) for number in numbers)
