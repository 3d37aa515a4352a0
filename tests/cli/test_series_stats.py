"""`stats` of numeric series: stationarity made visible."""

from __future__ import annotations

import numpy as np
import pytest
from tests.refusals import lacks

from throughtime.data.readers.panel import read_panel


def test_a_ramp_drifts_and_the_picture_is_drawn(throughtime, tmp_path):  # R9
    ran = throughtime("stats", "embedded/ramp", "--plot", tmp_path / "drift.png", "--json")
    [row] = ran.json["series"]
    assert row["drifts"]
    assert len(row["segments"]) == 10
    assert row["steps"] == 1000
    assert (tmp_path / "drift.png").read_bytes().startswith(b"\x89PNG")


def test_noise_stays(throughtime, tmp_path):  # R9, R22
    table = tmp_path / "noise.csv"
    values = [(7 * n * n + 3 * n) % 101 / 101 for n in range(400)]
    table.write_text("ds,y\n" + "".join(f"{n},{value}\n" for n, value in enumerate(values)))
    ran = throughtime("stats", table)
    assert ran.code == 0, ran.err
    assert "stays" in ran.out


def test_a_short_series_has_no_drift_and_hides_none_of_the_others(throughtime, tmp_path):
    table = tmp_path / "two.csv"
    rows = [("b", n) for n in range(5)] + [("a", n) for n in range(100)]
    table.write_text("unique_id,ds,y\n" + "".join(f"{name},{n},{n % 7}\n" for name, n in rows))
    picture = tmp_path / "two.png"
    ran = throughtime("stats", table, "--plot", picture)
    assert ran.code == 0, ran.err
    assert not lacks(ran.err, f"{picture}:", "a", "y", "2")
    assert ["too short" in line for line in ran.out.splitlines() if line.startswith(("a ", "b "))] == [
        True,
        False,
    ]
    short, long = throughtime("stats", table, "--json").json["series"]
    assert (short["series"], short["mean"], short["drifts"], short["segments"]) == ("b", 2.0, None, [])
    assert long["drifts"] is False


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--tokens", "word"),
        ("--normaliser", "lower"),
        ("--side", "source"),
        ("--ngrams", 2),
        ("--top", 0),
        ("--min-freq", 3),
    ],
)
def test_what_is_for_texts_is_refused(throughtime, option, value):
    ran = throughtime("stats", "embedded/ramp", option, value)
    assert (ran.code, ran.out) == (2, "")
    assert not lacks(ran.err, f"{option}:", "embedded/ramp")


def days(count, left=(), empty=()):
    """Rows of a rising series with a week in it, some days left out, some without a value."""
    rows = []
    for n in range(count):
        if n not in left:
            day = np.datetime64("2022-01-01") + n
            rows.append(f"{day},{'' if n in empty else n + 5 * (n % 7)}")
    return rows


def test_gaps_and_missing_values_are_told_as_a_forecaster_tells_them(throughtime, tmp_path):  # R9
    table = tmp_path / "sales.csv"
    table.write_text("\n".join(["ds,y", *days(200, left={40, 41, 90}, empty={100})]) + "\n")
    ran = throughtime("stats", table)
    assert (ran.code, ran.err.splitlines()) == (0, list(read_panel(table).notes))
    assert not lacks(ran.err.splitlines()[0], "sales", "2", "2022-02-09", "3", "day")
    assert not lacks(ran.err.splitlines()[1], "sales", "1", "2022-04-11")
    told = throughtime("stats", table, "--json").json
    assert told["notes"] == ran.err.splitlines()
    assert (told["series"][0]["steps"], told["series"][0]["missing"]) == (200, 4)
    assert [each["stop"] for each in told["series"][0]["segments"]] == list(range(20, 201, 20))


def test_skipped_rows_are_told(throughtime, tmp_path):
    table = tmp_path / "sales.csv"
    rows = days(60)
    rows[7] = rows[7].split(",")[0] + ",twelve"
    table.write_text("\n".join(["ds,y", *rows, rows[3]]) + "\n")
    assert not lacks(throughtime("stats", table).err, "sales.csv:9:", "'y'", "'twelve'")
    ran = throughtime("stats", table, "--skip-bad")
    assert ran.code == 0
    assert not lacks(ran.err, "2", "9", "'y'", "'twelve'", "62", "5", "2022-01-04")
    told = throughtime("stats", table, "--skip-bad", "--json").json
    assert told["skipped"] == 2
    assert told["skipped_reasons"] == {"has no number in column 'y'": 1, "repeats the time of line 5": 1}
    assert (told["series"][0]["steps"], told["series"][0]["missing"]) == (60, 1)


def test_a_split_is_cut_along_time_unless_it_has_a_file(throughtime, tmp_path):
    for name, first in (("train", 0), ("test", 80)):
        (tmp_path / f"{name}.csv").write_text("\n".join(["ds,y", *days(100)[first:]]) + "\n")

    def steps(data, split):
        return [row["steps"] for row in throughtime("stats", data, "--split", split, "--json").json["series"]]

    assert (steps(tmp_path, "test"), steps(tmp_path, "all")) == ([20], [100, 20])
    assert (steps(tmp_path / "train.csv", "test"), steps("embedded/ramp", "train")) == ([5], [900])
