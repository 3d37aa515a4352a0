"""Running text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from throughtime.data.records import Kind, Line
from throughtime.data.source import BadRecords, good_lines


class PlainText:
    """Every line is a record, including blank lines, which separate paragraphs."""

    name: ClassVar[str] = "text"
    kind: ClassVar[Kind] = "text"

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[Line]:
        """Yield one `Line` for each line of each file."""
        for path in paths:
            for _, line in good_lines(path, bad):
                yield Line(line)
