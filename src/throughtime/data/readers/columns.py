"""Tagged words in columns, one word a line, as the CoNLL shared tasks give them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from throughtime.data.readers.reader import Kind
from throughtime.data.records import Tagged
from throughtime.data.source import BadRecords, lines_or_errors
from throughtime.errors import InputError

DOCUMENT_START = "-DOCSTART-"


class ColumnTags:
    """A word and its tag a line, a blank line between sentences, `-DOCSTART-` lines passed over.

    `word` and `tag` count columns from 0, or from the end where negative. `comments` passes over lines that
    start with `#` and are no row of columns; without it `#` is a word like any other.
    """

    name: ClassVar[str] = "columns"
    kind: ClassVar[Kind] = "tags"
    columns: ClassVar[tuple[str, ...]] = Tagged._fields

    def __init__(self, word: int = 0, tag: int = -1, separator: str = "\t", comments: bool = False) -> None:
        if not separator:
            raise InputError("the reader columns", "option separator is empty; give a tab or a space")
        self.word, self.tag, self.separator, self.comments = word, tag, separator, comments

    def read(self, paths: Sequence[Path], bad: BadRecords) -> Iterator[Tagged]:
        """Yield one `Tagged` for each sentence of each file; a bad line makes its whole sentence bad."""
        for path in paths:
            for rows in self._sentences(path):
                error = next((row for row in rows if isinstance(row, InputError)), None)
                if error is not None:
                    bad.found(error)
                    continue
                words, tags = zip(*(row for row in rows if isinstance(row, tuple)), strict=True)
                yield Tagged(words, tags)

    def _sentences(self, path: Path) -> Iterator[list[tuple[str, str] | InputError]]:
        rows: list[tuple[str, str] | InputError] = []
        width = 0
        for number, line in lines_or_errors(path):
            if isinstance(line, InputError):
                rows.append(line)
            elif not line.strip(" "):
                if rows:
                    yield rows
                rows = []
            elif not self._passed_over(line):
                cells = line.split(self.separator)
                width = width or len(cells)
                rows.append(self._row(path, number, cells, width))
        if rows:
            yield rows

    def _passed_over(self, line: str) -> bool:
        if line.startswith(DOCUMENT_START):
            return True
        row = self.separator in line and not line.startswith("# ")
        return self.comments and line.startswith("#") and not row

    def _row(self, path: Path, number: int, cells: list[str], width: int) -> tuple[str, str] | InputError:
        needed = max(2, *(column + 1 if column >= 0 else -column for column in (self.word, self.tag)))
        if len(cells) < needed:
            count = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
            separator = {"\t": "tabs", " ": "spaces"}.get(self.separator, repr(self.separator))
            return InputError(
                str(path), f"has {count}, expected at least {needed} separated by {separator}", line=number
            )
        if len(cells) != width:
            problem = f"has {len(cells)} columns, the file's first row has {width}"
            return InputError(str(path), problem, line=number)
        word, tag = cells[self.word], cells[self.tag]
        if not word.strip() or not tag.strip():
            return InputError(str(path), f"has no {'tag' if word.strip() else 'word'}", line=number)
        return word, tag
