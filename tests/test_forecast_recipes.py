"""The recipes of forecasting that are modules of their own, on data of a second."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from recipes import backtests, sine
from recipes.recipe import read_recipes

POINTS = {"model": "linear", "head": "point", "lookback": 7, "lr": 0.02, "epochs": 3, "device": "cpu"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    days = np.datetime64("2021-01-01") + np.arange(260)
    values = 5 + np.sin(np.arange(260) * 2 * np.pi / 7) + np.random.default_rng(0).normal(0, 0.2, 260)
    path = tmp_path / "week.csv"
    path.write_text("ds,y\n" + "".join(f"{day},{y}\n" for day, y in zip(days, values, strict=True)))
    return path


def test_back_tests_stand_beside_rules_of_thumb(table: Path) -> None:
    train = {"data": str(table), **POINTS, "valid_size": 40, "test_size": 140}
    test = {"train": train, "backtest": ["--n-windows", "8", "--h", "3"]}
    found = backtests.measured({"data": str(table), "tests": [test]})
    rows = {row[1]: row for row in found["table"]["rows"]}
    assert list(rows) == ["linear", "naive", "seasonal-naive", "drift", "ridge"]
    assert {len(row) for row in rows.values()} == {len(found["table"]["columns"])}
    place = found["table"]["columns"].index("RMSE")
    assert found["value"] == rows["linear"][place] < rows["naive"][place]
    coverage = backtests.measured({"data": str(table), "tests": [test], "value": "coverage"})
    own = coverage["table"]["rows"][0]
    assert coverage["value"] == max(abs(own[-4] - 80), abs(own[-2] - 95))


def test_a_sine_is_learned_down_to_its_noise() -> None:
    settings = read_recipes()["sine"].config
    linear = settings["models"]["linear autoregression"]
    found = sine.measured({"models": {"linear": {**linear, "device": "cpu"}}, "series_seeds": [0, 1]})
    [row] = found["table"]["rows"]
    assert found["value"] == row[1]
    assert sine.NOISE < row[1] < 0.08
    assert row[4:] == sorted(row[4:])
