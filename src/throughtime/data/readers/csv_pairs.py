"""Sentence pairs in a CSV file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from throughtime.data.readers.reader import Kind
from throughtime.data.readers.rows import csv_rows, place, ragged
from throughtime.data.records import Pair
from throughtime.data.source import BadRecords
from throughtime.errors import InputError

USUAL_NAMES = (("source", "target"), ("src", "tgt"), ("src", "trg"))


class CsvPairs:
    """One pair a row; `source` and `target` name columns of the header, or count them from 0.

    Without them the header must name source and target (or src and tgt). Columns given by number mean a file
    without header, unless `header` says that it has one all the same.
    """

    name: ClassVar[str] = "csv"
    kind: ClassVar[Kind] = "pairs"
    columns: ClassVar[tuple[str, ...]] = Pair._fields

    def __init__(
        self, source: str | int | None = None, target: str | int | None = None, header: bool = False
    ) -> None:
        if (source is None) != (target is None):
            raise InputError("the reader csv", "options source and target go together; give both or neither")
        self.source, self.target = source, target
        self.header = header or not (isinstance(source, int) and isinstance(target, int))

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[Pair]:
        """Yield one `Pair` for each row of each file."""
        for path in paths:
            width = 0
            for number, row in csv_rows(path):
                if not width:
                    # Without its first row nothing in the file can be trusted, so skipping does not help.
                    if isinstance(row, InputError):
                        raise row
                    width = len(row)
                    source, target = self._places(path, row)
                    if self.header:
                        continue
                if isinstance(row, InputError):
                    bad.found(row)
                elif len(row) != width:
                    bad.found(ragged(path, number, row, width))
                else:
                    yield Pair(row[source], row[target])

    def _places(self, path: Path, first: list[str]) -> tuple[int, int]:
        if self.source is not None and self.target is not None:
            return place(path, first, self.source), place(path, first, self.target)
        lowered = [name.strip().lower() for name in first]
        for source, target in USUAL_NAMES:
            if source in lowered and target in lowered:
                return lowered.index(source), lowered.index(target)
        shown = ", ".join(repr(name) for name in first[:8])
        problem = (
            f"no columns named source and target, nor text and label, it starts with {shown}; rename two of "
            "them, or choose with source and target"
        )
        raise InputError(str(path), problem, line=1)
