"""Dates in tables: in ISO form, in a given format, or in the only order of day, month and year that fits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from throughtime.data.panel import YEARS, infer_frequency
from throughtime.errors import InputError
from throughtime.interrupt import check_interrupt

DATE = re.compile(r"\d{4}-\d\d(-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?)?", re.ASCII)
DATE_PARTS = re.compile(
    r"(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})"
    r"(?:[ T]+(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)? ?([AaPp][Mm])?)?",
    re.ASCII,
)
"""Three numbers in any order, optionally followed by a time of day."""
_MONTHS = "january february march april may june july august september october november december"
MONTHS = {"sept": 9} | {
    word: number for number, name in enumerate(_MONTHS.split(), 1) for word in (name, name[:3])
}
"""Months by name, full or short; those of strptime depend on the locale."""
NAMED = re.compile(
    r"(?:(?P<day>\d{1,2})[ -](?P<month>[A-Za-z]{3,9})\.?(?:,? |-)"
    r"|(?P<first>[A-Za-z]{3,9})\.?(?: (?P<second>\d{1,2}),? |[ -]))(?P<year>\d{4})"
    r"(?:,?[ T](?P<clock>\d{1,2}:\d\d(?::\d\d)?))?",
    re.ASCII,
)
"""A month by its name, before or after the day, or with a year alone, optionally with a time of day."""
DATED = re.compile(r"(?<!\d)(1[6-9]|2[01])\d\d(?!\d)|\b\d{1,2}[-/. ][^\W\d]{3,}\.?[-/. ]\d\d\b", re.ASCII)
"""A year, or a two-digit one after a day and a word."""
MAX_LENGTH = 32  # maximum number of characters of a date; longer texts only mention one
MAX_FORMAT = 100  # maximum number of characters of a format, and of a date in one: strptime takes long
COMPACT = "%Y%m%d"
TIME_NAMES = frozenset("ds date day time timestamp datetime".split())
"""The usual names of columns of times."""
ORDERS = {"dmy": "%d{0}%m{0}%Y", "mdy": "%m{0}%d{0}%Y", "ymd": "%Y{0}%m{0}%d"}
WORDS = {"dmy": "day first", "mdy": "month first", "ymd": "year first"}
CENTURY = 69  # two-digit years from here on belong to the 20th century, as in strptime


@dataclass(frozen=True)
class DateForm:
    """How the dates of a column are written: in ISO form, unless an order or a format is given."""

    order: str | None = None  # a key of ORDERS, or "named" for months in words
    format: str | None = None  # as in strptime

    def read(self, text: str) -> datetime | None:
        """Return the time in a cell, or None if it cannot be read.

        >>> str(DateForm("dmy").read("31/12/2023 13:00")), DateForm("mdy").read("31/12/2023")
        ('2023-12-31 13:00:00', None)
        """
        text = text.strip()
        if self.format is not None:
            return _parse_format(text, self.format)
        if self.order == "named":
            return named_date(text)
        return parse_date(text) if self.order is None else _parse_order(text, self.order)

    def to_iso(self, text: str, moment: datetime) -> str:
        """Return the date in ISO form; a text that is already in ISO form is returned unchanged."""
        if self.order is None and self.format is None:
            return text
        midnight = moment == moment.replace(hour=0, minute=0, second=0, microsecond=0)
        return moment.date().isoformat() if midnight else moment.isoformat(sep=" ")

    @property
    def description(self) -> str:
        """The expected form of a date, for messages."""
        if self.format is not None:
            return f"a date in the format {self.format!r}"
        if self.order == "named":
            return "a date with the English name of its month, like the others in its column"
        if self.order is not None:
            return f"a date with the {WORDS[self.order]}, like the others in its column"
        return "YYYY-MM, YYYY-MM-DD or YYYY-MM-DD HH:MM:SS"


ISO = DateForm()


class DateCell(NamedTuple):
    """A date as it is written, with its line in the file and its series."""

    line: int | None
    series: str
    text: str


def check_date_format(date_format: str) -> str:
    """Return the format; raise an error if `strptime` does not accept it or it has no year.

    >>> check_date_format("%d.%m")
    Traceback (most recent call last):
    throughtime.errors.InputError: date_format: is '%d.%m', which has no year; add %Y, as in %d.%m.%Y
    """
    earlier, later = datetime(2003, 4, 5, 6, 7, 8), datetime(2014, 4, 5, 6, 7, 8)
    problem = "which has no year; add %Y, as in %d.%m.%Y"
    if len(date_format) > MAX_FORMAT:
        shown = f"{date_format[:MAX_LENGTH]}..."
        raise InputError("date_format", f"is {shown!r}, expected at most {MAX_FORMAT} characters")
    try:
        written = earlier.strftime(date_format)
        # The year is looked for first: newer versions of Python warn about reading a date without one.
        if written != later.strftime(date_format):
            datetime.strptime(written, date_format)
            problem = ""
    except (ValueError, re.error) as error:  # the second for a part that is given twice
        problem = f"which strptime refuses ({error}); write it like %d.%m.%Y"
    if problem:
        raise InputError("date_format", f"is {date_format!r}, {problem}")
    return date_format


def settle_form(cells: Iterable[DateCell], where: str) -> DateForm:
    """Return the only order of day, month and year that fits all dates of a column, or raise an error.

    A number above 12 cannot be a month. If two orders remain, dates with dots have the day first, as is usual
    where dots are used; for other dates, the order is the one in which every series has equal steps, if that
    is true for only one order.

    >>> settle_form([DateCell(2, "a", "03/02/2023"), DateCell(3, "a", "31/12/2023")], "a.csv").order
    'dmy'
    """
    cells = list(cells)
    dates = [cell for cell in cells if any(_parse_order(cell.text, order) for order in ORDERS)]
    if not dates:
        return DateForm("named") if any(named_date(cell.text) for cell in cells) else ISO
    left = list(ORDERS)
    settled: DateCell | None = None
    for cell in dates:
        fitting = [order for order in left if _parse_order(cell.text, order)]
        if not fitting:
            before = settled or dates[0]
            raise InputError(
                where,
                f"has the date {cell.text!r}, which cannot be read in the same way as {before.text!r}"
                f"{'' if before.line is None else f' on line {before.line}'}; write all dates in one form",
                line=cell.line,
            )
        if len(fitting) < len(left):
            left, settled = fitting, cell
    if len(left) > 1 and "dmy" in left and all("." in cell.text.split()[0] for cell in dates):
        left = ["dmy"]
    regular = left if len(left) == 1 else [order for order in left if _is_regular(dates, order)]
    if len(regular) == 1:
        return DateForm(regular[0])
    first = dates[0]
    mark = first.text.strip().lstrip("0123456789")[0]
    formats = " or ".join(ORDERS[order].format(mark) for order in left)
    readings = " or ".join(WORDS[order] for order in left)
    raise InputError(
        where,
        f"has the date {first.text!r}, and its dates can be read {readings}; give date_format, {formats}",
        line=first.line,
    )


def parse_date(text: str) -> datetime | None:
    """Return the time of a cell in ISO form, or None."""
    text = text.strip()
    if not DATE.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(f"{text}-01" if len(text) == len("YYYY-MM") else text)
    except ValueError:
        return None


def named_date(text: str) -> datetime | None:
    """Return the time of a cell with the English name of a month, full or short, or None.

    >>> [str(named_date(text)) for text in ("1 Jan 2023", "January 01, 2023 13:00", "Feb 2023", "May 5")]
    ['2023-01-01 00:00:00', '2023-01-01 13:00:00', '2023-02-01 00:00:00', 'None']
    """
    match = NAMED.fullmatch(text.strip())
    if match is None:
        return None
    month = MONTHS.get((match["month"] or match["first"]).lower(), 0)
    try:
        day = datetime(int(match["year"]), month, int(match["day"] or match["second"] or 1))
        clock = [int(number) for number in (match["clock"] or "0:0").split(":")]
        return day.replace(hour=clock[0], minute=clock[1], second=sum(clock[2:]))
    except ValueError:
        return None


def compact_date(text: str) -> bool:
    """Return whether a cell is a date of eight digits: year, month and day.

    >>> compact_date("20230131"), compact_date("20230132"), compact_date("2023011")
    (True, False, False)
    """
    text = text.strip()
    moment = _parse_format(text, COMPACT) if len(text) == 8 and text.isascii() and text.isdigit() else None
    return moment is not None and moment.year in YEARS


def looks_like_date(name: str, text: str) -> bool:
    """Return whether a cell without a number is meant as a date, even in a form that cannot be read.

    >>> looks_like_date("when", "1 janvier 2023"), looks_like_date("date", "noon")
    (True, True)
    >>> looks_like_date("when", "noon")
    False
    """
    text = text.strip()
    if len(text) > MAX_LENGTH:
        return False
    return name.strip().lower() in TIME_NAMES or DATED.search(text) is not None


def like_date(text: str) -> bool:
    """Return whether a cell looks like a date.

    >>> like_date("2022-01"), like_date("03.01.2022"), like_date("1/3/22 14:00"), like_date("1185.48")
    (True, True, True, False)
    """
    return bool(DATE.fullmatch(text.strip()) or DATE_PARTS.fullmatch(text.strip()))


def _parse_format(text: str, date_format: str) -> datetime | None:
    if len(text) > MAX_FORMAT:
        return None
    try:
        moment = datetime.strptime(text, date_format)
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def _parse_order(text: str, order: str) -> datetime | None:
    check_interrupt()
    match = DATE_PARTS.fullmatch(text.strip())
    if match is None:
        return None
    parts = dict(zip(order, match.group(1, 3, 4), strict=True))
    if len(parts["y"]) not in (2, 4) or len(parts["d"]) > 2 or len(parts["m"]) > 2:
        return None
    year = int(parts["y"])
    if len(parts["y"]) == 2:
        year += 1900 if year >= CENTURY else 2000
    hour, minute, second = (int(number or 0) for number in match.group(5, 6, 7))
    if match[9] is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if match[9].lower() == "pm" else 0)
    try:
        micro = int((match[8] or "").ljust(6, "0"))
        return datetime(year, int(parts["m"]), int(parts["d"]), hour, minute, second, micro)
    except ValueError:
        return None


def _is_regular(dates: Sequence[DateCell], order: str) -> bool:
    """Return whether, in this order, every series has equal steps, and at least one has two or more."""
    series: dict[str, list[datetime]] = {}
    for cell in dates:
        moment = _parse_order(cell.text, order)
        if moment is None or moment.year not in YEARS:
            return False
        series.setdefault(cell.series, []).append(moment)
    times = [np.array(moments, dtype="datetime64[ns]") for moments in series.values() if len(moments) > 1]
    if max(map(len, times), default=0) < 3 or any((ds[1:] <= ds[:-1]).any() for ds in times):
        return False
    try:
        frequency = infer_frequency(times)
    except InputError:
        return False
    return frequency is not None and all((np.diff(frequency.places(ds)) == 1).all() for ds in times)
