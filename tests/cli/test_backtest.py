"""`throughtime backtest` as a person runs it."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import lacks

from throughtime.cli.main import main

ROWS = 400


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A linear model of points for two noisy seasons of seven days."""
    folder = tmp_path_factory.mktemp("backtest")
    generator = np.random.default_rng(0)
    days = np.datetime64("2020-01-01") + np.arange(ROWS)
    with (folder / "shops.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["date", "north", "south"])
        north, south = (size * (np.sin(np.arange(ROWS) * 2 * np.pi / 7) + 3) for size in (1, 10))
        noise = generator.normal(size=(2, ROWS)) * [[0.2], [2]]
        writer.writerows(zip(days, north + noise[0], south + noise[1], strict=True))
    words = ["--set", "model=linear", "--set", "head=point", "--set", "epochs=6", "--set", "lookback=14"]
    words += ["--set", "valid_size=100", "--set", "test_size=100", "--set", "lr=0.02"]
    out = folder / "run"
    assert main(["train", "forecast", "--data", str(folder / "shops.csv"), "--out", str(out), *words]) == 0
    return out


def test_figures_stand_beside_rules_of_thumb(run: Path, throughtime: Callable[..., Any]) -> None:
    ran = throughtime("backtest", run, "--n-windows", 20, "--step-size", 3, "--json")
    assert ran.code == 0, ran.err
    values = ran.json
    figures = values["figures"]
    assert list(figures) == ["linear", "naive", "seasonal-naive", "drift", "ridge"]
    assert (values["h"], values["season"], values["intervals"]) == (7, 7, "absolute")
    # 200 rows were not trained on: 20 windows, and those before them that fit.
    assert values["windows_trained_on"] == 0
    assert values["earlier_windows"] == (200 - 7 - 19 * 3) // 3 - 2
    own = figures["linear"]
    assert own["total"]["mase"] < figures["naive"]["total"]["mase"]
    assert abs(own["total"]["coverage-80"] - 80) < 10
    assert len(own["by_step"]["rmse"]) == 7
    assert set(own["by_series"]) == {"north", "south"}
    assert own["by_series"]["south"]["mae"] > 5 * own["by_series"]["north"]["mae"]


def test_a_model_that_loses_to_a_baseline_says_so(run: Path, throughtime: Callable[..., Any]) -> None:
    """Six epochs of a linear model are fewer than the closed form of the same map is worth."""
    words = ("backtest", run, "--n-windows", 20, "--step-size", 3)
    values = throughtime(*words, "--json").json
    own, ridge = (values["figures"][name]["total"] for name in ("linear", "ridge"))
    assert ridge["rmse"] < own["rmse"]
    assert "rmse" in values["beaten_by"]["ridge"]
    assert values["left_out"] == {}
    shown = throughtime(*words).out
    assert "linear loses to ridge" in shown
    assert f"RMSE {own['rmse']:,.4g} against {ridge['rmse']:,.4g}" in shown
    judged = throughtime("evaluate", run, "--split", "test", "--json").json
    assert judged["baselines"]["ridge"]["mse"] < judged["mse"]
    assert "mse" in judged["beaten_by"]["ridge"]
    assert "linear loses to ridge" in throughtime("evaluate", run, "--split", "test").out


def test_infinite_intervals_are_told(run: Path, tmp_path: Path, throughtime: Callable[..., Any]) -> None:
    lines = (run.parent / "shops.csv").read_text().splitlines()
    table = tmp_path / "shops.csv"
    gone = [
        line.rsplit(",", 1)[0] + "," if place % 3 == 0 else line for place, line in enumerate(lines) if place
    ]
    table.write_text("\n".join([lines[0], *gone]) + "\n")
    ran = throughtime("backtest", run, "--data", table, "--n-windows", 2, "--earlier-windows", 19)
    assert ran.code == 0, ran.err
    assert "intervals of 95 % are infinite and left out of coverage and width" in ran.out.replace("\n", " ")
    assert " inf " not in ran.out
    enough = throughtime("backtest", run, "--data", table, "--n-windows", 2, "--save-intervals")
    assert "are infinite" not in enough.out
    assert enough.code == 0, enough.err


def test_kept_intervals_serve_forecasts(run: Path, throughtime: Callable[..., Any]) -> None:
    (run / "intervals.safetensors").unlink(missing_ok=True)
    refused = throughtime("forecast", run, "--level", 90, "--trust-changed")
    assert refused.code == 2
    assert "--save-intervals" in refused.err
    options = ("--level", 90, "--intervals", "scaled", "--save-intervals", "--trust-changed")
    ran = throughtime("backtest", run, "--n-windows", 2, *options)
    assert ran.code == 0, ran.err
    assert not lacks(ran.err, "scaled", "100")
    told = throughtime("forecast", run, "--level", 90, "--json")
    assert told.code == 0, told.err
    rows = told.json["rows"]
    widths = {row["unique_id"]: row["linear-hi-90"] - row["linear-lo-90"] for row in rows}
    assert widths["south"] > 4 * widths["north"] > 0


def test_windows_in_the_training_part_are_told(run: Path, throughtime: Callable[..., Any]) -> None:
    ran = throughtime("backtest", run, "--n-windows", 40)
    assert ran.code == 0, ran.err
    assert not lacks(ran.err, "12", "40", "test_size")


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (("--n-windows", 60), ("400", "60", "7", "14")),
        (("--h", 8), ("--h:", "8")),
        (("--level", 101), ("--level:", "101")),
        (("--level", 0.8), ("--level:", "0.8", "1", "80")),
        (("--intervals", "own"), ("--intervals:", "own")),
        (("--plot", "picture.gif"), ("picture.gif:",)),
    ],
)
def test_bad_wishes_end_in_one_sentence(
    run: Path, throughtime: Callable[..., Any], words: tuple[object, ...], facts: tuple[str, ...]
) -> None:
    ran = throughtime("backtest", run, *words)
    assert ran.code == 2
    assert not lacks(ran.err, *facts)
    assert ran.err.count("\n") == 1
