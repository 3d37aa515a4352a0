"""A reader: lines of `source -> target`, in files whose names end in .arrows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from throughtime.data.records import Kind, Pair
from throughtime.data.source import BadRecords, good_lines
from throughtime.errors import InputError


class ArrowPairs:
    """One pair a line, English on the left and French on the right."""

    name: ClassVar[str] = "arrows"
    kind: ClassVar[Kind] = "pairs"
    suffixes: ClassVar[tuple[str, ...]] = (".arrows", ".arw")

    def __init__(self, source: str = "en", target: str = "fr") -> None:
        self.turned = (source, target) == ("fr", "en")

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[Pair]:
        """Yield one `Pair` for each line of each file."""
        for path in paths:
            for number, line in good_lines(path, bad):
                left, arrow, right = line.partition(" -> ")
                if arrow:
                    yield Pair(right, left) if self.turned else Pair(left, right)
                else:
                    bad.handle(InputError(str(path), "has no ' -> ' in it", line=number))
