"""Any numeric sequence as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.data.convert import write_records
from throughtime.data.datasets import open_dataset
from throughtime.data.readers import build_reader
from throughtime.data.readers.layout import Row
from throughtime.data.readers.panel import read_panel
from throughtime.data.readers.series import SeriesTable
from throughtime.data.records import Observation
from throughtime.data.source import BadRecords


def table(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


class Series(NamedTuple):
    """The rows of one series as arrays."""

    unique_id: str
    ds: np.ndarray[Any, Any]
    columns: tuple[str, ...]
    values: np.ndarray[Any, Any]


def read_series(path: Path, reader: SeriesTable | None = None, bad: BadRecords | None = None) -> list[Series]:
    """Every series of a file: one of each name of a long table, one with all columns of a wide one."""
    rows: dict[str, list[Row]] = {}
    for layout, row in (reader or SeriesTable()).rows(path, bad or BadRecords()):
        columns, dated = layout.columns, layout.dated
        rows.setdefault(row.unique_id, []).append(row)
    return [
        Series(
            name,
            np.array([row.ds if dated else row.moment for row in own], "datetime64" if dated else None),
            columns,
            np.array([row.values for row in own]),
        )
        for name, own in rows.items()
    ]


def one(path: Path) -> Series:
    [series] = read_series(path)
    return series


def test_wide_with_months(tmp_path: Path) -> None:  # R22
    rain = one(table(tmp_path / "rain.csv", '\ufeff"Month","Rain"\r\n"1949-01",112\r\n"1949-02",1.5e2'))
    assert (rain.unique_id, rain.columns) == ("rain", ("Rain",))
    assert rain.ds.dtype == "datetime64[M]"
    assert rain.ds.tolist() == np.array(["1949-01", "1949-02"], "datetime64[M]").tolist()
    assert rain.values.dtype == np.float64
    assert rain.values.tolist() == [[112.0], [150.0]]


def test_long_with_mixed_series(tmp_path: Path) -> None:  # R22
    rows = "unique_id,ds,y\na,2020-01-01,1\nb,2020-01-01,10\na,2020-01-02,2\n"
    first, second = read_series(table(tmp_path / "long.csv", rows))
    assert (first.unique_id, first.values.tolist()) == ("a", [[1.0], [2.0]])
    assert (second.unique_id, second.values.tolist(), len(second.ds)) == ("b", [[10.0]], 1)


def test_values_only(tmp_path: Path) -> None:  # R22
    for text in ("y\n5\n6\n7\n", "5\n6\n7\n"):
        series = one(table(tmp_path / "sensor.csv", text))
        assert (series.columns, series.ds.tolist(), series.values.ravel().tolist()) == (
            ("y",),
            [0, 1, 2],
            [5, 6, 7],
        )
    assert one(table(tmp_path / "two.csv", "1,2\n3,4\n")).columns == ("y0", "y1")


def test_chosen_columns_and_whole_times(tmp_path: Path) -> None:
    file = table(tmp_path / "years.csv", "year;place;rain;note\n1749;x;1;dry\n1750;x;2;wet\n")
    options = {"time": "year", "identifier": "place", "values": "rain", "delimiter": ";"}
    [series] = read_series(file, SeriesTable("year", "place", ("rain",), ";"))
    assert (series.unique_id, series.ds.tolist(), series.ds.dtype.kind) == ("x", [1749, 1750], "i")
    observations = list(build_reader("series", options).read([file], BadRecords()))
    assert observations == [Observation("x", "1749", 1.0), Observation("x", "1750", 2.0)]


def test_observations_are_named_after_columns_where_there_are_several(tmp_path: Path) -> None:
    def names(text: str) -> list[str]:
        records = build_reader("series").read([table(tmp_path / "rain.csv.txt", text)], BadRecords())
        return [record.unique_id for record in records]

    assert names("ds,y\n2020-01,1\n") == ["rain.csv"]
    assert names("ds,north,south\n2020-01,1,2\n") == ["north", "south"]
    assert names("unique_id,ds,y,z\nq,2020-01,1,2\n") == ["q/y", "q/z"]
    assert list(build_reader("series").read([table(tmp_path / "bare.csv", "5\n6\n")], BadRecords())) == [
        Observation("bare", "0", 5.0),
        Observation("bare", "1", 6.0),
    ]


FAULTS = {
    "2020-01-03,": ("'y'",),
    "2020-01-03,nan": ("'y'", "nan"),
    "2020-01-03,-inf": ("'y'", "-inf"),
    "2020-01-03,twelve": ("'y'", "'twelve'"),
    "2020-01-03,1_000": ("'y'", "'1_000'"),
    "2020-01-03,1,2": ("3", "2"),
    "2020-01-03": ("1", "2"),
    "2020-01-02,1": ("3", "2020-01-02"),
    "2019-12-31,1": ("2019-12-31", "2020-01-02"),
    "2020-02-30,1": ("'2020-02-30'", "YYYY-MM", "YYYY-MM-DD"),
    "03/01/2020,1": ("'03/01/2020'",),
    "NaT,1": ("'NaT'",),
}


@pytest.mark.parametrize(("row", "facts"), FAULTS.items())
def test_bad_rows(tmp_path: Path, row: str, facts: tuple[str, ...]) -> None:  # R22
    file = table(tmp_path / "a.csv", f"ds,y\n2020-01-01,1\n2020-01-02,2\n{row}\n2020-01-04,4\n")
    with refuses("a.csv:4", *facts):
        read_series(file)
    bad = BadRecords(skip=True)
    [series] = read_series(file, bad=bad)
    assert series.values.ravel().tolist() == [1.0, 2.0, 4.0]
    assert bad.count == 1


TABLES: list[tuple[str, dict[str, str], tuple[str, ...]]] = [
    ("date,y\n2020-01,1\n", {"time": "dat"}, ("a.csv:1", "'dat'", "'date'", "y")),
    ("date,y\n2020-01,1\n", {"values": "z"}, ("a.csv:1", "'z'", "date", "y")),
    ("date,y\n2020-01,1\n", {"identifier": "q"}, ("a.csv:1", "'q'", "date", "y")),
    ("date,y,y\n2020-01,1,2\n", {}, ("a.csv:1", "'y'")),
    ("ds\n2020-01\n", {}, ("a.csv:1",)),
    ("ds,y\n", {}, ("a.csv:1",)),
    (",y\n0,1\n", {}, ("a.csv:1", "values")),
    ("unique_id,y\n ,1\n", {}, ("a.csv:2",)),
    ("day,y\n2020-13-01,1\n", {}, ("a.csv:2", "'2020-13-01'", "YYYY-MM", "YYYY-MM-DD", "HH:MM:SS")),
    ("ds,due\n2020-01-01,3.4.2020\n", {}, ("a.csv:2", "'due'", "'3.4.2020'", "YYYY-MM-DD")),
    ("ds,y\n1,1\n2.5,2\n", {}, ("a.csv:3", "'2.5'")),
    ("\n\n", {}, ("a.csv",)),
]


@pytest.mark.parametrize(("text", "options", "facts"), TABLES)
def test_bad_tables(
    tmp_path: Path, text: str, options: dict[str, str], facts: tuple[str, ...]
) -> None:  # R22
    file = table(tmp_path / "a.csv", text)
    with refuses(*facts):
        list(build_reader("series", options).read([file], BadRecords()))


def test_nothing_good_is_left(tmp_path: Path) -> None:
    file = table(tmp_path / "a.csv", "ds,y\n2020-01-01,x\n")
    with refuses("a.csv"):
        read_panel(file, bad=BadRecords(skip=True))


def test_one_character_delimits() -> None:
    with refuses("series", "delimiter", "'::'"):
        SeriesTable(delimiter="::")


@settings(deadline=None)
@given(values=st.lists(st.tuples(*[st.floats(-1e18, 1e18)] * 2), min_size=1, max_size=20))
def test_numbers_survive_conversion_exactly(
    tmp_path_factory: pytest.TempPathFactory, values: list[tuple[float, float]]
) -> None:
    folder = tmp_path_factory.mktemp("series")
    days = np.datetime64("2000-02-27") + np.arange(len(values))
    rows = "".join(f"{day},{first!r},{second!r}\n" for day, (first, second) in zip(days, values, strict=True))
    wide = table(folder / "wide.csv", "date,a,b\n" + rows)
    write_records(SeriesTable().read([wide], BadRecords()), folder / "long.csv")
    first, second = read_series(folder / "long.csv")
    together = np.concatenate([first.values, second.values], axis=1)
    np.testing.assert_array_equal(together, one(wide).values)
    np.testing.assert_array_equal(together, np.array(values))
    np.testing.assert_array_equal(first.ds, days)


SHAPES = {
    "ETTh1": (17_420, 7),
    "airline-passengers": (144, 1),
    "monthly-sunspots": (2_820, 1),
    "daily-min-temperatures": (3_650, 1),
    "elec_vic": (3_600, 1),
}


@pytest.mark.parametrize("name", SHAPES)
def test_real_series(corpora: Path, name: str) -> None:  # R22
    series = one(corpora / "series" / f"{name}.csv")
    assert (series.unique_id, series.values.shape) == (name, SHAPES[name])
    assert series.ds.dtype.kind == "M"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("semicolons.csv", "ds;y;z\n2020-01-01;1,5;-2\n2020-01-02;2.5;3e2\n"),
        ("tabs.csv", "ds\ty\tz\n2020-01-01\t1.5\t-2\n2020-01-02\t2.5\t3e2\n"),
        ("tabs.tsv", "ds\ty\tz\n2020-01-01\t1.5\t-2\n2020-01-02\t2.5\t3e2\n"),
        ("quoted.csv", 'ds;"y";z\n"2020-01-01";"1,5";-2\n2020-01-02;2,5;300\n'),
        ("bare.csv", "2020-01-01;1,5;-2\n2020-01-02;2,5;300,0\n"),
    ],
)
def test_semicolons_and_tabs_part_cells_too(tmp_path: Path, name: str, text: str) -> None:  # R22
    path = table(tmp_path / name, text)
    assert open_dataset(str(path)).kind == "series"
    found = one(path)
    assert found.values.tolist() == [[1.5, -2.0], [2.5, 300.0]]
    assert str(found.ds[1]) == "2020-01-02"
    assert read_panel(path).series[0].y.tolist() == [1.5, 2.5]


def test_a_comma_is_a_decimal_point_among_semicolons_only(tmp_path: Path) -> None:
    path = table(tmp_path / "tabs.csv", "ds\ty\n2020-01-01\t1,5\n")
    with refuses("tabs.csv:2", "'y'", "'1,5'"):
        read_series(path)
    assert one(table(tmp_path / "plain.csv", "1,5\n2,6\n")).values.tolist() == [[1, 5], [2, 6]]
    wrong = table(tmp_path / "wrong.csv", "ds;y\n2020-01-01;1.000,5\n")
    with refuses("wrong.csv:2", "'y'", "'1.000,5'"):
        read_series(wrong)


FORMATS = {
    "german.csv": "%d.%m.%Y",
    "american.csv": "%m/%d/%Y",
    "short.csv": "%Y-%m-%d",
    "timed.tsv": "%d.%m.%Y %H:%M",
    "bare.csv": "%d/%m/%Y",
}
SALES_VALUES = {"timed.tsv": 5.0}
SALES = {
    "german.csv": "Datum;Umsatz\n03.01.2022;1185,48\n04.01.2022;1365,87\n",
    "american.csv": "date,sales\n01/03/2022,1185.48\n01/04/2022,1365.87\n",
    "short.csv": "date,sales\n2022-1-3,1185.48\n",
    "timed.tsv": "date\tsales\n03.01.2022 14:00\t5\n",
    "bare.csv": "03/01/2022;1185,48\n04/01/2022;1365,87\n",
}


@pytest.mark.parametrize("name", SALES)
def test_a_date_that_is_not_iso_makes_a_series(tmp_path: Path, name: str) -> None:  # R22
    dataset = open_dataset(str(table(tmp_path / name, SALES[name])))
    assert dataset.kind == "series"
    [series] = read_series(tmp_path / name, SeriesTable(date_format=FORMATS[name]))
    formatted = open_dataset(str(tmp_path / name), date_format=FORMATS[name]).records()
    assert next(formatted).ds == str(series.ds[0]).replace("T", " ")
    assert (series.values[0, 0], series.ds[0].astype("datetime64[D]")) == (
        SALES_VALUES.get(name, 1185.48),
        np.datetime64("2022-01-03"),
    )


NAMED = {
    "grouped.csv": ("Datum;Umsatz\n03.01.2022;1.185,48\n04.01.2022;1.365,87\n", "'1.185,48'"),
    "empty.csv": ("date,sales\n01/03/2022,\n", "'01/03/2022'"),
    "shops.tsv": ("shop\tdate\tsales\nnorth\t01/03/2022\t5\n", "'01/03/2022'"),
}


@pytest.mark.parametrize("name", NAMED)
def test_what_cannot_be_read_beside_such_a_date_is_named(tmp_path: Path, name: str) -> None:  # R22
    text, value = NAMED[name]
    dataset = open_dataset(str(table(tmp_path / name, text)))
    assert dataset.kind == "series"
    with refuses(f"{name}:2", value):
        list(dataset.records())


def test_a_table_with_tabs_needs_no_column_ds(tmp_path: Path) -> None:  # R22
    text = "date\tsales\n2023-01-01\t100\n2023-01-02\t105.5\n"
    for name in ("sales.tsv", "sales.csv"):
        assert one(table(tmp_path / name, text)).values.tolist() == [[100], [105.5]]
        assert open_dataset(str(tmp_path / name)).kind == "series"
        series = one(tmp_path / name)
        assert (series.columns, series.values.tolist()) == (("sales",), [[100], [105.5]])
    commas = table(tmp_path / "commas.tsv", "date\tsales, all\n2023-01-01\t1,5\n")
    assert open_dataset(str(commas)).kind == "series"
    with refuses("commas.tsv:2", "'sales, all'", "'1,5'"):
        read_panel(commas)


@pytest.mark.parametrize(
    ("cell", "facts"),
    [
        ("1.185,48", ()),
        ("-1.185.000", ()),
        ("1 185,48", ()),
        ("1\u202f185,48", ()),
        ("1'185.48", ()),
        ("3.4.2020", ("YYYY-MM-DD",)),
    ],
)
def test_what_is_wrong_with_a_number_is_told(tmp_path: Path, cell: str, facts: tuple[str, ...]) -> None:
    file = table(tmp_path / "a.csv", f"ds;y\n2022-01-03;{cell}\n")
    with refuses(f"{file}:2", "'y'", repr(cell), *facts):
        read_panel(file)


def test_columns_with_text_are_found_beside_the_target(tmp_path: Path) -> None:
    file = table(
        tmp_path / "a.csv",
        "ds,y,town,heat,wind\n2020-01,1,Rome,3,\n2020-02,x,Oslo,2,low\n2020-03,2,Oslo,,4\n",
    )
    # Only the bad second row has text in the column wind; a missing value is no text.
    assert SeriesTable(missing=True).columns_with_text(file, "y") == ("town",)
