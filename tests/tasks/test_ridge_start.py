"""A forecaster begins as a ridge regression, corrects it, and is never worse on the validation rows."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.refusals import refuses
from torch.utils._python_dispatch import TorchDispatchMode

import throughtime as tt
from throughtime.data.datasets import open_dataset
from throughtime.data.readers.panel import read_series_panel
from throughtime.models.forecast_heads import GaussianHead, PointHead, QuantileHead, StudentHead
from throughtime.runtime import load as load_runner
from throughtime.runtime.forecast import OutputDistribution
from throughtime.series.lookback import choose_ridge, seconds_to_fit
from throughtime.tasks.forecast.config import MAX_EPOCHS, ForecastConfig
from throughtime.tasks.forecast.model import SeriesForecaster
from throughtime.tasks.forecast.training import NEEDED, PARTS, SHARES, TIME_SHARE


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two series of days: a week, a slow wave and noise; one has gaps."""
    draws = np.random.default_rng(0)
    days = np.arange(420)
    path = tmp_path_factory.mktemp("table") / "shops.csv"
    lines = ["unique_id,ds,y"]
    for name, level in (("a", 10), ("b", 200)):
        values = level + np.sin(days * 2 * np.pi / 7) + np.sin(days / 40) + draws.normal(0, 0.3, 420)
        for day, value in zip(np.datetime64("2021-01-01") + days, values, strict=True):
            missing = name == "b" and draws.random() < 0.03
            lines.append(f"{name},{day},{'' if missing else round(value, 4)}")
    path.write_text("\n".join(lines) + "\n")
    return path


def built(table, **settings):
    dataset = open_dataset(str(table))
    config = ForecastConfig(data=str(table), **{"device": "cpu", "hidden_size": 8, **settings})
    return SeriesForecaster.create(config, dataset), dataset


@pytest.mark.parametrize("model", [None, "recurrent", "segment", "mlp"])
@pytest.mark.parametrize("normalise", [None, "last", "mean", "standard", "none"])
def test_the_first_forecasts_are_those_of_ridge_regression(model, normalise, table):
    forecaster, dataset = built(table, model=model, normalise=normalise, lookback=21, head="gaussian")
    panel, config = read_series_panel(dataset), forecaster.config
    arrays, _ = forecaster.scaling.scale_panel(panel)
    ends = arrays.offsets[1:]
    window = np.stack([arrays.values[end - 21 : end].astype(float) for end in ends])
    offset = forecaster.scaling.ridge.normalise
    parts = [config.timeline.part_of_each(split, panel) for split in ("train", "valid")]
    series = [arrays.values[a:b].astype(float) for a, b in zip(arrays.offsets[:-1], ends, strict=True)]
    offsets = NEEDED[normalise]
    found = choose_ridge(series, *parts, [21], 7, offsets, season=7, channels=None)
    assert found.normalise == offset
    level = {"last": window[:, -1:], "mean": window.mean(1, keepdims=True), "none": 0.0}[offset]
    changes = found.changes if found.changes is not None else [0, 0]
    expected = np.stack(
        [
            own + row @ (found.weights + change)
            for own, row, change in zip(np.broadcast_to(level, (2, 1)), window - level, changes, strict=True)
        ]
    )
    for one, scaled in zip(forecaster.forecast(), expected, strict=True):
        own = forecaster.scaling.series[one.unique_id].undo(scaled)
        assert one.mean == pytest.approx(own, rel=1e-4)


@pytest.fixture(scope="module")
def unlike(tmp_path_factory):
    return write_unlike(tmp_path_factory.mktemp("unlike"))


def write_unlike(folder):
    """Two series of hours with waves of very different lengths."""
    draws, hours = np.random.default_rng(0), np.arange(500)
    path = folder / "unlike.csv"
    columns = [np.sin(hours * 2 * np.pi / period) + draws.normal(0, 0.2, 500) for period in (7, 31)]
    rows = zip(np.datetime64("2022-01-01T00") + hours, *columns, strict=True)
    path.write_text("\n".join(["ds,a,b", *(f"{time}:00,{one},{two}" for time, one, two in rows)]) + "\n")
    return path


@pytest.mark.parametrize("model", ["recurrent", "segment", "mlp"])
def test_series_that_are_unlike_begin_with_maps_of_their_own(model, unlike):
    forecaster, dataset = built(unlike, model=model, lookback=24, horizon=6, head="gaussian")
    assert forecaster.config.channels == "own"
    choice = forecaster.scaling.ridge
    shared, _ = built(unlike, model=model, lookback=24, horizon=6, head="gaussian", channels="shared")
    assert (shared.model.own, shared.config.channels) == (None, "shared")
    values = {name: dataset_values(dataset, name) for name in ("a", "b")}
    values["new"] = values["b"]
    for name, y in values.items():
        scale = forecaster.scaling.series.get(name)
        [found] = forecaster.forecast({name: y})
        if scale is None:  # a new series has the shared map
            [expected] = shared.forecast({name: y})
            assert found.mean == pytest.approx(expected.mean, rel=1e-4)
            continue
        window = scale.apply(np.array(y))[-24:]
        level = window[-1] if choice.normalise == "last" else window.mean()
        weights = choice.weights + choice.changes[list(values).index(name)]
        assert found.mean == pytest.approx(scale.undo(level + (window - level) @ weights), rel=1e-3, abs=1e-4)


def dataset_values(dataset, name):
    return next(one.y for one in read_series_panel(dataset).series if one.unique_id == name).tolist()


def test_maps_of_series_are_saved_and_exported(unlike, tmp_path):
    forecaster, dataset = built(unlike, epochs=1, lookback=24, horizon=6)
    before = forecaster.model.own.clone()
    assert before.any()
    forecaster.fit(dataset, tmp_path / "run")
    assert torch.equal(forecaster.model.own, before)  # training does not change them
    model = tt.load(tmp_path / "run", device="cpu")
    assert torch.equal(model.model.own, before)
    model.export(tmp_path / "onnx")
    values = {name: dataset_values(dataset, name) for name in ("b", "a")}  # another order than in training
    values["new"] = values["a"]
    ours, theirs = (each.forecast(values, h=6) for each in (model, load_runner(tmp_path / "onnx")))
    for one, other in zip(ours, theirs, strict=True):
        assert other.mean == pytest.approx(one.mean, rel=1e-4, abs=1e-5)
    assert not np.allclose(ours[1].mean, ours[2].mean, rtol=1e-2)


def test_maps_of_many_series_are_saved_and_exported(tmp_path, monkeypatch):
    """Beyond a few series, the network copies the map that a window needs, as an export always does."""
    monkeypatch.setattr("throughtime.models.window_networks.FEW_SERIES", 1)
    test_maps_of_series_are_saved_and_exported(write_unlike(tmp_path), tmp_path)


def test_what_begins_with_maps_of_many_series_needs_little_memory(tmp_path):
    """60 series of 150 rows: a product for each series and window would have 60 times as many values."""
    draws = np.random.default_rng(0)
    lines = [
        f"{name},{row},{draws.normal():.3f}"
        for name in (f"s{number}" for number in range(60))
        for row in range(150)
    ]
    path = tmp_path / "many.csv"
    path.write_text("\n".join(["unique_id,ds,y", *lines]) + "\n")
    with LargestTensor() as largest:
        built(path, horizon=12, lookback=12, channels="own", model="mlp", valid_size=12, test_size=12)
    windows = 60 * (126 - 23)
    assert largest.values <= windows * 24 * 12 < 0.5 * windows * 60 * 12


class LargestTensor(TorchDispatchMode):
    """Notes the size of the largest tensor that an operation returns."""

    values = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for each in found if isinstance(found, (tuple, list)) else [found]:
            if isinstance(each, torch.Tensor):
                self.values = max(self.values, each.numel())
        return found


def test_maps_of_their_own_that_cannot_be_fitted_are_refused(tmp_path):
    path = tmp_path / "short.csv"
    path.write_text("a,b\n" + "".join(f"{math.sin(row):.4f},{row % 5}\n" for row in range(30)))
    given = {"horizon": 8, "valid_size": 0, "test_size": 8, "lookback": 6}
    with refuses("channels", "own", 22, 6, 8):
        built(path, channels="own", **given)
    forecaster, _ = built(path, **given)
    assert (forecaster.config.channels, forecaster.config.highway) == ("shared", "trained")


def test_little_time_tries_few_look_backs(table):
    """A quarter of the minutes is for the regressions; the look-back of the baseline is the first."""
    usual = built(table, model="mlp")[0].scaling.ridge.errors
    minutes = 1.05 * seconds_to_fit([112], 7) / TIME_SHARE / 60
    short = built(table, model="mlp", minutes=minutes)[0].scaling.ridge.errors
    assert next(iter(short)) == next(iter(usual)) == 112
    assert len(short) < len(usual)


def test_defaults_choose_the_window_the_model_and_the_length_of_training(table):
    forecaster, dataset = built(table)
    config = forecaster.config
    assert (config.lookback, config.normalise, config.model) in [
        (each, normalise, "segment" if each > 96 else "recurrent")
        for each in (7, 14, 28, 96, 112)
        for normalise in ("last", "mean")
    ]
    assert (config.epochs, config.batch_size, config.highway) == (MAX_EPOCHS, 32, "ridge")
    [note] = forecaster.build_objective(dataset).notes
    assert f"Look-back {config.lookback}: " in note
    assert [rows for rows in (7, 14, 28, 96, 112) if f" {rows}: 0." not in note] == []
    long = ForecastConfig(data="x", lookback=112, hidden_size=8).complete(read_series_panel(dataset))
    assert (long.model, long.segment) == ("segment", 5)
    many = ForecastConfig(data="x", lookback=28, hidden_size=8, horizon=28, probabilities=[0.5] * 1 + [0.9])
    assert (
        many.model_copy(update={"hidden_size": 64_000}).complete(read_series_panel(dataset)).epochs
        < MAX_EPOCHS
    )


@pytest.mark.parametrize(
    ("given", "model"),
    [
        ({"num_layers": 2}, "recurrent"),
        ({"warm_up": 3}, "recurrent"),
        ({"segment": 4}, "segment"),
        ({"hidden_size": 8}, None),
        ({"model": "mlp", "num_layers": 2}, "mlp"),
    ],
)
def test_settings_of_one_model_select_it(given, model):
    assert ForecastConfig(data="x", **given).model == model


@pytest.mark.filterwarnings("ignore:b lacks 16 values")
def test_a_run_is_no_worse_than_ridge_regression_on_validation(table, tmp_path):
    """A rate that ruins the network leaves the regression as it was."""
    for lr, out in ((0.003, "calm"), (3.0, "wild")):
        forecaster, dataset = built(table, epochs=3, lr=lr, head="point", clip=None)
        objective = forecaster.build_objective(dataset)
        forecaster.model.eval()
        start = objective.summarise(objective.validate(0, 1))
        forecaster.fit(dataset, tmp_path / out)
        lines = map(json.loads, (tmp_path / out / "metrics.jsonl").read_text().splitlines())
        errors = [line["mse"] for line in lines if line["kind"] == "valid"]
        assert len(errors) == 3
        assert max(errors) <= start["mse"] * (1 + 1e-6)
    assert load_file(tmp_path / "wild" / "model.safetensors")["trust"] == 0
    evaluated = tt.load(tmp_path / "wild", device="cpu").evaluate(split="valid").values["mse"]
    assert evaluated == pytest.approx(start["mse"], rel=1e-4)


def test_validation_takes_the_best_share_of_the_correction(table):
    forecaster, dataset = built(table, head="point", lookback=14)
    objective, model = forecaster.build_objective(dataset), forecaster.model.eval()
    with torch.no_grad():  # a correction that is wrong by a half
        last = model.network.output_layer
        torch.nn.init.normal_(last.weight, std=0.1)
    sums = objective.validate(0, 1)
    found = objective.summarise(sums)
    errors = {}
    for share in SHARES:
        model.trust.fill_(share)
        with torch.no_grad():
            losses, weights = objective._losses(next(iter_batches(objective)))
            errors[share] = float((losses * weights).sum())
    best = min(errors, key=errors.get)
    objective.summarise(sums)
    assert float(model.trust) == best
    assert found["mse"] == pytest.approx(min(errors.values()) / sums["values"], rel=1e-5)


@pytest.mark.parametrize(("valid", "parts"), [(42, 5), (29, 3), (8, 1)])
def test_validation_rows_are_whole_horizons_of_equal_length(table, valid, parts):
    """A remainder of a few windows is no part of its own; four parts are needed to trust a correction."""
    forecaster, dataset = built(table, horizon=7, lookback=14, valid_size=valid, head="point")
    objective = forecaster.build_objective(dataset)
    sizes = objective.parts.bincount()
    assert len(sizes) == parts
    assert sizes.max() - sizes.min() <= 4  # two series, and windows without values are left out
    sums = {}
    for share in SHARES:
        mark = "" if share == 1 else f" with {share:g}"
        sums |= {f"{name}{mark}": 1.0 for name in ("loss", "taught", "absolute", "values")}
        sums |= {f"squared{mark}": parts * (2 - share)}
        sums |= {f"part {part}{mark}": (2 - share) * (part < parts) for part in range(PARTS)}
    objective.summarise(sums)
    assert float(objective.model.trust) == (1 if parts >= 4 else 0)


def iter_batches(objective):
    from throughtime.data.batching.series import PanelBatches

    return iter(PanelBatches(objective.valid, 10_000, shuffle=False))


@pytest.mark.filterwarnings("ignore:b lacks 16 values")
def test_training_does_not_change_the_regression(table, tmp_path):
    forecaster, dataset = built(table, epochs=1, lookback=14, model="recurrent")
    before = forecaster.model.highway.weight.clone()
    spread = forecaster.model.spread.detach().clone()
    forecaster.fit(dataset, tmp_path / "run")
    assert torch.equal(forecaster.model.highway.weight, before)
    assert not torch.equal(forecaster.model.spread, spread)


@pytest.mark.filterwarnings("ignore:b lacks 16 values")
def test_a_saved_correction_is_forecast_and_exported(table, tmp_path):
    forecaster, dataset = built(table, epochs=2, lr=0.01, lookback=14)
    forecaster.fit(dataset, tmp_path / "run")
    model = tt.load(tmp_path / "run", device="cpu")
    model.model.trust.fill_(0.5)
    model.export(tmp_path / "onnx")
    panel = read_series_panel(dataset)
    values = {one.unique_id: np.where(np.isnan(one.y), 0, one.y).tolist() for one in panel.series}
    ours, theirs = (
        each.forecast(values, h=7, level=[80]) for each in (model, load_runner(tmp_path / "onnx"))
    )
    for one, other in zip(ours, theirs, strict=True):
        assert other.mean == pytest.approx(one.mean, rel=1e-4)
        assert other.quantiles[0.9] == pytest.approx(one.quantiles[0.9], rel=1e-4)
        assert (one.quantiles[0.1] < one.mean).all()


def test_series_too_short_for_a_regression_train_a_map_with_the_network(tmp_path):
    path = tmp_path / "short.csv"
    path.write_text("y\n" + "".join(f"{math.sin(row):.4f}\n" for row in range(30)))
    forecaster, _ = built(path, horizon=8, valid_size=0, test_size=8, lookback=6)
    assert (forecaster.config.highway, forecaster.scaling.ridge) == ("trained", None)
    assert forecaster.model.highway.weight.requires_grad


@pytest.mark.parametrize("settings", [{"model": "linear"}, {"highway": "none"}, {"highway": "trained"}])
def test_what_needs_no_regression_fits_none(settings, table):
    given, _ = built(table, lookback=14, normalise="last", **settings)
    assert given.scaling.ridge is None
    chosen, _ = built(table, normalise="last", **settings)
    assert chosen.scaling.ridge.lookback == chosen.config.lookback
    assert chosen.config.highway == settings.get("highway", "ridge")
    [note] = chosen.build_objective(open_dataset(str(table))).notes
    assert f"Look-back {chosen.config.lookback}: " in note
    assert "corrects" not in note


@pytest.mark.parametrize(
    "head", [QuantileHead((0.1, 0.25, 0.5, 0.9)), GaussianHead(), StudentHead(), PointHead()]
)
def test_outputs_have_the_spread_of_errors(head):
    errors = torch.randn(3, 5000, generator=torch.Generator().manual_seed(0)) * torch.tensor(
        [[0.5], [1.0], [4.0]]
    )
    outputs = head.outputs_of(errors)
    assert outputs.shape == (3, head.width)
    assert (head.mean(outputs) == 0).all()
    distribution = OutputDistribution(head.settings())
    values = head.describe_values(outputs).detach().numpy()
    if isinstance(head, QuantileHead | GaussianHead):
        found = torch.from_numpy(distribution.quantiles(values, (0.1, 0.9)))
        expected = torch.quantile(errors, torch.tensor([0.1, 0.9]), dim=1)
        assert torch.allclose(found, expected, rtol=0.1, atol=0.05)
    if isinstance(head, StudentHead):
        [scale] = distribution.quantiles(values, (0.9,))
        assert (np.diff(scale) > 0).all()


@pytest.fixture(scope="module")
def outliers(tmp_path_factory):
    """Hours of two large series with a few values that are a thousand times as large."""
    draws, hours = np.random.default_rng(0), np.arange(260)
    path = tmp_path_factory.mktemp("outliers") / "outliers.csv"
    columns = []
    for level in (1e4, 7e4):
        values = level * (1 + 0.3 * np.sin(hours * 2 * np.pi / 24)) + draws.normal(0, 100, 260)
        values[draws.random(260) < 0.02] *= 1000
        columns.append(values)
    rows = zip(np.datetime64("2022-01-01T00") + hours, *columns, strict=True)
    lines = [f"{time}:00,{one:.1f},{two:.1f}" for time, one, two in rows]
    path.write_text("\n".join(["ds,a,b", *lines]) + "\n")
    return path


@pytest.mark.parametrize("scaling", ["standard", "none"])
@pytest.mark.parametrize("head", ["point", "quantiles", "gaussian", "student"])
@pytest.mark.parametrize("lr", [0.005, 1.0])
def test_no_rate_makes_a_head_nan(lr, head, scaling, outliers, tmp_path):
    settings = {"scaling": scaling, "lookback": 12, "horizon": 6, "epochs": 2, "batch_size": 64}
    forecaster, dataset = built(outliers, lr=lr, head=head, **settings)
    forecaster.fit(dataset, tmp_path / "run")
    lines = [*map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())]
    numbers = [value for line in lines for value in line.values() if isinstance(value, float)]
    assert numbers
    assert all(map(math.isfinite, numbers))
    assert not [line for line in lines if None in line.values() and line["kind"] == "valid"]
    assert all(np.isfinite(one.mean).all() for one in forecaster.forecast())


def test_of_very_many_windows_an_epoch_takes_some(table, monkeypatch):
    panel = read_series_panel(open_dataset(str(table)))
    config = ForecastConfig(data="x", lookback=14, hidden_size=8, model="mlp")
    assert config.complete(panel).stride == 1
    monkeypatch.setattr("throughtime.tasks.forecast.config.AFFORDABLE", 1e4)
    many = config.complete(panel)
    assert many.stride > 1
    assert many.epochs == 1
    assert many.complete(panel) == many
    given = {"epochs": 2}, {"minutes": 1}, {"stride": 1}
    assert {config.model_copy(update=each).complete(panel).stride for each in given} == {1}
