"""`stats` of numeric series: stationarity made visible."""

from __future__ import annotations


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
