"""Guess the reader for a file from its suffix and first lines."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from throughtime.data.readers.dates import TIME_NAMES, as_date, compact_date, like_date, named_date
from throughtime.data.readers.layout import MISSING, as_number, like_number, unread_dates
from throughtime.data.readers.tables import (
    LABEL,
    LABELS,
    TEXT,
    TEXTS,
    USUAL_NAMES,
    VECTOR,
    column_names,
    number_rows,
    tab_rows,
)
from throughtime.data.source import lines_or_errors, text_suffix
from throughtime.errors import InputError

SLOT_FILES = ("seq.in", "seq.out", "label")
BY_SUFFIX: dict[str, str] = {
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".conll": "columns",
    ".conllu": "conllu",
    ".bio": "columns",
    ".iob": "columns",
}
SIDE_BY_SIDE: dict[int, str] = {2: "moses", len(SLOT_FILES): "slots"}
"""The reader of parallel files, by their number."""
SAMPLE = 20


def guess_reader(paths: Sequence[Path | str]) -> str:
    """Return the name of the reader that fits these files best; users can choose another by name."""
    if not paths:
        raise InputError("no file given to read; name at least one")
    if any((Path(path) / SLOT_FILES[0]).is_file() for path in paths):
        return "slots"
    if len(paths) in SIDE_BY_SIDE:
        # Files with a format of their own are not sides of a parallel corpus: they are read in turn.
        formats = (reader for path in paths if (reader := _format(path)) != "text")
        return next(formats, SIDE_BY_SIDE[len(paths)])
    return _alone(Path(paths[0]))


def _format(path: Path | str) -> str:
    try:
        return _alone(Path(path))
    except InputError:
        return "text"  # its reader will report the error


def _alone(path: Path) -> str:
    suffix = text_suffix(path)
    names = set(column_names(path))
    if TEXT in names and VECTOR in names:
        return "described"
    if TEXT in names and LABEL in names:
        return "labelled"
    if suffix in (".csv", ".tsv") and _holds_series(path, suffix, names):
        return "series"
    if suffix == ".csv":
        return "csv"
    return BY_SUFFIX.get(suffix) or _by_content(path)


def _by_content(path: Path) -> str:
    lines = [line for _, line in itertools.islice(lines_or_errors(path), SAMPLE)]
    texts = [line for line in lines if isinstance(line, str)]
    if texts and texts[0].startswith("english: "):
        return "hsk"
    # Tatoeba's .txt files hold two texts separated by a tab on every line.
    if texts and all(line.count("\t") and all(line.split("\t")[:2]) for line in texts):
        return "tsv"
    return "text"


def _holds_series(path: Path, suffix: str, names: set[str]) -> bool:
    """Return whether the first row under the header has a date and a number; in CSV one is enough."""
    lowered = {name.lower() for name in names}
    if "ds" in names or any(lowered.issuperset(sides) for sides in USUAL_NAMES):
        return "ds" in names
    # In a file with tabs, quotes have no special meaning and may be unbalanced.
    found = tab_rows(path) if suffix == ".tsv" else number_rows(path)
    rows = [row for _, row in itertools.islice(found, 2) if isinstance(row, list)]
    cells = [cell.strip(' "') for cell in rows[-1]] if rows else []
    if any(map(like_date, cells)) and any(like_number(cell) or cell.lower() in MISSING for cell in cells):
        return True
    if rows and _dated(rows[0], cells, suffix, lowered):
        return True
    # With tabs, two numbers or two dates are a pair of source and target.
    if suffix == ".tsv" or not cells:
        return False
    return any(as_date(cell) for cell in cells) or all(as_number(cell) is not None for cell in cells)


def _dated(header: list[str], cells: list[str], suffix: str, lowered: set[str]) -> bool:
    """Return whether a row has numbers beside one date, written in words, in digits or in another form."""
    if lowered & TEXTS:
        return False
    usual = header[0].strip().lower() in TIME_NAMES
    numbers = all(like_number(cell) or cell.lower() in MISSING for cell in cells[1:])
    if suffix == ".csv" and cells and named_date(cells[0]) and cells[1:] and numbers:
        return True
    if usual and cells[1:] and numbers and compact_date(cells[0]):
        return True
    place = unread_dates(header, cells)
    # With tabs, or beside a label, only a usual name or a month in words distinguishes a date from text.
    sure = place is not None and (
        header[place].strip().lower() in TIME_NAMES or named_date(cells[place]) is not None
    )
    return sure or (place is not None and suffix == ".csv" and not lowered & LABELS)
