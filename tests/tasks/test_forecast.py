"""Forecasting as a task: what is learned of waves and noise, what comes out, what is kept."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.refusals import refuses

import throughtime as tt
from throughtime.data import embedded
from throughtime.data.datasets import open_dataset
from throughtime.data.panel import Panel, Series
from throughtime.data.readers.panel import read_panel, read_series_panel
from throughtime.errors import ThroughtimeWarning
from throughtime.fit.progress import Reporter
from throughtime.fit.trainer import Trainer
from throughtime.folder import ModelFolder
from throughtime.series.baselines import BASELINES
from throughtime.series.conformal import add_saved_intervals
from throughtime.tasks.forecast.config import ForecastConfig
from throughtime.tasks.forecast.model import SeriesForecaster

NOTES = {
    "model": "linear",
    "strategy": "recursive",
    "head": "point",
    "lookback": 4,
    "horizon": 1,
    "normalise": "none",
    "optimizer": "sgd",
    "lr": 0.01,
    "batch_size": 10,
    "epochs": 5,
    "clip": None,
    "schedule": "constant",
    "train_size": 600,
    "valid_size": 400,
    "test_size": 0,
    "device": "cpu",
}
"""Linear autoregression as the notes have it."""
SEEDS = 20


def noisy(name, folder, seed):
    path = folder / f"{name}-{seed}.csv"
    values = embedded.series(name, 1000, seed)
    path.write_text("y\n" + "".join(f"{value!r}\n" for value in values.tolist()))
    return path


def taught(path, folder, **settings):
    """A model trained without a folder of its own, and its best validation."""
    dataset = open_dataset(str(path))
    model = SeriesForecaster.create(ForecastConfig(data=str(path), **{**NOTES, **settings}), dataset)
    folder.mkdir()
    trainer = Trainer(
        model.build_objective(dataset), model.config, folder, Reporter(), improved=lambda measured: None
    )
    best = trainer.fit().best
    [scale] = model.scaling.series.values()
    return model, read_series_panel(dataset), best["mse"] * scale.spread**2


@pytest.fixture(scope="module")
def autoregressions(tmp_path_factory):
    """The linear models of twenty seeds, each with its series and its validation error."""
    folder = tmp_path_factory.mktemp("sines")
    quick = {"batch_size": 60, "lr": 0.1}
    return [
        taught(noisy("sine", folder, seed), folder / str(seed), seed=seed, **quick) for seed in range(SEEDS)
    ]


@pytest.mark.slow
def test_linear_autoregression_beats_the_mean_on_a_ramp(tmp_path):  # R2
    """The notes' recipe as it stands; to beat: the mean of what was trained on, in sample and after it."""
    for seed in range(SEEDS):
        run = tmp_path / str(seed)
        model, panel, error = taught(noisy("ramp", tmp_path, seed), run, seed=seed)
        y = panel.series[0].y
        assert error < 0.2 * np.mean((y[600:] - y[:600].mean()) ** 2)
        written = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        losses = [line["train_mse"] for line in written if line["kind"] == "epoch"]
        assert len(losses) == 5
        [scale] = model.scaling.series.values()
        assert losses[-1] * scale.spread**2 < 0.5 * y[:600].var()
        assert losses[-1] < losses[0]


def test_the_notes_recipe_is_expressible(tmp_path):
    model, panel, error = taught(noisy("sine", tmp_path, 0), tmp_path / "run")
    assert sum(weight.numel() for weight in model.model.parameters()) == 5
    assert error <= 0.06
    assert error < 0.5 * panel.series[0].y[600:].var()


def test_linear_autoregression_beats_the_mean_and_the_bound(autoregressions):  # R3
    errors = [error for _, _, error in autoregressions]
    means = [
        np.mean((panel.series[0].y[600:] - panel.series[0].y[:600].mean()) ** 2)
        for _, panel, _ in autoregressions
    ]
    assert np.mean(errors) <= 0.06
    assert np.mean(errors) > 0.04  # the noise floor: 0.2 squared
    assert max(errors) < min(means)


def test_errors_grow_with_the_steps_ahead(autoregressions):  # R4
    found = [model.k_steps(panel, (1, 4, 16, 64), split="valid") for model, panel, _ in autoregressions]
    means = [np.mean([one.rmse[step] for one in found]) for step in (1, 4, 16, 64)]
    assert means == sorted(means)
    assert means[-1] > 1.5 * means[0]
    for (_, _, error), one in zip(autoregressions, found, strict=True):
        assert one.rows == 400
        assert one.rmse[1] == pytest.approx(error**0.5, rel=0.04)  # of the best epoch, not the last


def test_training_draws_its_windows_by_the_seed(tmp_path):  # R9
    path = noisy("sine", tmp_path, 0)
    dataset = open_dataset(str(path))

    def orders(seed):
        task = SeriesForecaster.create(
            ForecastConfig(data=str(path), **{**NOTES, "seed": seed}), dataset
        ).build_objective(dataset)
        batches = task.batches(0, 1)
        return [torch.cat([batch.indices for batch in batches]).tolist() for _ in range(2)]

    first, second = orders(0)
    assert sorted(first) == sorted(second) == list(range(596))
    assert first != second
    assert orders(0) == [first, second]
    assert first not in orders(1)


def test_a_state_beats_a_window(autoregressions, tmp_path):  # R5
    for seed in range(2):
        settings = {"model": "recurrent", "lookback": 16, "hidden_size": 12, "optimizer": "adamw", "lr": 0.02}
        path = noisy("sine", tmp_path, seed)
        _, _, error = taught(path, tmp_path / f"run-{seed}", seed=seed, epochs=5, batch_size=32, **settings)
        assert error < autoregressions[seed][2]


def wave_table(folder, rows=260):
    """Two waves of a week with their own levels, in a wide table of days."""
    days = np.arange("2020-01-01", rows, dtype="datetime64[D]")
    noise = np.random.default_rng(0).normal(0, 0.1, (rows, 2))
    time = np.arange(rows)
    low, high = (
        np.sin(2 * np.pi * time / 7) + noise[:, 0],
        500 + 80 * np.cos(2 * np.pi * time / 7) + noise[:, 1],
    )
    path = folder / "waves.csv"
    lines = [f"{day},{one:.6f},{two:.6f}\n" for day, one, two in zip(days, low, high, strict=True)]
    path.write_text("date,low,high\n" + "".join(lines))
    return path


SMALL = {"hidden_size": 16, "epochs": 6, "lr": 0.02, "device": "cpu", "lookback": 14}


@pytest.fixture(scope="module")
def waves(tmp_path_factory):
    return wave_table(tmp_path_factory.mktemp("waves"))


@pytest.fixture(scope="module")
def trained(waves, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "waves"
    dataset = open_dataset(str(waves))
    model = SeriesForecaster.create(ForecastConfig(data=str(waves), **SMALL), dataset)
    return out, model.fit(dataset, out)


@pytest.fixture(scope="module")
def forecaster(trained):
    return tt.load(trained[0], device="cpu")


def test_it_learns_waves_of_any_level(trained, forecaster, waves):  # R8, of series
    assert trained[1]["best"]["mse"] < 0.05
    report = forecaster.evaluate(open_dataset(str(waves)), split="test")
    assert report.values["mse"] < 0.05
    assert report.values["windows"] == 2 * (26 - 7 + 1)
    assert set(report.values["baselines"]) == {"naive", "seasonal-naive", "ridge"}
    assert report.values["mse"] < 0.1 * report.values["baselines"]["naive"]["mse"]


def test_naive_forecasts_of_the_same_windows_are_what_they_say(forecaster, waves):
    report = forecaster.evaluate(open_dataset(str(waves)), split="valid").values
    squared = {"naive": [], "seasonal-naive": []}
    for one in read_panel(waves).series:
        for origin in range(208, 234 - 7 + 1):
            for k in range(7):
                squared["naive"].append((one.y[origin + k] - one.y[origin - 1]) ** 2)
                squared["seasonal-naive"].append((one.y[origin + k] - one.y[origin - 7 + k]) ** 2)
    for name, values in squared.items():
        assert report["baselines"][name]["mse_original"] == pytest.approx(np.mean(values), rel=1e-3)


def test_the_last_season_of_evaluate_is_observed_not_filled(tmp_path):
    """Where the value a season before is missing, the one two seasons before is repeated, and so on."""
    y = np.sin(2 * np.pi * np.arange(200) / 7) * 5 + np.random.default_rng(0).normal(0, 0.2, 200)
    y[np.random.default_rng(1).random(200) < 0.3] = np.nan
    path = tmp_path / "gaps.csv"
    days = np.arange("2020-01-01", 200, dtype="datetime64[D]")
    cells = ("" if np.isnan(value) else repr(float(value)) for value in y)
    path.write_text("ds,y\n" + "".join(f"{day},{cell}\n" for day, cell in zip(days, cells, strict=True)))
    dataset = open_dataset(str(path))
    config = ForecastConfig(data=str(path), **{**SMALL, "valid_size": 30, "test_size": 50, "horizon": 9})
    model = SeriesForecaster.create(config, dataset)
    errors = {name: [] for name in BASELINES if name != "drift"}
    for origin in range(150, 200 - 9 + 1):
        for name in errors:
            told = BASELINES[name](y[:origin], 9, 7).mean - y[origin : origin + 9]
            errors[name] += told[~np.isnan(told)].tolist()
    found = model.evaluate(dataset, split="test").values["baselines"]
    for name, own in errors.items():
        assert found[name]["mae_original"] == pytest.approx(np.mean(np.abs(own)), rel=1e-4)
    # Of the first windows nothing was observed at some place of the week: there is no last season.
    y[:20] = np.nan
    cells = ("" if np.isnan(value) else repr(float(value)) for value in y)
    path.write_text("ds,y\n" + "".join(f"{day},{cell}\n" for day, cell in zip(days, cells, strict=True)))
    dataset = open_dataset(str(path))
    told = model.evaluate(dataset, split="train")
    assert "seasonal-naive   none: some windows have nothing observed to repeat" in told.text
    assert "seasonal-naive" not in told.values["baselines"]


@pytest.mark.parametrize(
    ("settings", "measure"),
    [
        ({}, "pinball"),
        ({"choose_by": "mae"}, "mae"),
        ({"head": "gaussian"}, "nats"),
        ({"head": "point", "loss": "mae"}, "mae"),
        ({"head": "point", "strategy": "recursive"}, "mse_loss"),
        ({"head": "point", "normalise": "standard"}, "mse_loss"),
    ],
)
def test_what_decides_has_the_name_of_the_loss_that_is_trained(settings, measure, waves):
    dataset = open_dataset(str(waves))
    task = SeriesForecaster.create(
        ForecastConfig(data=str(waves), **{**SMALL, **settings}), dataset
    ).build_objective(dataset)
    sums = task.validate(0, 1)
    found = task.summarise(sums)
    assert next(iter(found)) == task.measure == measure
    [trained] = task.training_measures(1.0)
    loss = sums["loss"] / sums["taught"]
    assert found[trained] == task.training_measures(loss)[trained]
    assert found[trained] == pytest.approx(loss / 2 if trained == "pinball" else loss)
    assert found["mse"] == pytest.approx(sums["squared"] / sums["values"])
    assert found["mae"] == pytest.approx(sums["absolute"] / sums["values"])


def test_forecasts_follow_the_last_row(forecaster, waves):
    low, high = forecaster.forecast(h=5, level=[80, 95])
    assert (low.unique_id, high.unique_id) == ("low", "high")
    assert str(low.ds[0])[:10] == "2020-09-17"
    truth = np.cos(2 * np.pi * np.arange(260, 265) / 7)
    assert high.mean == pytest.approx(500 + 80 * truth, abs=25)
    ordered = [high.quantiles[p] for p in (0.025, 0.1, 0.9, 0.975)]
    assert (np.diff(ordered, axis=0) >= 0).all()
    assert (ordered[1] <= high.mean).all()
    assert forecaster.forecast(h=5, paths=3)[0].samples.shape == (3, 5)
    again = forecaster.predict(read_panel(waves), 5, (0.1,))
    assert again[0].quantiles[0.1].tolist() == low.quantiles[0.1].tolist()


def test_rows_that_came_after_training_are_unseen(forecaster):
    panel = forecaster.history
    unseen = forecaster.unseen(panel)
    days = panel.after(panel.series[0], 30)
    longer = [
        replace(
            Series.of(one.unique_id, np.append(one.y, one.y[-28:-26].repeat(15)), np.append(one.ds, days)),
            known=np.zeros((len(one) + 30, 0)),
        )
        for one in panel.series
    ]
    assert forecaster.unseen(replace(panel, series=tuple(longer))) == unseen + 30
    assert forecaster.unseen(panel.drop_last(10)) == unseen - 10


def test_series_that_training_did_not_see(forecaster):
    days = np.arange("2020-01-01", 60, dtype="datetime64[D]").astype("datetime64[ns]")
    panel = read_panel_of("new", 3000 + 10 * np.sin(2 * np.pi * np.arange(60) / 7), days, forecaster)
    [one] = forecaster.predict(panel, 7)
    assert one.mean == pytest.approx(3000 + 10 * np.sin(2 * np.pi * np.arange(60, 67) / 7), abs=5)


def read_panel_of(name, y, ds, forecaster):
    return Panel((Series.of(name, y, ds),), forecaster.scaling.frequency)


def test_what_does_not_fit_is_refused(forecaster, waves, tmp_path):
    panel = read_panel(waves)
    with refuses("h", "7"):
        forecaster.predict(panel, 8)
    with refuses("series 'low'", "9", "14"):
        forecaster.predict(panel.drop_last(251), 7)
    with refuses("data"):
        forecaster.predict(Panel((Series.of("a", np.arange(50.0)),), None), 7)
    with refuses("num_beams"):
        forecaster.evaluate(str(waves), num_beams=3)
    with refuses("split", "'dev'"):
        forecaster.evaluate(open_dataset(str(waves)), split="dev")
    with refuses("train_size, valid_size and test_size", "0", "200", "60", "260"):
        SeriesForecaster.create(
            ForecastConfig(data="x", valid_size=200, test_size=60), open_dataset(str(waves))
        )
    with refuses("data", "waves.csv", "208", "307", "lookback"):
        dataset = open_dataset(str(waves))
        SeriesForecaster.create(
            ForecastConfig(data=str(waves), lookback=300, device="cpu"), dataset
        ).build_objective(dataset)
    for settings, facts in (
        ({"model": "segment", "strategy": "recursive"}, ("strategy", "model=segment")),
        ({"past": ("low",), "strategy": "recursive"}, ("past",)),
        ({"model": "mlp", "warm_up": 3}, ("warm_up", "model=recurrent")),
    ):
        with refuses(*facts):
            SeriesForecaster.create(ForecastConfig(data=str(waves), **settings), open_dataset(str(waves)))


def test_a_constant_series_is_told_and_forecast(tmp_path):
    path = tmp_path / "flat.csv"
    path.write_text("y\n" + "5\n" * 100)
    dataset = open_dataset(str(path))
    model = SeriesForecaster.create(ForecastConfig(data=str(path), **{**SMALL, "epochs": 1}), dataset)
    assert "Constant" in model.notes[0]
    [one] = model.predict(read_series_panel(dataset), 3)
    assert np.isfinite(one.mean).all()


def helped_table(folder, rows=200, gap=None):
    """y is twice what is known of its day, and nothing else."""
    known = np.random.default_rng(1).normal(size=rows + 6)
    days = np.arange("2020-01-01", rows + 6, dtype="datetime64[D]")
    text = [f"{day},{2 * x:.5f},{x:.5f}\n" for day, x in zip(days[:rows], known, strict=False)]
    if gap:
        del text[gap]
    table, future = folder / "helped.csv", folder / "future.csv"
    table.write_text("ds,y,temp\n" + "".join(text))
    coming = zip(days[rows:], known[rows:], strict=True)
    future.write_text("ds,temp\n" + "".join(f"{day},{x:.5f}\n" for day, x in coming))
    return table, future, 2 * known[rows:]


@pytest.mark.parametrize(
    "settings",
    [
        {"model": "linear"},
        {"model": "recurrent", "strategy": "recursive"},
        {"model": "segment", "segment": 3, "highway": "trained"},
    ],
)
@pytest.mark.filterwarnings("ignore:helped has 1 gap")
def test_what_is_known_of_the_future_helps(tmp_path, settings):
    table, future, truth = helped_table(tmp_path, gap=50)
    dataset = open_dataset(str(table))
    config = ForecastConfig(
        data=str(table), known="temp", calendar=True, horizon=6, head="point", normalise="none",
        **{**SMALL, "epochs": 12, "hidden_size": 24, **settings},
    )  # fmt: skip
    model = SeriesForecaster.create(config, dataset)
    assert "1 gap" in model.notes[0]
    model.fit(dataset, tmp_path / "run")
    [one] = model.forecast(future=future)
    assert np.corrcoef(one.mean, truth)[0, 1] > 0.9
    with refuses("future", "temp"):
        model.forecast()
    with refuses("future", "temp", "'helped'", "2020-07-19"):
        model.forecast(future=table)


def test_recursive_models_draw_paths(waves):
    dataset = open_dataset(str(waves))
    for settings in ({"model": "recurrent", "head": "student"}, {"model": "mlp", "head": "gaussian"}):
        config = ForecastConfig(data=str(waves), strategy="recursive", **settings, **{**SMALL, "paths": 50})
        model = SeriesForecaster.create(config, dataset)
        [one, _] = model.forecast(h=20, level=[80], paths=5)
        assert one.samples.shape == (5, 20)
        assert (one.quantiles[0.1] < one.quantiles[0.9]).all()
        assert model.forecast(h=20, level=[80])[0].quantiles[0.1].tolist() == pytest.approx(
            model.forecast(h=20, level=[80])[0].quantiles[0.1].tolist()
        )


def test_a_model_that_starts_from_another_has_its_warm_up(waves, tmp_path):
    """What is taken away from a window is known from the warm-up, so it belongs to the weights."""
    dataset = open_dataset(str(waves))
    settings = {**SMALL, "epochs": 1, "strategy": "recursive", "normalise": "mean"}
    model = SeriesForecaster.create(ForecastConfig(data=str(waves), **settings), dataset)
    model.fit(dataset, tmp_path / "run")
    again = SeriesForecaster.initialise_from(
        tmp_path / "run", ForecastConfig(data=str(waves), device="cpu"), {}
    )
    assert again.config.warm_up == again.model.warm_up == 7


def test_short_series_beside_long_ones_only_train(tmp_path):
    path = tmp_path / "mixed.csv"
    rows = [f"long,{day},{day % 7}\n" for day in range(120)] + [
        f"short,{day},{day % 7}\n" for day in range(22)
    ]
    path.write_text("unique_id,ds,y\n" + "".join(rows))
    dataset = open_dataset(str(path))
    model = SeriesForecaster.create(ForecastConfig(data=str(path), **{**SMALL, "horizon": 7}), dataset)
    assert ": short." in model.notes[0]
    task = model.build_objective(dataset)
    assert set(task.train.series.tolist()) == {0, 1}
    assert set(task.valid.series.tolist()) == {0}


def test_the_usual_split_of_etth1_is_expressible(corpora):
    dataset = open_dataset(str(corpora / "series" / "ETTh1.csv"))
    settings = {"train_size": 8640, "valid_size": 2880, "test_size": 2880, "lookback": 96, "horizon": 96}
    config = ForecastConfig(data=dataset.name, model="linear", device="cpu", **settings)
    report = SeriesForecaster.create(config, dataset).evaluate(dataset, split="test").values
    assert report["windows"] == 7 * 2785
    assert report["baselines"]["naive"]["mse"] == pytest.approx(1.294, abs=1e-3)  # as published for "repeat"


def test_loading_needs_the_scales(trained, tmp_path):
    import shutil

    shutil.copytree(trained[0], tmp_path / "run")
    (tmp_path / "run" / "series.json").write_text("{}")
    folder = ModelFolder.at(tmp_path / "run")
    with refuses("series.json", "'frequency'"):
        SeriesForecaster.load(folder, folder.read_config()[1], "cpu")


@pytest.mark.parametrize("name", ["lookback", "horizon"])
def test_a_folder_that_lacks_a_size_is_refused(trained, tmp_path, name):
    copy = tmp_path / "copy"
    shutil.copytree(trained[0], copy)
    config = json.loads((copy / "config.json").read_text())
    config["config"][name] = None
    (copy / "config.json").write_text(json.dumps(config))
    with refuses("config.json", name):
        tt.load(copy, trust_changed=True)


def test_a_frame_is_trained_on_and_forecast_as_the_same_file_is(tmp_path):
    pandas = pytest.importorskip("pandas")
    days = pandas.date_range("2020-01-01", periods=90)
    frame = pandas.DataFrame({"unique_id": "shop", "ds": days, "y": np.sin(np.arange(90.0)) + 3})
    file = tmp_path / "shop.csv"
    frame.to_csv(file, index=False)
    config = ForecastConfig(data=str(file), model="linear", head="point", horizon=3, lookback=7)
    both = (open_dataset(data, kind="series") for data in (str(file), frame))
    models = [SeriesForecaster.create(config, dataset) for dataset in both]
    for one, other in zip(models[0].model.parameters(), models[1].model.parameters(), strict=True):
        assert torch.equal(one, other)
    told = [model.forecast(data)[0] for model in models for data in (str(file), frame)]
    for one in told[1:]:
        np.testing.assert_array_equal(one.mean, told[0].mean)
        np.testing.assert_array_equal(one.ds, told[0].ds)


def test_training_windows_come_in_an_order_of_the_seed_and_the_epoch(tmp_path):  # R9
    file = tmp_path / "wave.csv"
    file.write_text("y\n" + "".join(f"{np.sin(row)}\n" for row in range(200)))

    def orders(seed: int) -> list[list[int]]:
        config = ForecastConfig(
            data=str(file), model="linear", head="point", horizon=3, lookback=7, seed=seed
        )
        dataset = open_dataset(file)
        batches = SeriesForecaster.create(config, dataset).build_objective(dataset).batches(0, 1)
        return [[index for batch in batches for index in batch.indices.tolist()] for _ in range(2)]

    first, second = orders(1)
    assert sorted(first) == sorted(second) == list(range(len(first)))
    assert first not in (second, sorted(first))
    assert orders(1) == [first, second]
    assert orders(2)[0] != first


def test_counts_have_no_negative_forecasts(tmp_path):
    dice = np.random.default_rng(0)
    counts = (dice.random(150) < 0.1) * dice.integers(1, 9, 150)
    for lift, expected in ((0, True), (-1, False)):
        path = tmp_path / f"counts{lift}.csv"
        path.write_text("y\n" + "".join(f"{count + lift}\n" for count in counts))
        settings = {"epochs": 1, "lookback": 20, "horizon": 5, "device": "cpu"}
        model = tt.train("forecast", data=path, out=tmp_path / f"run{lift}", **settings)
        [told] = model.forecast(level=[80, 95], paths=30)
        model.save_intervals()
        [measured] = add_saved_intervals(model, model.folder).predict(model.history, 5, [0.1, 0.025])
        lowest = [
            told.mean.min(),
            told.samples.min(),
            told.quantiles[0.025].min(),
            measured.quantiles[0.025].min(),
        ]
        assert (min(lowest) >= 0) == expected
        assert told.mean.min() % 1


def test_a_split_without_a_value_is_said(tmp_path):
    path = tmp_path / "gap.csv"
    path.write_text("ds,y\n" + "".join(f"{row},{'' if row > 85 else row % 5}\n" for row in range(100)))
    with pytest.warns(ThroughtimeWarning, match="lacks 14 values"):
        model = tt.train("forecast", data=path, out=tmp_path / "run", epochs=1, device="cpu")
    with refuses("split test", "no observed value"):
        model.evaluate(str(path), split="test")
