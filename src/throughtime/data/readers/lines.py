"""Readers of text files, line by line: running text, parallel files, flashcards and tagged words."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from throughtime.data.readers import SLOT_FILES
from throughtime.data.readers.columns import choose_word_columns
from throughtime.data.readers.tables import DataTable
from throughtime.data.records import Flashcard, Kind, Line, Pair, TaggedSentence
from throughtime.data.source import BadRecords, good_lines, lines_or_errors, text_suffix
from throughtime.errors import InputError, unknown
from throughtime.text.texts import format_count


class PlainText:
    """Every line is a record, including blank lines, which separate paragraphs."""

    name: ClassVar[str] = "text"
    kind: ClassVar[Kind] = "text"

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[Line]:
        """Yield one `Line` for each line of each file."""
        for path in paths:
            for _, line in good_lines(path, bad):
                yield Line(line)


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
        """Return one `Flashcard` for each record of each file."""
        return bad.keep(_card(str(path), lines) for path in paths for lines in _blocks(path))


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


DOCUMENT_START = "-DOCSTART-"
# Not all of Unicode's spaces: the one in 10\xa0000 is part of the word.
BLANKS = re.compile(r"[ \t]+")

Cells = list[tuple[str, str] | InputError]


class ColumnTags:
    """A word and its tag per line, and a blank line or a `-DOCSTART-` line between sentences.

    `word` and `tag` are column numbers from 0, or negative, from the end; by default the first and the last.
    In a table with names, such as a .tsv file may be, they may be names. Columns are separated by
    `separator`; by default by tabs if the first row of a file has one, else by runs of spaces. `comments`
    skips lines that start with `#` and are not rows of columns; otherwise, `#` is a word like any other.
    """

    name: ClassVar[str] = "columns"
    kind: ClassVar[Kind] = "tags"
    suffixes: ClassVar[tuple[str, ...]] = (".conll", ".bio", ".iob")

    def __init__(
        self,
        word: int | str | None = None,
        tag: int | str | None = None,
        separator: str | None = None,
        comments: bool = False,
    ) -> None:
        if separator == "":
            raise InputError("the reader columns", "option separator is empty; give a tab or a space")
        self.word, self.tag, self.separator, self.comments = word, tag, separator, comments

    def names(self, path: Path) -> dict[str, str]:
        """Return the names of the columns that are read, if the first row of a file holds names."""
        return self._columns(path)[2]

    def _columns(self, path: Path) -> tuple[int, int, dict[str, str]]:
        """Return the columns of the words and of the tags, and their names, if the first row holds names."""
        given = {"words": self.word, "tags": self.tag}
        chosen = {role: column for role, column in given.items() if column is not None}
        named = any(isinstance(column, str) for column in chosen.values())
        if named or (text_suffix(path) == ".tsv" and self.separator is None):
            choice = choose_word_columns(DataTable(path, ".tsv"), chosen)
            if choice is not None:
                return choice.places[0], choice.places[1], choice.names
        word, tag = chosen.get("words", 0), chosen.get("tags", -1)
        assert isinstance(word, int)
        assert isinstance(tag, int)
        return word, tag, {}

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[TaggedSentence]:
        """Yield each sentence of each file; a bad line makes its whole sentence bad."""
        for path in paths:
            yield from bad.keep(map(_join_rows, self._sentences(path)))

    def _sentences(self, path: Path) -> Iterator[Cells]:
        rows: Cells = []
        word, tag, names = self._columns(path)
        separator, width = self.separator, 0
        for number, line in lines_or_errors(path):
            if isinstance(line, InputError):
                rows.append(line)
            elif not line.strip() or line.startswith(DOCUMENT_START):
                if rows:
                    yield rows
                rows = []
            elif not self._is_comment(line):
                if not width and separator is None and "\t" in line:
                    separator = "\t"
                cells = _cells(line, separator)
                width = width or len(cells)
                if names:
                    names = {}  # they are in the first row alone
                elif self._has_word(cells):
                    rows.append(self._row(path, number, cells, (word, tag), width, separator))
        if rows:
            yield rows

    def _is_comment(self, line: str) -> bool:
        row = (self.separator or "\t") in line and not line.startswith("# ")
        return self.comments and line.startswith("#") and not row

    def _has_word(self, cells: list[str]) -> bool:
        """Return whether a row stands for a word; in plain columns, every row does."""
        return True

    def _row(
        self,
        path: Path,
        number: int,
        cells: list[str],
        columns: tuple[int, int],
        width: int,
        separator: str | None,
    ) -> tuple[str, str] | InputError:
        needed = max(2, *(column + 1 if column >= 0 else -column for column in columns))
        if len(cells) < needed:
            count = format_count(len(cells), "column")
            marks = {"\t": "tabs", " ": "spaces", None: "a tab or spaces"}.get(separator, repr(separator))
            problem = f"has {count}, expected at least {needed} separated by {marks}"
            return InputError(str(path), problem, line=number)
        if len(cells) != width:
            problem = f"has {len(cells)} columns, the file's first row has {width}"
            return InputError(str(path), problem, line=number)
        word, tag = (cells[column] for column in columns)
        if not word.strip() or not tag.strip():
            return InputError(str(path), f"has no {'tag' if word.strip() else 'word'}", line=number)
        return word, tag


def _join_rows(rows: Cells) -> TaggedSentence | InputError:
    """Return the sentence of these rows, or the first error among them."""
    if error := next((row for row in rows if isinstance(row, InputError)), None):
        return error
    words, tags = zip(*(row for row in rows if isinstance(row, tuple)), strict=True)
    return TaggedSentence(words, tags)


def _cells(line: str, separator: str | None) -> list[str]:
    """Return the columns of a row, stripped; a separator at the end of the line is ignored."""
    if separator is None:
        return BLANKS.split(line.strip(" \t"))
    return [cell.strip(" ") for cell in line.rstrip(" \t").split(separator)]


FORM, UPOS = 1, 3
NO_WORD = re.compile(r"\d+[-.]\d+", re.ASCII)


class ConlluTags(ColumnTags):
    """Words with their universal parts of speech, or with another column `tag`, such as 4 for XPOS.

    Comments are skipped, and so are rows that are not words of the sentence: ranges such as `1-2`, whose
    words follow, and empty nodes such as `1.1`.
    """

    name: ClassVar[str] = "conllu"
    suffixes: ClassVar[tuple[str, ...]] = (".conllu",)

    def __init__(self, tag: int = UPOS) -> None:
        super().__init__(word=FORM, tag=tag, separator="\t", comments=True)

    def _has_word(self, cells: list[str]) -> bool:
        return not NO_WORD.fullmatch(cells[0])


class SlotFiles:
    """A folder with `seq.in`, `seq.out` and `label`, or these three files in this order.

    Words and slots are separated by any number of spaces.
    """

    name: ClassVar[str] = "slots"
    kind: ClassVar[Kind] = "tags"

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[TaggedSentence]:
        """Yield one `TaggedSentence` for each line of the three files, folder after folder."""
        if len(paths) == len(SLOT_FILES) and not any(path.is_dir() for path in paths):
            triples = [tuple(paths)]
        else:
            triples = [tuple(path / name for name in SLOT_FILES) for path in paths]
            if not_folders := [path for path in paths if not path.is_dir()]:
                problem = (
                    "is not a folder; give a folder with seq.in, seq.out and label, or these three files"
                )
                raise InputError(str(not_folders[0]), problem)
        for triple in triples:
            yield from _sentences(triple, bad)


def _sentences(paths: tuple[Path, ...], bad: BadRecords) -> Iterator[TaggedSentence]:
    for number, (words_line, tags_line, label_line) in parallel_lines(paths, bad):
        words, tags = _split_words(words_line), _split_words(tags_line)
        label = label_line.strip()
        if not words:
            bad.handle(InputError(str(paths[0]), "has no words", line=number))
        elif len(words) != len(tags):
            problem = f"does not match, {len(words)} words here but {len(tags)} slots in {paths[1].name}"
            bad.handle(InputError(str(paths[0]), problem, line=number))
        elif not label:
            bad.handle(InputError(str(paths[2]), "has no label", line=number))
        else:
            yield TaggedSentence(words, tags, label)


def _split_words(line: str) -> tuple[str, ...]:
    # Not str.split(), because a no-break space is part of a word.
    return tuple(word for word in line.replace("\t", " ").split(" ") if word)
