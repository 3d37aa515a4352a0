"""The roles of the columns of a table of series, and reading its rows accordingly."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from throughtime.data.readers.dates import (
    DATE,
    DATE_PARTS,
    ISO,
    DateForm,
    like_date,
    meant_as_date,
    named_date,
)
from throughtime.data.readers.tables import DECIMAL_COMMA, place, ragged
from throughtime.data.source import Place
from throughtime.errors import InputError

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
class Columns:
    """The columns that the user chose by name; `find_layout` finds the others."""

    time: str | None = None
    identifier: str | None = None
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """The positions of the columns in one file; `name` is the name of a series without such a column."""

    path: Place
    name: str
    width: int
    header: bool
    identifier: int | None
    time: int | None
    whole: bool
    values: tuple[int, ...]
    columns: tuple[str, ...]
    form: DateForm = ISO
    missing: bool = False  # whether a value may be missing; it is NaN then

    def row(self, line: int, cells: list[str]) -> Row:
        """Read one row, or raise what is wrong with it."""
        if len(cells) != self.width:
            raise ragged(self.path, line, cells, self.width)
        unique_id = self.name if self.identifier is None else cells[self.identifier].strip()
        if not unique_id:
            raise InputError(str(self.path), "has no name of a series", line=line)
        ds, moment = "", None
        if self.time is not None:
            ds = cells[self.time].strip()
            moment = self._moment(line, ds)
            if isinstance(moment, datetime):
                ds = self.form.spelled(ds, moment)
        numbers = [
            self._number(line, cells[place], column)
            for place, column in zip(self.values, self.columns, strict=True)
        ]
        return Row(line, unique_id, ds, moment, numbers)

    def is_good(self, line: int, cells: list[str]) -> bool:
        """Return whether `row` can read this row."""
        try:
            self.row(line, cells)
        except InputError:
            return False
        return True

    def is_value(self, text: str) -> bool:
        """Return whether a cell holds a finite number, or nothing where values may be missing."""
        number = as_number(text)
        missing = self.missing and text.strip().lower() in MISSING
        return missing or (number is not None and math.isfinite(number))

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
            wanted = "a whole number" if self.whole else self.form.wanted
            problem = f"has no readable time, {text!r} is not {wanted}"
            if text and self.form == ISO and not self.whole and not DATE.fullmatch(text):
                problem += "; write it like that, or give date_format, for example %d %b %Y for 31 Dec 2023"
            raise InputError(str(self.path), problem, line=line)
        return moment

    def _number(self, line: int, text: str, column: str) -> float:
        if self.missing and text.strip().lower() in MISSING:
            return math.nan
        number = as_number(text)
        if number is not None and math.isfinite(number):
            return number
        if not text.strip():
            problem = f"has no value in column {column!r}; fill the gap or remove the row"
        elif number is not None:
            problem = f"has {text.strip()} in column {column!r}; fill the gap or remove the row"
        else:
            problem = f"has no number in column {column!r}: {text[:40]!r}{_hint(text.strip())}"
        raise InputError(str(self.path), problem, line=line)


def find_layout(
    path: Place, name: str, chosen: Columns, first: list[str], second: list[str], form: DateForm = ISO
) -> Layout:
    """Return the layout of a file, judging by its first two rows; the second may be empty."""
    header = not all(
        as_number(cell) is not None or like_date(cell) or named_date(cell) or form.read(cell)
        for cell in first
    )
    names = [cell.strip() for cell in first] if header else [""] * len(first)
    sample = second if header else first
    if header:
        _check_names(path, names)
    identifier = _identifier(path, names, chosen.identifier)
    time = _time(path, names, sample, chosen.time, identifier, form)
    if chosen.values:
        values = tuple(place(path, names, column) for column in chosen.values)
    else:
        values = tuple(each for each in range(len(names)) if each not in (identifier, time))
    if not values:
        raise InputError(str(path), "has no column of values", line=1)
    if header and not all(names[each] for each in values):
        problem = "has a column without a name; name it, or choose columns with the option values"
        raise InputError(str(path), problem, line=1)
    numbered = ("y",) if len(values) == 1 else tuple(f"y{each}" for each in range(len(values)))
    return Layout(
        path=path,
        name=name,
        width=len(first),
        header=header,
        identifier=identifier,
        time=time,
        whole=time is not None and form.format is None and _whole(sample[time:]),
        values=values,
        columns=tuple(names[each] for each in values) if header else numbered,
        form=form,
    )


def as_number(text: str) -> float | None:
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
    return as_number(text) is not None or bool(forms)


def unread_dates(names: Sequence[str], cells: Sequence[str]) -> int | None:
    """Return the column that is meant as dates: the first, if all others hold numbers; else None.

    >>> unread_dates(["when", "y"], ["1 janvier 2023", "5"]), unread_dates(["film", "stars"], ["Good", "5"])
    (0, None)
    """
    if len(cells) < len(names) or any(as_number(name) is not None for name in names):
        return None
    named = [each for each, name in enumerate(names) if name.strip() == "unique_id"]
    first = next((each for each in range(len(names)) if each not in named), None)
    others = [cell.strip() for each, cell in enumerate(cells) if each not in (first, *named)]
    if first is None or not others or as_number(cells[first]) is not None:
        return None
    if not all(like_number(cell) or cell.lower() in MISSING for cell in others):
        return None
    return first if meant_as_date(names[first], cells[first]) else None


def _hint(text: str) -> str:
    """Return advice on how to write a number."""
    ways = ["numbers without thousands separators"] if GROUPED.fullmatch(text) else []
    ways += ["decimals with a point"] if DECIMAL_COMMA.fullmatch(text) else []
    ways += ["dates as YYYY-MM-DD"] if DATE_PARTS.fullmatch(text) else []
    return f"; write {' and '.join(ways)}" if ways else ""


def _whole(cells: Sequence[str]) -> bool:
    """Return whether the first of these cells exists and is a whole number."""
    return any(WHOLE.fullmatch(cell.strip()) for cell in cells[:1])


def _check_names(path: Place, names: Sequence[str]) -> None:
    twice = [name for name in names if name and names.count(name) > 1]
    if twice:
        raise InputError(str(path), f"names the column {twice[0]!r} twice; rename one", line=1)


def _identifier(path: Place, names: list[str], chosen: str | None) -> int | None:
    if chosen is not None:
        return place(path, names, chosen)
    return names.index("unique_id") if "unique_id" in names else None


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
            problem = f"has no column with {form.wanted} in its first row of values"
            raise InputError(str(path), f"{problem}; correct date_format")
        return read[0]
    dates = [each for each, cell in others if DATE.fullmatch(cell.strip())]
    # A date that cannot be read is still the time: reading the row raises the error.
    dates = dates or [each for each, cell in others if like_date(cell) or named_date(cell)]
    return dates[0] if dates else unread_dates(names, sample) if any(names) else None
