"""The roles of the columns of a table of series, and reading its rows accordingly."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from throughtime.data.readers.dates import (
    DATE,
    DATE_PARTS,
    ISO,
    DateForm,
    like_date,
    looks_like_date,
    named_date,
)
from throughtime.data.readers.tables import DECIMAL_COMMA, place, shown_names, width_error
from throughtime.data.source import Place, unpacked_name
from throughtime.errors import InputError
from throughtime.text.texts import MAX_NUMBER

GROUPED = re.compile(r"[-+]?\d{1,3}([., '’_\u00a0\u202f]\d{3})+([.,]\d+)?", re.ASCII)
MISSING = frozenset({"", "nan", "na", "n/a", "null", "none", "-nan"})
WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)


class Row(NamedTuple):
    """One row: its series, its time (as written, and as a value to compare) and its values."""

    line: int
    unique_id: str
    ds: str
    moment: Any  # datetime, int, or None where the table has no times
    values: list[float]


@dataclass(frozen=True)
class SeriesLayout:
    """The positions of the columns in one file."""

    path: Place
    width: int
    header: bool
    identifier: int | None
    time: int | None
    whole: bool
    values: tuple[int, ...]
    columns: tuple[str, ...]
    names: tuple[str, ...]
    form: DateForm = ISO
    missing: bool = False  # whether a value may be missing; it is NaN then

    @cached_property
    def name(self) -> str:
        """The name of the series if no column names it: that of the file."""
        return unpacked_name(str(self.path)).stem

    def row(self, line: int, cells: list[str]) -> Row:
        """Read one row, or raise what is wrong with it."""
        if len(cells) != self.width:
            raise width_error(self.path, line, cells, self.width)
        unique_id = self.name if self.identifier is None else cells[self.identifier].strip()
        if not unique_id:
            raise InputError(str(self.path), "has no series name", line=line)
        ds, moment = "", None
        if self.time is not None:
            ds = cells[self.time].strip()
            moment = self._moment(line, ds)
            if isinstance(moment, datetime):
                ds = self.form.to_iso(ds, moment)
        numbers = [
            self._number(line, cells[position], column)
            for position, column in zip(self.values, self.columns, strict=True)
        ]
        return Row(line, unique_id, ds, moment, numbers)

    def is_good(self, line: int, cells: list[str]) -> bool:
        """Return whether `row` can read this row."""
        try:
            self.row(line, cells)
        except InputError:
            return False
        return True

    @property
    def identifier_name(self) -> str | None:
        """The column with the names of the series, if there is one."""
        return None if self.identifier is None else self.names[self.identifier]

    @property
    def dated(self) -> bool:
        """Whether the times are dates, not whole numbers."""
        return self.time is not None and not self.whole

    def series_name(self, unique_id: str, column: str, of: int) -> str:
        """Return the name of the series in one `of` several columns; a long table's own name comes first."""
        if of == 1:
            return unique_id
        return column if self.identifier is None else f"{unique_id}/{column}"

    def _moment(self, line: int, text: str) -> datetime | int:
        if self.whole and WHOLE.fullmatch(text):
            return int(text)
        moment = None if self.whole else self.form.read(text)
        if moment is None:
            form = "a whole number" if self.whole else self.form.description
            problem = f"has no readable time, {text!r} is not {form}"
            if text and self.form == ISO and not self.whole and not DATE.fullmatch(text):
                problem += "; write it like that, or give date_format, for example %d %b %Y for 31 Dec 2023"
            raise InputError(str(self.path), problem, line=line)
        return moment

    def _number(self, line: int, text: str, column: str) -> float:
        if self.missing and text.strip().lower() in MISSING:
            return math.nan
        number = parse_number(text)
        if number is not None and abs(number) <= MAX_NUMBER:
            return number
        where = f"in column {column!r}"
        if not text.strip():
            problem = f"has no value {where}; fill the gap or remove the row"
        elif number is None:
            problem = f"has no number {where}: {text[:40]!r}{_hint(text.strip())}"
        elif math.isfinite(number):
            problem = f"has {number:g} {where}, beyond {MAX_NUMBER:g}; correct it, or use a larger unit"
        else:
            problem = f"has {text.strip()} {where}; fill the gap or remove the row"
        raise InputError(str(self.path), problem, line=line)


def find_layout(
    path: Place,
    first: list[str],
    rows: Sequence[list[str]],
    *,
    time: str | None,
    identifier: str | None,
    values: tuple[str, ...],
    form: DateForm = ISO,
    missing: bool = False,
) -> SeriesLayout:
    """Return the layout of a file, judging by its first row and some of the rows after it, which may be none.

    `time`, `identifier` and `values` are the columns that the user chose by name, if any.
    """
    header = not all(
        parse_number(cell) is not None or like_date(cell) or named_date(cell) or form.read(cell)
        for cell in first
    )
    names = [cell.strip() for cell in first] if header else [""] * len(first)
    rows = rows if header else [first, *rows]
    sample = rows[0] if rows else []
    places = {name: each for each, name in reversed([*enumerate(names)])}  # a search for each would be slow
    if twice := [name for each, name in enumerate(names) if name and places[name] != each]:
        raise InputError(str(path), f"names the column {twice[0]!r} twice; rename one", line=1)
    identifier = "unique_id" if identifier is None and "unique_id" in names else identifier
    owner = None if identifier is None else place(path, names, identifier)
    clock = _time(path, names, sample, time, owner, form)
    if header:
        owner = _owner(path, names, rows, clock, owner, values)
    chosen = tuple(places[each] if each in places else place(path, names, each) for each in values)
    chosen = chosen or tuple(each for each in range(len(names)) if each not in (owner, clock))
    if not chosen:
        raise InputError(str(path), "has no column of values; add one", line=1)
    if header and not all(names[each] for each in chosen):
        problem = "has a column without a name; name it, or choose columns with the option values"
        raise InputError(str(path), problem, line=1)
    numbered = ("y",) if len(chosen) == 1 else tuple(f"y{each}" for each in range(len(chosen)))
    whole = clock is not None and form.format is None and any(map(_is_whole, sample[clock : clock + 1]))
    columns = tuple(names[each] for each in chosen) if header else numbered
    return SeriesLayout(
        path, len(first), header, owner, clock, whole, chosen, columns, tuple(names), form, missing
    )


def _owner(
    path: Place,
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    clock: int | None,
    chosen: int | None,
    values: Sequence[str],
) -> int | None:
    """Return the column that names the series: the chosen one, else the only one of text; ask about several.

    Text that may be a note names the series only if a time recurs, or if it is the same everywhere. Dates
    beside those of the times name none, and without times, text may if all of it recurs.
    """
    named = {*values}  # searched once for each of perhaps many columns
    texts = [
        each
        for each, name in enumerate(names)
        if each not in (clock, chosen)
        and name not in named
        and rows
        and not any(row[each].strip().lower() in MISSING or like_number(row[each]) for row in rows)
    ]
    sure = not values and "y" not in names
    if clock is None and any(len({row[each] for row in rows}) == len(rows) for each in texts):
        texts = []
    recurs = clock is not None and len({row[clock] for row in rows}) < len(rows)
    dates = [each for each in texts if clock is not None and all(like_date(row[each]) for row in rows)]
    taken = {*texts, clock, chosen}
    left = [name for each, name in enumerate(names) if each not in taken]
    if not left:
        return chosen  # reading the values raises the error
    alone = chosen is None and len(texts) == 1 and clock is not None and not dates
    if alone and (sure or recurs or len({row[texts[0]] for row in rows}) == 1):
        return texts[0]
    if texts and sure:
        shown = shown_names(names[each] for each in texts)
        choices = {} if chosen is not None else {"id": names[texts[0]]}
        if clock is not None and len(dates) == len(texts):
            shown, choices = shown_names(names[each] for each in (clock, *dates)), {"time": names[clock]}
        kind = "dates" if "time" in choices else "text"
        raise ask_columns(path, f"holds {kind} in {shown}", {**choices, "target": left[0]})
    return chosen


def ask_columns(path: Place, problem: str, choices: dict[str, str], line: int = 1) -> InputError:
    """Return the question which columns to read, which the command line makes a command of."""
    example = " and ".join(f"{role}={name}" for role, name in choices.items())
    error = InputError(str(path), f"{problem}; choose with {' and '.join(choices)}, as in {example}", line)
    error.choices = {**choices}
    return error


def parse_number(text: str) -> float | None:
    """Return the number in a cell, possibly infinite or NaN, or None; `1_000` is not a number here."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def like_number(text: str) -> bool:
    """Return whether a cell is meant as a number, even in a form that cannot be read.

    >>> like_number("1185.48"), like_number("1.185,48"), like_number("1185,48"), like_number("Go.")
    (True, True, True, False)
    """
    forms = GROUPED.fullmatch(text.strip()) or DECIMAL_COMMA.fullmatch(text)
    return parse_number(text) is not None or bool(forms)


def unread_dates(names: Sequence[str], cells: Sequence[str]) -> int | None:
    """Return the column that is meant as dates: the first, if all others hold numbers; else None.

    >>> unread_dates(["when", "y"], ["1 janvier 2023", "5"]), unread_dates(["film", "stars"], ["Good", "5"])
    (0, None)
    """
    if len(cells) < len(names) or any(parse_number(name) is not None for name in names):
        return None
    named = [each for each, name in enumerate(names) if name.strip() == "unique_id"]
    first = next((each for each in range(len(names)) if each not in named), None)
    others = [cell.strip() for each, cell in enumerate(cells) if each not in (first, *named)]
    if first is None or not others or parse_number(cells[first]) is not None:
        return None
    if not all(like_number(cell) or cell.lower() in MISSING for cell in others):
        return None
    return first if looks_like_date(names[first], cells[first]) else None


def _hint(text: str) -> str:
    """Return advice on how to write a number."""
    ways = ["numbers without thousands separators"] if GROUPED.fullmatch(text) else []
    ways += ["decimals with a point"] if DECIMAL_COMMA.fullmatch(text) else []
    ways += ["dates as YYYY-MM-DD"] if DATE_PARTS.fullmatch(text) else []
    return f"; write {' and '.join(ways)}" if ways else ""


def _is_whole(cell: str) -> bool:
    return WHOLE.fullmatch(cell.strip()) is not None


def _time(
    path: Place,
    names: list[str],
    sample: list[str],
    chosen: str | None,
    identifier: int | None,
    form: DateForm,
) -> int | None:
    if chosen is not None:
        return place(path, names, chosen)
    if "ds" in names:
        return names.index("ds")
    others = [(each, cell) for each, cell in enumerate(sample) if each != identifier]
    if form.format is not None:
        read = [each for each, cell in others if form.read(cell)]
        if not read:
            problem = f"has no column with {form.description} in its first row of values"
            raise InputError(str(path), f"{problem}; correct date_format")
        return read[0]
    dates = [each for each, cell in others if DATE.fullmatch(cell.strip())]
    # A date that cannot be read is still the time: reading the row raises the error.
    dates = dates or [each for each, cell in others if like_date(cell) or named_date(cell)]
    return dates[0] if dates else unread_dates(names, sample) if any(names) else None
