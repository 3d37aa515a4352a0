"""`stats` of numeric series: stationarity made visible."""

from __future__ import annotations

import pytest


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
    assert ran.err == f"wrote {picture}: a, column y, the first of 2 series that is long enough\n"
    assert ["too short" in line for line in ran.out.splitlines() if line.startswith(("a ", "b "))] == [
        True,
        False,
    ]
    short, long = throughtime("stats", table, "--json").json["series"]
    assert (short["series"], short["mean"], short["drifts"], short["segments"]) == ("b", 2.0, None, [])
    assert long["drifts"] is False


def test_there_is_no_picture_of_short_series(throughtime, tmp_path):
    table = tmp_path / "bom.csv"
    table.write_text("ds,y\n1,2\n2,3\n")
    assert throughtime("stats", table).code == 0
    ran = throughtime("stats", table, "--plot", tmp_path / "x.png")
    assert (ran.code, ran.out) == (2, "")
    assert "bom.csv: has no series of 30 steps or more, so --plot has no drift to draw" in ran.err
    assert not (tmp_path / "x.png").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--tokens", "word"),
        ("--normalise", "lower"),
        ("--side", "source"),
        ("--ngrams", 2),
        ("--top", 0),
        ("--min-freq", 3),
    ],
)
def test_what_is_for_texts_is_refused(throughtime, option, value):
    ran = throughtime("stats", "embedded/ramp", option, value)
    assert (ran.code, ran.out) == (2, "")
    assert f"{option}: is for texts, and embedded/ramp holds numeric series; leave it out" in ran.err
