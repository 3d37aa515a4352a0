"""Dates of many countries: read where there is one way to, else asked for; never guessed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refuses

from throughtime.data.datasets import open_dataset
from throughtime.data.readers.dates import DateForm, check_date_format
from throughtime.data.readers.panel import Roles, read_future, read_panel, read_series_panel
from throughtime.data.readers.series import SeriesTable
from throughtime.data.source import BadRecords

DAYS = np.arange("2023-01-01", "2024-02-01", dtype="datetime64[D]")
MONTHS = np.arange("2022-01", "2024-03", dtype="datetime64[M]").astype("datetime64[D]")
HOURS = np.arange("2023-02-01T00", "2023-02-04T00", dtype="datetime64[h]")


def table(path: Path, times: np.ndarray, date_format: str, delimiter: str = ",") -> Path:
    """A file with these times, written so, and values of 0, 1, 2, ..."""
    written = [time.astype("datetime64[s]").item().strftime(date_format) for time in times]
    rows = [f"{time}{delimiter}{row}\n" for row, time in enumerate(written)]
    path.write_text(f"date{delimiter}y\n" + "".join(rows))
    return path


@pytest.mark.parametrize("times", [DAYS, MONTHS, HOURS], ids=["days", "months", "hours"])
@pytest.mark.parametrize(
    "date_format",
    ["%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m/%d/%y", "%-d.%-m.%Y", "%Y.%m.%d"],
)
def test_one_reading_is_found(tmp_path: Path, times: np.ndarray, date_format: str) -> None:
    """A field above 12 settles days; equal steps settle months, each on its first day, and hours."""
    clock = " %H:%M" if times is HOURS else ""
    path = table(tmp_path / "a.csv", times, date_format + clock)
    [series] = read_panel(path).series
    np.testing.assert_array_equal(series.ds, times.astype("datetime64[ns]"))
    assert not read_panel(path).notes


@pytest.mark.parametrize("times", [DAYS, MONTHS], ids=["days", "months"])
@pytest.mark.parametrize(
    "date_format", ["%d %b %Y", "%d-%b-%Y", "%-d %B %Y", '"%B %d, %Y"', '"%b. %d, %Y"', "%B %d %Y %H:%M"]
)
@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_months_in_words_need_no_format(
    tmp_path: Path, times: np.ndarray, date_format: str, name: str
) -> None:
    path = table(tmp_path / name, times, date_format, "\t" if name == "a.tsv" else ",")
    dataset = open_dataset(str(path))
    assert dataset.kind == "series"
    [series] = read_series_panel(dataset).series
    np.testing.assert_array_equal(series.ds, times.astype("datetime64[ns]"))
    assert next(iter(dataset.records())).ds == str(times[0])


def test_a_month_in_words_and_a_year_is_the_first_of_the_month(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", MONTHS, "%b %Y")
    path.write_text(path.read_text().partition("\n")[2])  # no header
    [series] = read_series_panel(open_dataset(str(path))).series
    np.testing.assert_array_equal(series.ds, MONTHS.astype("datetime64[ns]"))


@pytest.mark.parametrize("column", ["ds", "date", "Day", "time", "timestamp", "datetime"])
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_eight_digits_under_a_usual_name_are_dates(tmp_path: Path, column: str, suffix: str) -> None:
    path = table(tmp_path / f"a.{suffix}", DAYS, "%Y%m%d", "\t" if suffix == "tsv" else ",")
    path.write_text(path.read_text().replace("date", column, 1))
    dataset = open_dataset(str(path))
    panel = read_series_panel(dataset)
    assert (len(panel.series), str(panel.frequency)) == (1, "day")
    np.testing.assert_array_equal(panel.series[0].ds, DAYS.astype("datetime64[ns]"))
    assert next(iter(dataset.records())).ds == "2023-01-01"


def test_eight_digits_that_are_no_dates_stay_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("ds,y\n20230131,1\n20230132,2\n20230133,3\n")  # counted on, and no day of January
    assert read_panel(path).series[0].ds.tolist() == [20230131, 20230132, 20230133]
    path.write_text("sold,kept\n20230130,1\n20230131,2\n")  # no name of a time
    assert len(read_panel(path).series) == 2
    path.write_text("ds,y\n1,20230130\n2,20230131\n")
    assert read_panel(path).series[0].y.tolist() == [20230130, 20230131]


@pytest.mark.parametrize(
    ("name", "header", "date"),
    [
        ("a.csv", "date,y", "1 janvier 2023"),
        ("a.tsv", "date\ty", "1 janvier 2023"),
        ("a.csv", "when,y", "1 janvier 2023"),
        ("a.csv", "when,y", "2023Q1"),
        ("a.csv", "Date,y", "01-Jan-23"),  # the first of 2023, or the 23rd of 2001
        ("a.csv", "time,y", "noon"),
    ],
)
def test_dates_that_cannot_be_read_are_asked_for(tmp_path: Path, name: str, header: str, date: str) -> None:
    path = tmp_path / name
    mark = "\t" if name == "a.tsv" else ","
    path.write_text(f"{header}\n{date}{mark}5\n{date}{mark}6\n")
    dataset = open_dataset(str(path))
    assert dataset.kind == "series"
    for read in (lambda: read_series_panel(dataset), lambda: list(dataset.records())):
        with refuses(f"{name}:2", f"'{date}'", "date_format"):
            read()


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.csv", "source,target\n1 Jan 2023,5\n", "pairs"),
        ("a.csv", "text,stars\nMay 2023,5\n", "labelled"),
        ("a.csv", "review,stars\nBest of 2023,5\n", "labelled"),
        ("a.csv", "date,text,stars\n1 Jan 2023,Good film,5\n", "labelled"),
        ("a.csv", "sms,label\nWin in 2023,1\n", "pairs"),
        ("a.csv", "words,digits\ntwenty,20\n", "pairs"),
        ("a.tsv", "1 Jan 2023\t2023-01-01\n2 Jan 2023\t2023-01-02\n", "pairs"),
        ("a.tsv", "9 May 1998\t19980509\n10 May 1998\t19980510\n", "pairs"),
        ("a.tsv", "In 2023\tEn 2023\nIn 2024\t2024\n", "pairs"),
    ],
)
def test_texts_that_tell_dates_stay_texts(tmp_path: Path, name: str, text: str, kind: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert open_dataset(str(path)).kind == kind


def test_times_of_the_day_may_be_halves(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", HOURS, "%m/%d/%Y %I:%M:%S %p")
    [series] = read_panel(path).series
    np.testing.assert_array_equal(series.ds, HOURS.astype("datetime64[ns]"))


def test_dots_have_the_day_first_where_both_orders_fit(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", DAYS[:9], "%d.%m.%Y", ";")
    np.testing.assert_array_equal(read_panel(path).series[0].ds, DAYS[:9].astype("datetime64[ns]"))
    month_first = table(tmp_path / "b.csv", DAYS[:40], "%m.%d.%Y")
    np.testing.assert_array_equal(read_panel(month_first).series[0].ds, DAYS[:40].astype("datetime64[ns]"))


@pytest.mark.parametrize("mark", ["/", "-"])
def test_two_readings_are_asked_about(tmp_path: Path, mark: str) -> None:
    path = table(tmp_path / "a.csv", DAYS[:9], f"%d{mark}%m{mark}%Y")  # or nine months
    with refuses("a.csv:2", f"'01{mark}01{mark}2023'", "date_format", f"%d{mark}%m{mark}%Y"):
        read_panel(path)
    for date_format, step in ((f"%d{mark}%m{mark}%Y", "day"), (f"%m{mark}%d{mark}%Y", "month")):
        assert str(read_panel(path, date_format=date_format).frequency) == step
    irregular = table(tmp_path / "b.csv", DAYS[[0, 1, 3, 4]], f"%d{mark}%m{mark}%Y")
    with refuses("b.csv:2", "date_format"):
        read_panel(irregular)
    two = table(tmp_path / "c.csv", DAYS[:2], f"%d{mark}%m{mark}%Y")
    with refuses("c.csv:2", "date_format"):
        read_panel(two)


def test_a_column_of_two_orders_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("date,y\n01/02/2023,1\n31/12/2023,2\n01/01/2024,3\n12/31/2024,4\n")
    with refuses("a.csv:5", "'12/31/2024'", "'31/12/2023'", "3"):
        read_panel(path)


def test_a_date_that_nothing_reads_is_a_bad_record(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", DAYS, "%d.%m.%Y")
    lines = path.read_text().splitlines()
    lines[20] = "45.13.2023,19"
    path.write_text("\n".join(lines) + "\n")
    with refuses("a.csv:21", "'45.13.2023'"):
        read_panel(path)
    bad = BadRecords(skip=True)
    assert len(read_panel(path, bad=bad).series[0]) == len(DAYS)
    assert bad.count == 1


@pytest.mark.parametrize(
    ("date_format", "first", "step"),
    [
        ("%Y%m%d", ["20230101", "20230102"], "day"),
        ("%d %b %Y", ["1 Jan 2023", "2 Jan 2023"], "day"),
        ("%b-%y", ["Jan-23", "Feb-23"], "month"),
        ("%Y", ["2023", "2024"], "year"),
        ("%d.%m.%Y %H:%M", ["01.01.2023 00:00", "01.01.2023 01:00"], "hour"),
    ],
)
def test_a_format_is_honoured_everywhere(
    tmp_path: Path, date_format: str, first: list[str], step: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("when,y\n" + "".join(f"{text},{row}\n" for row, text in enumerate(first)))
    dataset = open_dataset(str(path), date_format=date_format)
    assert dataset.kind == "series"
    panel = read_series_panel(dataset)
    assert str(panel.frequency) == step
    assert panel.series[0].ds[0] == np.datetime64("2023-01-01")
    assert next(iter(dataset.records())).ds == "2023-01-01"
    assert read_panel(path, date_format=date_format).series[0].y.tolist() == [0, 1]
    coming = read_future(path, Roles(known=("y",)), date_format)
    assert coming.series[0].ds[0] == np.datetime64("2023-01-01")
    bare = tmp_path / "bare.csv"
    bare.write_text("".join(f"{text},{row}\n" for row, text in enumerate(first)))
    assert len(read_panel(bare, date_format=date_format).series[0]) == 2


def test_a_date_in_another_format_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("ds,y\n01.02.2023,1\n2023-02-02,2\n")
    with refuses("a.csv:3", "'2023-02-02'", "'%d.%m.%Y'"):
        read_panel(path, date_format="%d.%m.%Y")
    path.write_text("when,y\n2023-02-02,2\n")
    with refuses("a.csv", "'%d.%m.%Y'", "date_format"):
        read_panel(path, date_format="%d.%m.%Y")


@pytest.mark.parametrize("date_format", ["%d.%m", "%q", "", "%Y-%", "dd.mm.yyyy"])
def test_a_format_that_tells_no_date_is_refused(date_format: str) -> None:
    with refuses("date_format"):
        check_date_format(date_format)
    with refuses("date_format"):
        SeriesTable(date_format=date_format)


def test_a_format_is_for_series(tmp_path: Path) -> None:
    for name in ("embedded/sine", "embedded/english"):
        with refuses("date_format"):
            open_dataset(name, date_format="%Y")


def test_zones_become_universal_time() -> None:
    moment = DateForm(format="%d.%m.%Y %H:%M %z").read("01.01.2023 01:30 +0200")
    assert str(moment) == "2022-12-31 23:30:00"
