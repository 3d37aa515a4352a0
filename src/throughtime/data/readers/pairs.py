"""Sentence pairs: in tables, JSON lines, columns separated by tabs, two parallel files, or flashcards."""

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
    read_first_row,
    read_text_field,
    shown_names,
)
from throughtime.data.records import Flashcard, Kind, Pair
from throughtime.data.source import BadRecords, good_lines, lines_or_errors
from throughtime.errors import InputError, unknown
from throughtime.text.texts import format_count


class CsvPairs:
    """One pair per row; `source` and `target` are columns, by name or by number from 0.

    Without them, the header must name source and target (or src and tgt). If columns are given by number, the
    file has no header, unless `header` is true.
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
            number, first = read_first_row(path, rows)
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
            f"has no columns named source and target, nor text and label; its columns are {shown}; rename "
            "two of them, or choose them with source and target"
        )
        raise InputError(str(path), problem, line=1)


class JsonlPairs:
    """Fields `src` and `tgt`, `source` and `target`, or `{"translation": {"en": "Go.", "fr": "Va !"}}`.

    `source` and `target` name other fields, or the two languages of a translation; by default, the languages
    are those of the first record, in its order.
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
        """Yield one `Pair` for each line of each file; blank lines are skipped."""
        for path in paths:
            names = self.names

            def pair(fields: dict[str, Any]) -> Pair:
                nonlocal names
                translation = fields.get("translation")
                fields = translation if isinstance(translation, dict) else fields
                names = names or _names(fields)
                return Pair(read_text_field(fields, names[0]), read_text_field(fields, names[1]))

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
    """One pair per line, without a header; `source` and `target` are column numbers from 0.

    Other columns are ignored. Quotes have no special meaning: Tatoeba's sentences are full of them.
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
                    bad.handle(_too_few(path, number, line, needed))
                else:
                    yield Pair(cells[self.source], cells[self.target])


def _too_few(path: Path, number: int, line: str, needed: int) -> InputError:
    if not line.strip():
        problem = "is blank, expected a pair; remove the line (tagged words need the reader columns)"
    else:
        count = format_count(line.count("\t") + 1, "column")
        problem = f"has {count}, expected at least {needed} separated by tabs"
    return InputError(str(path), problem, line=number)


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


class HskPairs:
    """Two fields of each flashcard as a pair, by default English to Mandarin."""

    name: ClassVar[str] = "hsk-pairs"
    kind: ClassVar[Kind] = "pairs"

    def __init__(self, source: str = "english", target: str = "mandarin") -> None:
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
        if field == END:
            if line != END:
                problem = f"is one line too many, expected {END!r}, found {line[:40]!r}"
                return InputError(where, problem, line=number)
            continue
        name, mark, value = line.partition(": ")
        if name != field or not mark:
            shown_line = "the end of the record" if line == END else repr(line[:40])
            problem = f"is not the {field} line, expected '{field}: ...', found {shown_line}"
            return InputError(where, problem, line=number)
        if not value.strip():
            return InputError(where, f"has no text after '{field}:'", line=number)
        values.append(value)
    if len(values) < len(Flashcard._fields):
        problem = f"ends the file within a record, expected '{Flashcard._fields[len(values)]}: ...' after it"
        return InputError(where, problem, line=lines[-1][0])
    return Flashcard(*values)
