"""Sentence pairs in two parallel files, or in flashcards."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from throughtime.data.records import Flashcard, Kind, Pair
from throughtime.data.source import BadRecords, lines_or_errors
from throughtime.errors import InputError, unknown


class MosesPairs:
    """Line n of the first file is a source sentence, line n of the second its translation."""

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
    """Yield number and texts of the lines with the same number in several files.

    Files of different lengths raise an error even if bad records are skipped: after a missing line, every
    later line would have the wrong partner.
    """
    sources = [lines_or_errors(path) for path in paths]
    for number, row in enumerate(itertools.zip_longest(*sources), start=1):
        if None in row:
            raise _unequal(paths, sources, row, number)
        lines = [line for _, line in row]
        errors = [line for line in lines if isinstance(line, InputError)]
        if errors:
            bad.handle(errors[0])
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


END = "--"


class HskCards:
    """A record has five lines: `english: ...`, `hsk: ...`, `mandarin: ...`, `pinyin: ...` and `--`."""

    name: ClassVar[str] = "hsk"
    kind: ClassVar[Kind] = "cards"

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[Flashcard]:
        """Yield one `Flashcard` for each record of each file."""
        for path in paths:
            for lines in _blocks(path):
                card = _card(str(path), lines)
                if isinstance(card, InputError):
                    bad.handle(card)
                else:
                    yield card


FIELDS = {"en": "english", "zh": "mandarin"}


class HskPairs:
    """Two fields of each flashcard as a pair, by default English to Mandarin."""

    name: ClassVar[str] = "hsk-pairs"
    kind: ClassVar[Kind] = "pairs"

    def __init__(self, source: str = "english", target: str = "mandarin") -> None:
        source, target = (FIELDS.get(field, field) for field in (source, target))
        for field in (source, target):
            if field not in Flashcard._fields:
                raise unknown("field of a flashcard", field, Flashcard._fields)
        self.source, self.target = source, target

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[Pair]:
        """Yield one `Pair` for each record of each file."""
        for card in HskCards().read(paths, bad):
            yield Pair(getattr(card, self.source), getattr(card, self.target))


Numbered = tuple[int, str | InputError]


def _blocks(path: Path) -> Iterator[list[Numbered]]:
    """Yield the lines of each record, at most six, so that a wrong file does not fill the memory.

    Each record ends with `--`, except that the last record of a file may lack it.
    """
    lines: list[Numbered] = []
    for number, line in lines_or_errors(path):
        if not lines and line == "":
            continue
        if len(lines) <= len(Flashcard._fields) or line == END:
            lines.append((number, line))
        if line == END:
            yield lines
            lines = []
    if lines:
        yield lines


def _card(where: str, lines: list[Numbered]) -> Flashcard | InputError:
    values: list[str] = []
    for field, (number, line) in zip((*Flashcard._fields, END), lines, strict=False):
        if isinstance(line, InputError):
            return line
        name, mark, value = line.partition(": ")
        problem = ""
        if field == END:
            problem = f"is one line too many, expected {END!r}, found {line[:40]!r}" if line != END else ""
        elif name != field or not mark:
            shown_line = "the end of the record" if line == END else repr(line[:40])
            problem = f"is not the {field} line, expected '{field}: ...', found {shown_line}"
        elif not value.strip():
            problem = f"has no text after '{field}:'"
        if problem:
            return InputError(where, problem, line=number)
        values.append(value)
    missing = Flashcard._fields[len(values) :]
    if missing:
        problem = f"ends the file within a record, expected '{missing[0]}: ...' after it"
        return InputError(where, problem, line=lines[-1][0])
    return Flashcard(*values[: len(Flashcard._fields)])
