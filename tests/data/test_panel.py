"""Tables of series as panels: frequencies, gaps, orders and roles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.data.datasets import open_dataset
from throughtime.data.panel import (
    Frequency,
    Series,
    calendar,
    infer_frequency,
    make_regular,
)
from throughtime.data.readers.panel import Roles, read_future, read_panel, read_series_panel
from throughtime.data.source import BadRecords
from throughtime.results import Forecast, format_times


def table(folder: Path, text: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def dates(*texts: str) -> np.ndarray:
    return np.array(texts, dtype="datetime64[ns]")


@pytest.mark.parametrize(
    ("times", "words", "season"),
    [
        (("2020-01-01", "2020-01-02", "2020-01-03"), "day", 7),
        (("2020-01-01T00", "2020-01-01T01", "2020-01-01T02"), "hour", 24),
        (("2020-01-01T00:00", "2020-01-01T00:15", "2020-01-01T00:30"), "15 minutes", 96),
        (("2020-01", "2020-02", "2020-03"), "month", 12),
        (("2020-01-31", "2020-02-29", "2020-03-31"), "month", 12),
        (("2020-01-01", "2020-04-01", "2020-07-01"), "quarter", 4),
        (("2019-01-01", "2020-01-01", "2021-01-01"), "year", None),
        (("2020-01-06", "2020-01-13", "2020-01-20"), "week", 52),
    ],
)
def test_the_step_is_found_and_goes_on(times, words, season):  # R22
    frequency = infer_frequency([dates(*times)])
    assert frequency is not None
    assert (str(frequency), frequency.season) == (words, season)
    assert frequency.after(dates(times[0])[0], 2).tolist() == dates(*times[1:]).tolist()


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(
        [
            Frequency(1, "month"),
            Frequency(1, "month", True),
            Frequency(3600, "second"),
            Frequency(7, "position"),
        ]
    ),
    st.sets(st.integers(0, 60), min_size=1, max_size=20),
)
def test_gaps_are_filled_where_they_are(step, kept):
    """Whatever rows are missing, those that are there keep their times and values."""
    rows = np.array(sorted({0, 1, 2, 3, *(each + 4 for each in kept)}))
    day = "2019-12-31" if step.month_end else "2019-12-01"
    first = 5 if step.unit == "position" else np.datetime64(day, "ns")
    whole = step.grid(first, 65)
    panel = make_regular(
        [Series.of("b", rows, whole[: rows[-1] + 1][rows]), Series.of("a", np.arange(65), whole)]
    )
    assert (panel.frequency or Frequency(1, "position")).places(panel.series[0].ds).tolist() == list(
        range(len(panel.series[0]))
    )
    there = ~np.isnan(panel.series[0].y)
    assert panel.series[0].y[there].tolist() == rows.tolist()
    assert np.flatnonzero(there).tolist() == rows.tolist()
    assert bool(panel.notes) == (len(rows) <= rows[-1])


def test_long_tables_with_helping_columns(tmp_path):  # R22
    text = (
        "unique_id,ds,y,heat,load\n"
        "a,2020-01-02,2,20,5\nb,2020-01-01,7,70,\na,2020-01-01,1,10,4\nb,2020-01-03,9,90,6\n"
    )
    panel = read_panel(table(tmp_path, text), Roles(known=("heat",), past=("load",)))
    first, second = panel.series
    assert (first.unique_id, first.y.tolist(), first.known.ravel().tolist()) == ("a", [1, 2], [10, 20])
    assert second.y[[0, 2]].tolist() == [7, 9]
    assert np.isnan(second.y[1])
    assert np.isnan(second.past[0, 0])
    assert (panel.known_names, panel.past_names) == (("heat",), ("load",))
    assert any("sorted" in note for note in panel.notes)
    assert any(note.startswith("b has 1 gap") for note in panel.notes)


def test_every_column_of_a_wide_table_is_a_series(tmp_path):  # R22
    text = "date,north,south,wind\n2020-01-01,1,NA,3\n2020-01-02,2,5,4\n"
    panel = read_panel(table(tmp_path, text), Roles(known=("wind",)))
    assert [one.unique_id for one in panel.series] == ["north", "south"]
    assert panel.series[0].known.ravel().tolist() == panel.series[1].known.ravel().tolist() == [3, 4]
    assert panel.notes == ("south lacks 1 value, the first at 2020-01-01.",)
    [only] = read_panel(table(tmp_path, text), Roles(target=("south",))).series
    assert (only.unique_id, only.y[1]) == ("table", 5)


def test_repeated_times_may_be_skipped(tmp_path):
    bad = BadRecords(skip=True)
    path = table(tmp_path, "ds,y\n2020-01-02,2\n2020-01-01,1\n2020-01-02,3\n2020-01-02,4\n")
    assert read_panel(path, bad=bad).series[0].y.tolist() == [1, 2]
    assert [(error.line, error.problem[:29]) for error in bad.examples] == [
        (4, "repeats the time of line 2, 2"),
        (5, "repeats the time of line 2, 2"),
    ]


def test_one_date_alone_tells_no_step(tmp_path):
    panel = read_panel(table(tmp_path, "ds,y\n2010-01-01,5\n"))
    assert panel.frequency is None
    assert panel.series[0].y.tolist() == [5]
    with refuses("series 'table'"):
        panel.after(panel.series[0], 3)


@pytest.mark.parametrize(
    ("text", "roles", "facts"),
    [
        (
            "ds,y\n2020-01-01,1\n2020-01-02,2\n2020-01-01,3\n",
            Roles(),
            ("table.csv:4", "2", "2020-01-01"),
        ),
        ("ds,y\n2020-01-01,1\n2020-01-02,2\n", Roles(known=("heet",)), ("table.csv:1", "'heet'")),
        ("ds,y,heat\n2020-01-01,1,2\n", Roles(known=("heet",)), ("table.csv:1", "'heet'", "'heat'")),
        ("ds,y,heat\n2020-01-01,1,2\n", Roles(known=("heat",), past=("heat",)), ("known and past", "'heat'")),
        ("ds,y\n2020-01-01,inf\n", Roles(), ("table.csv:2", "'y'")),
        (
            "ds,y\n2020-01-01 00:00,1\n2020-01-01 01:00,1\n2020-01-01 02:00,1\n2020-01-01 02:07,2\n",
            Roles(),
            ("series 'table'", "2020-01-01", "02", "07"),
        ),
        ("ds,y\n2020-01-01,1\n2020-01-02,2\n2920-01-03,2\n", Roles(), ("table.csv:4", "1678", "2261")),
        ("ds,y\n2020-01-01,1\n2020-01-02,2\n2220-01-03,2\n", Roles(), ("series 'table'", "3", "73,051")),
        ("1,2\n3,4\n", Roles(known=("a",)), ("table.csv:1",)),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, text, roles, facts):  # R22
    with refuses(*facts):
        read_panel(table(tmp_path, text), roles)


def test_the_future_needs_no_values(tmp_path):
    future = read_future(table(tmp_path, "ds,heat\n2020-01-03,5\n2020-01-04,6\n"), Roles(known=("heat",)))
    assert future.series[0].known.ravel().tolist() == [5, 6]
    assert np.isnan(future.series[0].y).all()


def test_the_calendar_turns_and_leaves_out_what_is_no_use():
    names, months = calendar(dates("2020-01", "2020-07"), Frequency(1, "month"))
    assert names == ("month_sin", "month_cos")
    assert months.round(6).tolist() == [[0, 1], [0, -1]]
    with refuses("calendar"):
        calendar(np.arange(3), None)


def test_times_are_spelled_as_files_have_them():
    assert format_times(dates("2020-01-01", "2020-02-01")) == ["2020-01-01", "2020-02-01"]
    assert format_times(np.array([3, 4])) == ["3", "4"]


def test_a_forecast_is_ready_for_json() -> None:
    found = Forecast("a", np.array([1.0, np.nan]), {0.1: np.array([-np.inf, 2])}, ds=dates("2020-01-01"))
    assert found.to_dict() == {
        "unique_id": "a",
        "mean": [1.0, None],
        "quantiles": {0.1: [None, 2.0]},
        "samples": None,
        "ds": ["2020-01-01"],
    }
    assert Forecast("a", np.array([1.0]), {}).to_dict()["ds"] is None


def test_data_sets_that_are_no_series_are_refused():
    assert read_series_panel(open_dataset("embedded/sine")).series[0].y.shape == (1000,)
    with refuses("data", "embedded/en-fr"):
        read_series_panel(open_dataset("embedded/en-fr"))


def test_real_series(corpora):  # R22
    panel = read_panel(corpora / "series" / "daily-min-temperatures.csv")
    assert (len(panel.series[0]), str(panel.frequency)) == (3652, "day")
    assert "2 gaps" in panel.notes[0]
