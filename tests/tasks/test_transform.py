"""Series whose swings grow with them, brought on an even scale: trained, judged, bounded, asked."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.refusals import refuses

import throughtime as tt
from throughtime.data.datasets import open_dataset
from throughtime.data.panel import Panel, Series
from throughtime.data.readers.panel import read_panel
from throughtime.tasks.forecast.config import ForecastConfig
from throughtime.tasks.forecast.model import SeriesForecaster

SETTINGS = {
    "transform": "log",
    "model": "linear",
    "head": "point",
    "lookback": 12,
    "horizon": 6,
    "lr": 0.02,
    "epochs": 12,
    "train_size": 140,
    "valid_size": 20,
    "test_size": 80,
    "device": "cpu",
}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A level that grows ninefold, with swings and noise that grow along."""
    rows = np.arange(240)
    noise = np.random.default_rng(0).normal(0, 0.05, len(rows))
    values = np.exp(4 + 0.009 * rows + 0.3 * np.sin(2 * np.pi * rows / 12) + noise)
    path = tmp_path_factory.mktemp("growth") / "growth.csv"
    path.write_text("y\n" + "".join(f"{value!r}\n" for value in values.tolist()))
    return path


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "growth"
    dataset = open_dataset(str(table))
    model = SeriesForecaster.create(ForecastConfig(data=str(table), **SETTINGS), dataset)
    model.fit(dataset, out)
    return out


@pytest.fixture
def model(run):
    return tt.load(run, device="cpu")


def test_errors_in_own_units_are_those_of_the_forecasts(model, table):
    panel = read_panel(table)
    y = panel.series[0].y
    errors = []
    for origin in range(160, 240 - 6 + 1):
        [one] = model.predict(panel.drop_last(240 - origin), 6)
        errors.append(one.mean - y[origin : origin + 6])
    values = model.evaluate(open_dataset(str(table)), split="test").values
    assert values["mse_original"] == pytest.approx(np.square(errors).mean(), rel=1e-4)
    assert values["mae_original"] == pytest.approx(np.abs(errors).mean(), rel=1e-4)
    naive = [y[origin - 1] - y[origin : origin + 6] for origin in range(160, 235)]
    assert values["baselines"]["naive"]["mae_original"] == pytest.approx(np.abs(naive).mean(), rel=1e-4)
    found = model.k_steps(panel, (1, 6), "test")
    for step in (1, 6):
        cuts = range(80 + step - 1, step - 1, -1)
        ahead = [model.predict(panel.drop_last(cut), step)[0].mean[-1] for cut in cuts]
        assert found.rmse[step] == pytest.approx(np.sqrt(np.square(ahead - y[160:240]).mean()), rel=1e-4)
        np.testing.assert_allclose(found.series[0].predictions[step][160:240], ahead, rtol=1e-4)


def test_python_back_tests_in_the_words_of_the_command(model, run, throughtime):
    found = model.backtest(n_windows=10, step_size=2, level=[80], intervals="scaled")
    ran = throughtime(
        "backtest",
        run,
        "--n-windows",
        10,
        "--step-size",
        2,
        "--level",
        80,
        "--intervals",
        "scaled",
        "--json",
        "--device",
        "cpu",
    )
    assert ran.code == 0, ran.err
    assert json.loads(json.dumps(found.to_dict())) == {key: ran.json[key] for key in found.to_dict()}
    assert found.trained_on == 0
    assert found.earlier_windows == (100 - 6 - 9 * 2) // 2 - 2  # in the 100 rows that did not train


def test_kept_intervals_widen_with_the_level(model, run, throughtime, table):
    with refuses("level", "head=quantiles"):
        model.forecast(level=[80])
    made = model.save_intervals(level=[80])
    assert made.trained_on == 0
    [near] = model.forecast(level=[80], h=1)
    [series] = read_panel(table).series
    far = Panel((Series.of(series.unique_id, 10 * series.y),), None)
    [high] = model.forecast(far, level=[80], h=1)
    widths = [float(one.quantiles[0.9][0] / one.quantiles[0.1][0]) for one in (near, high)]
    assert widths[0] == pytest.approx(widths[1], rel=1e-6)  # by the same factor, not by the same amount
    ran = throughtime("forecast", run, "--level", 80, "--h", 1, "--json")
    assert ran.json["rows"][0]["linear-hi-80"] == pytest.approx(float(near.quantiles[0.9][0]))


def test_what_is_not_positive_is_refused_by_name(model, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("y\n" + "1\n0\n" * 120)
    with refuses("series 'bad'", "0", "transform=log"):
        SeriesForecaster.create(ForecastConfig(data=str(bad), **SETTINGS), open_dataset(str(bad)))
    names = tuple(model.scaling.series)
    y = np.append(np.full(30, 5.0), -1.0)
    with refuses(f"series '{names[0]}'", "-1"):
        model.predict(Panel((Series.of(names[0], y),), None), 3)
