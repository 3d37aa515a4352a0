"""Sentence pairs in columns separated by tabs, as Tatoeba gives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from throughtime.data.readers.reader import Kind
from throughtime.data.records import Pair
from throughtime.data.source import BadRecords, lines_or_errors
from throughtime.errors import InputError


class TsvPairs:
    """One pair a line, no header; `source` and `target` are column numbers from 0, other columns are ignored.

    A quote is a character like any other here: Tatoeba's sentences are full of them.
    """

    name: ClassVar[str] = "tsv"
    kind: ClassVar[Kind] = "pairs"
    columns: ClassVar[tuple[str, ...]] = Pair._fields

    def __init__(self, source: int = 0, target: int = 1) -> None:
        if min(source, target) < 0:
            raise InputError("the reader tsv", "options source and target count columns from 0")
        self.source, self.target = source, target

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[Pair]:
        """Yield one `Pair` for each line of each file."""
        needed = max(self.source, self.target) + 1
        for path in paths:
            for number, line in lines_or_errors(path):
                if isinstance(line, InputError):
                    bad.found(line)
                    continue
                cells = line.split("\t")
                if len(cells) < needed:
                    bad.found(_too_few(path, number, line, needed))
                    continue
                yield Pair(cells[self.source], cells[self.target])


def _too_few(path: Path, number: int, line: str, needed: int) -> InputError:
    if not line.strip():
        problem = "is blank, expected a pair; remove the line (tagged words need the reader columns)"
    else:
        count = line.count("\t") + 1
        problem = f"has {count} column{'s' * (count > 1)}, expected at least {needed} separated by tabs"
    return InputError(str(path), problem, line=number)
