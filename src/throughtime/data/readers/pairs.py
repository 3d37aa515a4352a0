"""Sentence pairs: in tables, in JSON lines, in columns separated by tabs, in two parallel files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from throughtime.data.readers.tables import (
    USUAL_NAMES,
    csv_rows,
    good_rows,
    json_records,
    place,
    shown_names,
    text_of,
)
from throughtime.data.records import Kind, Pair
from throughtime.data.source import BadRecords, good_lines, lines_or_errors
from throughtime.errors import InputError


class CsvPairs:
    """One pair a row; `source` and `target` name columns of the header, or count them from 0.

    Without them the header must name source and target (or src and tgt). Columns given by number mean a file
    without header, unless `header` says that it has one all the same.
    """

    name: ClassVar[str] = "csv"
    kind: ClassVar[Kind] = "pairs"

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
            rows = csv_rows(path)
            number, first = next(rows, (1, []))
            # Without its first row nothing in the file can be trusted, so skipping does not help.
            if isinstance(first, InputError):
                raise first
            source, target = self._places(path, first)
            left = rows if self.header else itertools.chain([(number, first)], rows)
            for _, row in good_rows(path, left, len(first), bad):
                yield Pair(row[source], row[target])

    def _places(self, path: Path, first: list[str]) -> tuple[int, int]:
        if self.source is not None and self.target is not None:
            return place(path, first, self.source), place(path, first, self.target)
        lowered = [name.strip().lower() for name in first]
        for source, target in USUAL_NAMES:
            if source in lowered and target in lowered:
                return lowered.index(source), lowered.index(target)
        shown = shown_names(first)
        problem = (
            f"no columns named source and target, nor text and label, it starts with {shown}; rename two of "
            "them, or choose with source and target"
        )
        raise InputError(str(path), problem, line=1)


class JsonlPairs:
    """Fields `src` and `tgt`, `source` and `target`, or `{"translation": {"en": "Go.", "fr": "Va !"}}`.

    `source` and `target` name other fields, or the two languages of a translation; without them the languages
    are the two of the first record, in its order.
    """

    name: ClassVar[str] = "jsonl"
    kind: ClassVar[Kind] = "pairs"

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

            def pair(fields: dict[str, Any]) -> Pair:
                nonlocal names
                translation = fields.get("translation")
                fields = translation if isinstance(translation, dict) else fields
                names = names or _names(fields)
                return Pair(text_of(fields, names[0]), text_of(fields, names[1]))

            yield from json_records(path, bad, pair)


def _names(fields: dict[str, Any]) -> tuple[str, str]:
    for names in USUAL_NAMES:
        if names[0] in fields and names[1] in fields:
            return names
    if len(fields) == 2:
        first, second = fields
        return first, second
    shown = shown_names(fields)
    raise ValueError(f"has no fields src and tgt, its fields are {shown}; choose with source and target")


class TsvPairs:
    """One pair a line, no header; `source` and `target` are column numbers from 0, other columns are ignored.

    A quote is a character like any other here: Tatoeba's sentences are full of them.
    """

    name: ClassVar[str] = "tsv"
    kind: ClassVar[Kind] = "pairs"

    def __init__(self, source: int = 0, target: int = 1) -> None:
        if min(source, target) < 0:
            raise InputError("the reader tsv", "options source and target count columns from 0")
        self.source, self.target = source, target

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[Pair]:
        """Yield one `Pair` for each line of each file."""
        needed = max(self.source, self.target) + 1
        for path in paths:
            for number, line in good_lines(path, bad):
                cells = line.split("\t")
                if len(cells) < needed:
                    bad.found(_too_few(path, number, line, needed))
                else:
                    yield Pair(cells[self.source], cells[self.target])


def _too_few(path: Path, number: int, line: str, needed: int) -> InputError:
    if not line.strip():
        problem = "is blank, expected a pair; remove the line (tagged words need the reader columns)"
    else:
        count = line.count("\t") + 1
        problem = f"has {count} column{'s' * (count > 1)}, expected at least {needed} separated by tabs"
    return InputError(str(path), problem, line=number)


class MosesPairs:
    """Line n of the first file is the source, line n of the second its translation."""

    name: ClassVar[str] = "moses"
    kind: ClassVar[Kind] = "pairs"

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
