"""Which reader a file wants, by its suffix and its first lines."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

from throughtime.data.readers.columns import ColumnTags
from throughtime.data.readers.csv_pairs import CsvPairs
from throughtime.data.readers.described import VECTOR, DescribedText
from throughtime.data.readers.hsk import HskCards
from throughtime.data.readers.jsonl import JsonlPairs
from throughtime.data.readers.labelled import LABEL, TEXT, LabelledText, tab_rows
from throughtime.data.readers.layout import as_date, as_number
from throughtime.data.readers.moses import MosesPairs
from throughtime.data.readers.plain import PlainText
from throughtime.data.readers.reader import Reader
from throughtime.data.readers.rows import csv_rows, number_rows
from throughtime.data.readers.series import SeriesTable
from throughtime.data.readers.slots import FILES, SlotFiles
from throughtime.data.readers.tsv import TsvPairs
from throughtime.data.source import lines_or_errors, text_suffix
from throughtime.errors import InputError

BY_SUFFIX: dict[str, type[Reader]] = {
    ".tsv": TsvPairs,
    ".jsonl": JsonlPairs,
    ".conll": ColumnTags,
    ".conllu": ColumnTags,
    ".bio": ColumnTags,
    ".iob": ColumnTags,
}
SIDE_BY_SIDE: dict[int, type[Reader]] = {2: MosesPairs, len(FILES): SlotFiles}
"""By the number of files, what lines that stand side by side in them are."""
SAMPLE = 20


def guess_reader(paths: Sequence[Path | str]) -> type[Reader]:
    """The reader that fits these files best; a person can always name another."""
    if not paths:
        raise InputError("no file given to read; name at least one")
    if any((Path(path) / FILES[0]).is_file() for path in paths):
        return SlotFiles
    if len(paths) in SIDE_BY_SIDE:
        # What has a format of its own is no side of a parallel corpus: such files follow one another.
        formats = (reader for path in paths if (reader := _format(path)) is not PlainText)
        return next(formats, SIDE_BY_SIDE[len(paths)])
    return _alone(Path(paths[0]))


def _format(path: Path | str) -> type[Reader]:
    try:
        return _alone(Path(path))
    except InputError:
        return PlainText  # whoever reads it says what is wrong with it


def _alone(path: Path) -> type[Reader]:
    suffix = text_suffix(path)
    names = _names(path, suffix)
    if TEXT in names and VECTOR in names:
        return DescribedText
    if TEXT in names and LABEL in names:
        return LabelledText
    if suffix == ".csv":
        return SeriesTable if _holds_series(path) else CsvPairs
    if suffix == ".tsv" and "ds" in names:
        return SeriesTable
    return BY_SUFFIX.get(suffix) or _by_content(path)


def _by_content(path: Path) -> type[Reader]:
    lines = [line for _, line in itertools.islice(lines_or_errors(path), SAMPLE)]
    texts = [line for line in lines if isinstance(line, str)]
    if texts and texts[0].startswith("english: "):
        return HskCards
    # Tatoeba's files are called .txt and hold columns: two texts separated by a tab on every line.
    if texts and all(line.count("\t") and all(line.split("\t")[:2]) for line in texts):
        return TsvPairs
    return PlainText


def _names(path: Path, suffix: str) -> set[str]:
    """The columns that a table's header names, or the fields of the first JSON object."""
    if suffix in (".csv", ".tsv"):
        rows = tab_rows(path) if suffix == ".tsv" else csv_rows(path)
        _, header = next(rows, (1, []))
        return {name.strip() for name in header} if isinstance(header, list) else set()
    if suffix == ".jsonl":
        _, line = next(lines_or_errors(path))
        try:
            fields = json.loads(line) if isinstance(line, str) else None
        except (ValueError, RecursionError):
            fields = None
        return set(fields) if isinstance(fields, dict) else set()
    return set()


def _holds_series(path: Path) -> bool:
    rows = [row for _, row in itertools.islice(number_rows(path), 2)]
    cells = [row for row in rows if isinstance(row, list)]
    if not cells or "ds" in cells[0]:
        return bool(cells)
    return any(as_date(cell) for cell in cells[-1]) or all(as_number(cell) is not None for cell in cells[-1])
