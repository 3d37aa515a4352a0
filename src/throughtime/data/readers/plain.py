"""Running text, one record a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from throughtime.data.readers.reader import Kind
from throughtime.data.records import Line
from throughtime.data.source import BadRecords, lines_or_errors
from throughtime.errors import InputError


class PlainText:
    """Every line is a record, blank ones too: corpora count them, and they part paragraphs."""

    name: ClassVar[str] = "text"
    kind: ClassVar[Kind] = "text"
    columns: ClassVar[tuple[str, ...]] = Line._fields

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[Line]:
        """Yield one `Line` for each line of each file."""
        for path in paths:
            for _, line in lines_or_errors(path):
                if isinstance(line, InputError):
                    bad.found(line)
                else:
                    yield Line(line)
