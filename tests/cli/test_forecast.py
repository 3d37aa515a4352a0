"""`train forecast`, `forecast` and `evaluate` as a person types them."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest
from tests.refusals import lacks

import throughtime as tt
from throughtime.cli.main import main

SMALL = ["hidden_size=12", "epochs=3", "lr=0.02", "lookback=14", "device=cpu"]


@pytest.fixture(scope="module")
def sales(tmp_path_factory):
    """A hundred and fifty days of two shops, one day missing, one value missing, two rows out of order."""
    path = tmp_path_factory.mktemp("sales") / "sales.csv"
    days = np.arange("2020-01-01", 150, dtype="datetime64[D]")
    rows = [
        f"{shop},{day},{100 * number + 10 * np.sin(2 * np.pi * place / 7):.4f}"
        for number, shop in enumerate(("north", "south"), start=1)
        for place, day in enumerate(days)
    ]
    del rows[20]
    rows[40] = rows[40].rsplit(",", 1)[0] + ","
    rows[60], rows[61] = rows[61], rows[60]
    path.write_text("unique_id,ds,y\n" + "\n".join(rows) + "\n")
    return path


def words(sales, out, *settings):
    chosen = [word for setting in (*SMALL, *settings) for word in ("--set", setting)]
    return ["train", "forecast", "--data", str(sales), "--out", str(out), *chosen]


@pytest.fixture(scope="module")
def run(sales, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "sales"
    assert main(words(sales, out)) == 0
    return out


def test_training_tells_what_it_found(sales, tmp_path, throughtime):
    out = tmp_path / "run"
    ran = throughtime(*words(sales, out), "--json")
    assert ran.code == 0, ran.err
    assert list(ran.json["best"]) == ["pinball", "mse", "mae"]
    assert len(re.findall(r"^epoch \d/3  pinball: train [\d.e-]+, valid [\d.e-]+  ", ran.err, re.M)) == 3
    assert not lacks(ran.err, "north", "1", "2020-01-20")
    assert "rows out of order in time were sorted, 1 of them" in ran.err
    assert 1 <= ran.err.count(", forecast ") <= 3  # where it has changed
    again = throughtime(*words(sales, out), "--resume")
    assert "nothing to do" in again.out
    assert throughtime(*words(sales, out)).code == 2
    assert "Forecasts of" in (out / "README.md").read_text()


def test_a_table_with_intervals_and_a_picture(run, tmp_path, throughtime):
    out, plot = tmp_path / "out.csv", tmp_path / "out.png"
    ran = throughtime("forecast", run, "--h", 5, "--level", 80, "--level", 95, "--out", out, "--plot", plot)
    assert ran.code == 0, ran.err
    with out.open() as file:
        rows = list(csv.DictReader(file))
    names = [f"recurrent-{side}-{level}" for level in (80, 95) for side in ("lo", "hi")]
    assert list(rows[0]) == ["unique_id", "ds", "recurrent", *names]
    assert len(rows) == 10
    assert (rows[0]["unique_id"], rows[0]["ds"], rows[5]["unique_id"]) == ("north", "2020-05-30", "south")
    for row in rows:
        order = [float(row[f"recurrent{end}"]) for end in ("-lo-95", "-lo-80", "", "-hi-80", "-hi-95")]
        assert order == sorted(order)
    assert plot.stat().st_size > 5_000
    assert "2020-05-30" in ran.out
    told = throughtime("forecast", run, "--paths", 2, "--json").json
    assert (told["h"], len(told["rows"]), told["levels"]) == (7, 14, [])
    assert {"recurrent-path-1", "recurrent-path-2"} < told["rows"][0].keys()


def test_evaluation_stands_beside_naive_forecasts(run, throughtime):
    ran = throughtime("evaluate", run, "--split", "test", "--json")
    assert ran.code == 0, ran.err
    assert {"mse", "mae", "mse_original", "mae_original", "windows"} <= ran.json.keys()
    assert set(ran.json["baselines"]) == {"naive", "seasonal-naive", "ridge"}
    shown = throughtime("evaluate", run, "--split", "valid").out
    assert "seasonal-naive" in shown


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        (["--h", 8], ("--h:", "8", "7")),
        (["--level", 100], ("--level:", "100")),
        (["--level", 0.95], ("--level:", "0.95", "1", "95")),
        (["--level", 99], ("probabilities:", "0.005")),
        (["--future", "x.csv"], ("future:",)),
        (["--plot", "out.jpeg2"], ("out.jpeg2:",)),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(run, throughtime, tmp_path, given, facts):
    ran = throughtime("forecast", run, *given, "--out", tmp_path / "out.csv")
    assert ran.code == 2
    assert not lacks(ran.err, *facts)
    assert not (tmp_path / "out.csv").exists()


def test_k_steps_ahead_with_a_picture(sales, tmp_path, throughtime):  # R4
    out, plot = tmp_path / "run", tmp_path / "steps.png"
    linear = ("model=linear", "hidden_size=64", "head=point", "strategy=recursive", "horizon=1")
    assert throughtime(*words(sales, out, *linear)).code == 0
    ran = throughtime("forecast", out, "--k-steps", "1,4,16", "--plot", plot, "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["k_steps"], ran.json["tested"], ran.json["rows"]) == ([1, 4, 16], "heldout", 60)
    assert list(ran.json["rmse"]) == ["1", "4", "16"]
    assert list(ran.json["by_series"]) == ["north", "south"]
    assert plot.stat().st_size > 5_000
    shown = throughtime("forecast", out, "--k-steps", "1,4,16")
    assert f"{ran.json['rmse']['16']:.4g}" in shown.out
    assert "over 60 rows" in shown.out
    other = tmp_path / "other.csv"
    other.write_text(sales.read_text())
    whole = throughtime("forecast", out, "--k-steps", "1", "--data", other, "--json").json
    assert (whole["tested"], whole["rows"]) == ("all", 2 * (150 - 14) - 2)  # a row and a value are missing
    for given, *facts in (
        (["--k-steps", "1,x"], "--k-steps:", "'1,x'"),
        (["--k-steps", "0"], "--k-steps:", "(0,)"),
        (["--k-steps", "1", "--level", 80], "--level:"),
        (["--k-steps", "1", "--out", tmp_path / "o.csv"], "--out:"),
    ):
        ran = throughtime("forecast", out, *given)
        assert ran.code == 2
        assert not lacks(ran.err, *facts)


def test_a_date_format_is_remembered(sales, tmp_path, throughtime):
    """Twelve days of hours, which could be twelve months with gaps: nobody can tell."""
    table, future = tmp_path / "hours.csv", tmp_path / "coming.csv"
    hours = np.arange("2023-01-01T00", "2023-01-07T04", dtype="datetime64[h]")
    written = [hour.item().strftime("%d/%m/%Y %H:%M") for hour in hours]
    rows = [f"{time},{place % 24},{place % 2}\n" for place, time in enumerate(written) if place != 30]
    table.write_text("ds,y,odd\n" + "".join(rows[:140]))
    future.write_text("ds,odd\n" + "".join(f"{time},{place % 2}\n" for place, time in enumerate(written)))
    asked = words(table, tmp_path / "run", "known=[odd]", "model=linear", "hidden_size=64", "horizon=2")
    refused = throughtime(*asked)
    assert refused.code == 2
    assert not lacks(refused.err, "hours.csv:2:", "'01/01/2023 00:00'")
    assert "date_format" in refused.err
    ran = throughtime(*asked, "--date-format", "%d/%m/%Y %H:%M")
    assert ran.code == 0, ran.err
    run = tmp_path / "run"
    assert tt.load(run).config.date_format == "%d/%m/%Y %H:%M"
    rows = throughtime("forecast", run, "--future", future, "--json").json["rows"]
    assert [row["ds"] for row in rows] == ["2023-01-06 21:00:00", "2023-01-06 22:00:00"]
    assert [one.ds[0] for one in tt.load(run).forecast(future=future)] == [np.datetime64("2023-01-06T21")]
    assert throughtime("backtest", run, "--n-windows", 2).code == 0
    assert throughtime("evaluate", run).code == 0
    iso = tmp_path / "iso.csv"
    iso.write_text("ds,y,odd\n" + "".join(f"{hour},{place},0\n" for place, hour in enumerate(hours)))
    other = throughtime("evaluate", run, "--data", iso)
    assert other.code == 2
    assert "iso.csv:2" in other.err
    for command in (["evaluate", run, "--split", "all"], ["backtest", run, "--n-windows", 2]):
        ran = throughtime(*command, "--data", iso, "--date-format", "%Y-%m-%dT%H")
        assert ran.code == 0, ran.err
    shown = throughtime("stats", table, "--date-format", "%d/%m/%Y %H:%M", "--json")
    assert shown.json["series"][0]["steps"] == 141
    bad = throughtime("stats", table, "--date-format", "%d/%m")
    assert bad.code == 2
    assert not lacks(bad.err, "--date-format:", "'%d/%m'")


def test_a_table_inside_a_file_is_refused(run, sales, throughtime):
    ran = throughtime("forecast", run, "--out", sales / "x.csv")
    assert ran.code == 2
    assert not lacks(ran.err, f"{sales}:")
