"""Ten lines, five pairs and twenty values: batches, steps, splits and horizons follow the data."""  # R132

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.refusals import refuses

import throughtime as tt
from throughtime.data.panel import Panel, Series
from throughtime.fit.config import TrainingConfig
from throughtime.run import Training
from throughtime.tasks.forecast.config import ForecastConfig
from throughtime.tasks.language.config import LanguageConfig

LINES = ["the cat sleeps", "a dog barks", "a bird sings", "she sees a dog", "he sees the cat"] * 2
TASKS = {
    "language": lambda lines: lines,
    "ngram": lambda lines: lines,
    "fill": lambda lines: lines,
    "translate": lambda lines: [(line, line.upper()) for line in lines],
    "classify": lambda lines: [(line, line.split()[-1]) for line in lines],
    "compose": lambda lines: [(line.split()[-1], line) for line in lines],
    "tag": lambda lines: [(line.split(), ["X"] * len(line.split())) for line in lines],
}
VALUES = [float(3 * step % 7 + step) for step in range(20)]


def rows_of(values):
    return [{"unique_id": "sales", "ds": step, "y": value} for step, value in enumerate(values)]


@pytest.mark.parametrize("count", [2, 5, 10])
@pytest.mark.parametrize("task", TASKS)
def test_few_records_train_a_model(task, count):
    brief = {} if task == "ngram" else {"epochs": 1, "seed": 1}
    model = tt.train(task, TASKS[task](LINES[:count]), progress="none", **brief)
    assert model.evaluate(split="all").values


@pytest.mark.parametrize(
    ("count", "horizon", "valid", "test"),
    [(2, 1, 0, 0), (3, 1, 0, 1), (4, 1, 1, 1), (20, 4, 4, 4), (39, 7, 7, 7), (40, 10, 10, 10)],
)
def test_a_short_series_has_a_short_horizon_and_as_many_splits_as_fit(count, horizon, valid, test):
    model = tt.train("forecast", rows_of(map(float, range(count))), progress="none", epochs=1)
    config = model.config
    assert (config.horizon, config.valid_size, config.test_size) == (horizon, valid, test)
    assert len(model.forecast()[0].mean) == horizon
    if test:
        assert model.evaluate(split="test")["windows"] == 1
    if count > 3:
        assert 1 <= model.backtest().rolling.n_windows <= 8


@pytest.mark.parametrize(
    ("rows", "horizon", "held"), [(200, 5, 20), (200, 30, 30), (200, 50, 50), (1_000, 5, 100)]
)
def test_of_a_longer_series_a_tenth_validates_and_a_tenth_tests(rows, horizon, held):
    panel = Panel((Series.of("s", np.random.default_rng(0).normal(size=rows)),), None)
    config = ForecastConfig(data="x", horizon=horizon).divide(panel)
    assert (config.valid_size, config.test_size) == (held, held)


def test_a_forecaster_by_default_stops_when_nothing_improves_and_otherwise_does_what_was_said(tmp_path):
    noise = rows_of([float(value) for value in np.random.default_rng(0).normal(size=60)])
    epochs = {}
    for name, settings in {"default": {}, "given": {"epochs": 25}}.items():
        out = tmp_path / name
        tt.train("forecast", noise, progress="none", hidden_size=4, out=str(out), **settings)
        reports = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
        epochs[name] = [report["epoch"] for report in reports if report["kind"] == "valid"]
    assert 20 < epochs["default"][-1] < 100
    assert epochs["given"][-1] == 25


def test_a_horizon_that_is_given_takes_held_out_rows_only_where_a_window_is_left():
    model = tt.train("forecast", rows_of(VALUES), progress="none", epochs=1, horizon=8)
    assert (model.config.horizon, model.config.valid_size, model.config.test_size) == (8, 0, 8)
    with refuses("horizon", 20, 21):
        tt.train("forecast", rows_of(VALUES), progress="none", horizon=20)


@pytest.mark.parametrize(
    ("config", "rows", "given", "chosen"),
    [
        (TrainingConfig(), 10_000, {}, {}),
        (TrainingConfig(), 80, {}, {"batch_size": 10, "epochs": 25}),
        (TrainingConfig(), 3, {}, {"batch_size": 1, "epochs": 67}),
        (TrainingConfig(), 3, {"batch_size", "epochs"}, {}),
        (TrainingConfig(minutes=1), 3, {}, {"batch_size": 1}),
        (LanguageConfig(data="x", batch_size=16), 10_000, {}, {}),
        (LanguageConfig(data="x", batch_size=16), 450, {}, {"batch_size": 1}),
        (LanguageConfig(data="x", batch_size=16), 49, {}, {"num_steps": 6, "batch_size": 1, "epochs": 25}),
        (LanguageConfig(data="x", batch_size=4), 49, {"batch_size"}, {"num_steps": 12, "epochs": 200}),
        (LanguageConfig(data="x", batch_size=16), 49, {"num_steps", "epochs"}, {"batch_size": 1}),
        (
            ForecastConfig(data="x", horizon=4, valid_size=4, test_size=4),
            0,
            {},
            dict.fromkeys(("horizon", "valid_size", "test_size"), 4),
        ),
        (
            ForecastConfig(data="x", horizon=8, valid_size=0, test_size=8),
            0,
            {"horizon"},
            {"valid_size": 0, "test_size": 8},
        ),
        (ForecastConfig(data="x", horizon=10, valid_size=10, test_size=10), 0, {}, {}),
        (ForecastConfig(data="x", horizon=4, valid_size=99, test_size=0), 0, {"horizon", "test_size"}, {}),
    ],
)
def test_batches_and_epochs_follow_few_data_unless_they_are_given(config, rows, given, chosen):
    assert config.suit_few(rows, given) == chosen


def test_a_line_says_what_was_chosen_and_a_trained_model_continues_on_few_lines(tmp_path):
    lines = ["the cat sleeps", "a dog barks"] * 400
    small = {"epochs": 1, "hidden_size": 8, "data": lines}
    Training("language", small, tmp_path / "base", progress="none").start()
    tuned = Training(
        "language",
        {"data": LINES, "epochs": 1},
        tmp_path / "tuned",
        init_from=tmp_path / "base",
        progress="none",
    )
    tuned.start()
    assert tuned.model.config.batch_size == 1
    assert any("batch_size=1" in note and "num_steps" in note for note in tuned.notes)


def test_a_classifier_says_which_split_has_a_single_label():
    with refuses("split train", "'good'", "two"):
        tt.train("classify", [("fine", "good"), ("bright", "good")], progress="none")


def test_a_text_of_one_token_is_refused():
    with refuses("split train", 1, 2):
        tt.train("language", ["word"], layout="stream", progress="none")
