"""The five-line format of the HSK deck: english, hsk, mandarin, pinyin and a line of two dashes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from throughtime.data.records import Flashcard, Kind, Pair
from throughtime.data.source import BadRecords, lines_or_errors
from throughtime.errors import InputError, unknown

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
                    bad.found(card)
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
    for field, (number, line) in zip(Flashcard._fields, lines, strict=False):
        if isinstance(line, InputError):
            return line
        name, mark, value = line.partition(": ")
        if name != field or not mark:
            found = "the end of the record" if line == END else repr(line[:40])
            problem = f"is not the {field} line, expected '{field}: ...', found {found}"
            return InputError(where, problem, line=number)
        if not value.strip():
            return InputError(where, f"has no text after '{field}:'", line=number)
        values.append(value)
    if len(values) < len(Flashcard._fields):
        problem = f"ends the file within a record, expected '{Flashcard._fields[len(values)]}: ...' after it"
        return InputError(where, problem, line=lines[-1][0])
    for number, line in lines[len(values) : len(values) + 1]:
        if isinstance(line, InputError):
            return line
        if line != END:
            return InputError(
                where, f"is one line too many, expected {END!r}, found {line[:40]!r}", line=number
            )
    return Flashcard(*values)
