"""Short series are forecast by a mean of simple forecasts, chosen by rolling origins, without a network."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tests.refusals import refuses

import throughtime as tt
from throughtime.cells.smoothing import ExponentialSmoothing
from throughtime.runtime import load as load_runner
from throughtime.series.autoregressions import continue_series, fit_autoregression
from throughtime.series.mixtures import mix_forecasts


def season(rows, seed=0, noise=1.0):
    """Months that rise, with a season."""
    draws, months = np.random.default_rng(seed), np.arange(rows)
    return 50 + months / 2 + 8 * np.sin(months * np.pi / 6) + draws.normal(0, noise, rows)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Three series of different lengths; the variation of the second grows with its level."""
    path = tmp_path_factory.mktemp("short") / "months.csv"
    columns = {"a": season(60) - 60, "b": np.exp(season(72, 1, 0.5) / 20), "c": 1_000 + season(48, 2)}
    lines = [
        f"{name},{time}-01,{value:.5f}"
        for name, values in columns.items()
        for time, value in zip(np.datetime64("2015-01") + np.arange(len(values)), values, strict=True)
    ]
    path.write_text("\n".join(["unique_id,ds,y", *lines]) + "\n")
    return path


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "months"
    return tt.train("forecast", data=str(table), out=out, device="cpu", progress="none")


def test_a_cell_smooths_as_the_equations_say():
    alpha, beta, phi, gamma = weights = (0.3, 0.1, 0.9, 0.2)
    cell = ExponentialSmoothing(torch.tensor([weights], dtype=torch.float64), season=2)
    start = [torch.tensor([each], dtype=torch.float64) for each in (5.0, 1.0)]
    state = cell.begin(*start, torch.tensor([[2.0, -2.0]], dtype=torch.float64))
    values = [8.0, 3.0, 9.5, 6.0, 12.0]
    inputs = torch.tensor(values, dtype=torch.float64)[:, None, None]
    outputs, state = cell(inputs, state)
    level, trend, seasons = 5.0, 1.0, [2.0, -2.0]
    for row, value in enumerate(values):
        error = value - (level + phi * trend + seasons[row % 2])
        level, trend = level + phi * trend + alpha * error, phi * trend + beta * error
        seasons[row % 2] += gamma * error
        assert outputs[row].item() == pytest.approx(level + phi * trend + seasons[(row + 1) % 2])
    expected = [
        level + trend * sum(phi**step for step in range(1, ahead + 1)) + seasons[(4 + ahead) % 2]
        for ahead in (1, 2, 3)
    ]
    assert cell.forecast(state, 3).flatten().tolist() == pytest.approx(expected)


def test_an_autoregression_continues_a_cycle():
    wave = np.sin(np.arange(160) / 2)[None] + 3
    coefficients = fit_autoregression(wave[:, :150], (), season=1)
    assert continue_series(wave[:, :150], coefficients, 10, centred=True) == pytest.approx(
        wave[:, 150:], abs=0.1
    )


@pytest.mark.parametrize("rows", [12, 27, 60, 130])
def test_a_mixture_is_a_map_that_follows_the_level(rows):
    values = season(rows) / 20
    [mixture] = mix_forecasts([values], 12, 6)
    assert mixture.map.sum(axis=0) == pytest.approx(np.ones(6), abs=1e-6)
    assert sum(mixture.shares.values()) == pytest.approx(1)
    assert (np.diff(mixture.squares) >= 0).all()
    assert all(len(errors) <= 6 for errors in mixture.errors)


def test_series_together_have_the_forecasts_that_they_have_alone():
    several = [season(60, seed) / 20 for seed in range(3)] + [season(48) / 20]
    for values, mixture in zip(several, mix_forecasts(several, 12, 6), strict=True):
        [alone] = mix_forecasts([values], 12, 6)
        assert mixture.map == pytest.approx(alone.map, abs=1e-9)
        assert mixture.squares == pytest.approx(alone.squares)


def test_origins_are_forecast_from_the_rows_before_them_alone():
    """All rows change after the second origin: the errors from the first do not, where they end before."""
    values = season(60) / 20
    [mixture] = mix_forecasts([values], 12, 3)
    other = values.copy()
    other[mixture.origins[1] :] += 100.0
    for name in ("level with season", "autoregression of changes", "theta"):
        first, second = (_errors_of(each, name, mixture.origins[0]) for each in (values, other))
        assert first == pytest.approx(second)


def _errors_of(values, name, origin):
    """What one forecast says of the rows after an origin."""
    from throughtime.series import mixtures

    grids = [mixtures.build_grid(each) for each in (1, 12)]
    rows = np.concatenate([values[None], np.arange(60.0)[None]])
    read = [next(iter(mixtures.smooth(grid.cell, rows, [origin, 60], origin))) for grid in grids]
    with torch.no_grad():
        tried = mixtures._try_all(values[None, :origin], 12, 3, grids, read)
    return tried.forecasts[name][0]


def test_a_short_run_is_a_whole_run(run, table):
    assert run.config.model == "smoothing"
    folder = run.folder.path
    done = json.loads((folder / "training.json").read_text())
    assert done["steps"] == 0
    assert done["best"]["mae"] < 0.5
    card = (folder / "README.md").read_text()
    assert "No network" in card
    assert "% trend with season" in card
    assert tt.load(folder).evaluate(split="test").values["trained_on"] == 0
    assert run.unseen(run.open_panel(None)) == 0  # all rows were learned from


def test_short_series_are_forecast_on_and_have_intervals_of_their_own(run):
    truth = {"a": season(72, noise=0)[60:] - 60, "c": 1_000 + season(60, noise=0)[48:]}
    forecasts = {one.unique_id: one for one in run.forecast(h=12, level=[80])}
    for name, values in truth.items():
        assert abs(forecasts[name].mean - values).mean() < 1.5
    assert run.scaling.series["b"].power == 0  # logarithms
    assert run.scaling.series["a"].power == 1
    widths = [np.mean(one.quantiles[0.9] - one.quantiles[0.1]) for one in forecasts.values()]
    assert len({round(float(each), 3) for each in widths}) == 3


def test_the_exported_forecasts_are_those_of_the_model(run, tmp_path):
    run.export(tmp_path / "onnx", int8=True)  # a map stays in float32
    values = {one.unique_id: one.y.tolist() for one in run.history.series}
    values = {"c": values["c"], "a": values["a"], "b": values["b"], "new": values["a"][:30]}
    ours, theirs = (
        each.forecast(values, h=12, level=[80, 95]) for each in (run, load_runner(tmp_path / "onnx"))
    )
    for one, other in zip(ours, theirs, strict=True):
        assert other.mean == pytest.approx(one.mean, rel=1e-4)
        for p, quantile in one.quantiles.items():
            assert other.quantiles[p] == pytest.approx(quantile, rel=1e-4)


def test_a_backtest_fits_again_before_each_origin(run):
    tested = run.backtest(n_windows=2)
    first, *baselines = tested.figures
    assert tested.trained_on == 0
    assert all(first.total["mase"] < other.total["mase"] for other in baselines)
    panel = run.open_panel(None)
    refitted = run.refit(panel.drop_last(12)).predict(panel.drop_last(12), 12)
    assert first.windows.mean[1] == pytest.approx(np.stack([one.mean for one in refitted]))


@pytest.mark.parametrize(("rows", "chosen"), [(5, "last value is repeated"), (12, "rolling origins")])
def test_few_rows_suffice_to_answer_and_to_choose(rows, chosen, tmp_path):
    table = tmp_path / "few.csv"
    table.write_text("\n".join(["y", *(f"{value:.2f}" for value in season(rows))]) + "\n")
    model = tt.train("forecast", data=str(table), out=tmp_path / "run", device="cpu", progress="none")
    [forecast] = model.forecast(level=[80])
    assert chosen in model.scaling.chosen
    assert (forecast.quantiles[0.1] < forecast.mean).all()
    if rows == 5:
        assert forecast.mean[0] == pytest.approx(season(5)[-1], abs=0.01)


def test_a_level_outside_of_training_is_followed(run):
    far = season(60) + 1e4
    [forecast] = run.forecast({"a": far.tolist()}, h=12)
    [near] = run.forecast({"a": season(60).tolist()}, h=12)
    assert forecast.mean == pytest.approx(near.mean + 1e4, abs=0.5)


def test_who_asks_for_a_network_gets_one(table, tmp_path):
    model = tt.train("forecast", data=str(table), out=tmp_path / "run", epochs=1, progress="none")
    assert model.config.model == "recurrent"
    with refuses("calendar", "has no effect"):
        tt.train("forecast", data=str(table), out=tmp_path / "no", model="smoothing", calendar=True)


def test_a_run_that_was_killed_goes_on_to_the_same_model(run, table, tmp_path, monkeypatch):
    def kill(*given):
        raise KeyboardInterrupt

    settings = {"data": str(table), "out": tmp_path / "run", "device": "cpu", "progress": "none"}
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("throughtime.fit.run._write_end", kill)
        tt.train("forecast", **settings)
    resumed = tt.train("forecast", **settings, resume=True)
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], tensor), name
    assert "No network" in (tmp_path / "run" / "README.md").read_text()
