"""Sentence pairs in two parallel files, as OPUS packs them for Moses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from throughtime.data.readers.reader import Kind
from throughtime.data.records import Pair
from throughtime.data.source import BadRecords, lines_or_errors
from throughtime.errors import InputError


class MosesPairs:
    """Line n of the first file is the source, line n of the second its translation."""

    name: ClassVar[str] = "moses"
    kind: ClassVar[Kind] = "pairs"
    columns: ClassVar[tuple[str, ...]] = Pair._fields

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[Pair]:
        """Yield one `Pair` for each line of the two files."""
        if len(paths) != 2:
            files = ", ".join(map(str, paths)) or "none"
            raise InputError("the reader moses", f"takes two files, source and target; given: {files}")
        for _, (source, target) in parallel_lines(paths, bad):
            yield Pair(source, target)


def parallel_lines(paths: Sequence[Path], bad: BadRecords) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Number and texts of the lines that stand side by side in several files.

    Files of unequal length are refused even where bad records are skipped: a line lost in the middle of one
    makes every later line the partner of the wrong one.
    """
    sources = [lines_or_errors(path) for path in paths]
    for number, row in enumerate(itertools.zip_longest(*sources), start=1):
        if None in row:
            raise _unequal(paths, sources, row, number)
        lines = [line for _, line in row]
        errors = [line for line in lines if isinstance(line, InputError)]
        if errors:
            bad.found(errors[0])
        else:
            yield number, tuple(line for line in lines if isinstance(line, str))


def _unequal(
    paths: Sequence[Path], sources: Sequence[Iterator[object]], row: Sequence[object], number: int
) -> InputError:
    counts = [
        number - 1 if line is None else number + sum(1 for _ in source)
        for line, source in zip(row, sources, strict=True)
    ]
    longer = next(path for path, line in zip(paths, row, strict=True) if line is not None)
    shown = " and ".join(f"{path} has {count:,}" for path, count in zip(paths, counts, strict=True))
    return InputError(str(longer), f"has no partner: {shown} lines; align the files", line=number)
