"""Isolated outliers are found and read as missing; what heavy tails, patterns and shifts bring is not."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from tests.browser.answers import differences
from tests.browser.blocks import ask_model
from tests.browser.conftest import node as node

import throughtime as tt
from throughtime.data.panel import DAY, Frequency, Panel, Series
from throughtime.errors import ThroughtimeWarning
from throughtime.series.notes import describe_outliers
from throughtime.series.outliers import clean_panel

ROWS = np.arange(300)


def found(y, frequency=None, known=None):
    series = Series.of("a", y)
    series = series if known is None else replace(series, known=np.asarray(known, float)[:, None])
    [cleaned] = clean_panel(Panel((series,), frequency)).series
    return np.flatnonzero(np.isnan(cleaned.y) & ~np.isnan(series.y)).tolist()


def draw_usual(name, dice):
    """A series without an outlier."""
    noise, spikes = dice.normal(size=300), dice.random(300)
    return {
        "normal": lambda: noise,
        "a random walk": noise.cumsum,
        "heavy tails": lambda: dice.standard_t(4, 300),
        "seasonal": lambda: 10 * (ROWS % 24 == 18) + 0.3 * noise,
        "skewed": lambda: dice.lognormal(0, 1, 300),
        "promotions": lambda: 100 + 8 * noise + (spikes < 0.05) * dice.uniform(30, 200, 300),
        "counts": lambda: dice.negative_binomial(0.5, 0.2, 300).astype(float),
        "rare demand": lambda: (spikes < 0.1) * dice.lognormal(1, 1, 300).round(),
        "a shift": lambda: noise + 100 * (dice.integers(3, 298) <= ROWS),
        "short": lambda: dice.lognormal(0, 0.5, 20),
    }[name]()


@pytest.mark.parametrize(
    "name",
    "normal,a random walk,heavy tails,seasonal,skewed,promotions,counts,rare demand,a shift,short".split(","),
)
def test_usual_series_have_no_outliers(name):
    dice = np.random.default_rng(5)
    alarms = sum(bool(found(draw_usual(name, dice))) for _ in range(400))
    assert alarms <= 2  # half a per cent
    y = draw_usual(name, dice)
    y[137 % len(y)] = 1e6
    assert found(y) == [137 % len(y)]


@pytest.mark.parametrize("row", [0, 1, 150, 298, 299])
@pytest.mark.parametrize("value", [1e6, -1e6, 40.0])
def test_an_outlier_is_found_wherever_it_is(row, value):
    y = np.random.default_rng(1).normal(size=300)
    y[row] = value
    assert found(y) == [row]
    y[(row + 40) % 300] = -value
    assert found(y) == sorted([row, (row + 40) % 300])


def test_what_comes_again_or_is_announced_is_no_outlier():
    y = 100 + np.random.default_rng(1).normal(size=800)
    y[[300, 665]] = 300.0
    assert found(y) == [300, 665]
    assert found(y, Frequency(DAY, "second")) == []  # a year apart
    assert found(y, known=np.isin(np.arange(800), [300, 665])) == []
    y[[100, 200, 300, 400, 500, 600, 665]] = 300.0
    y[665] = 100.0
    assert found(y) == []
    assert found(np.full(50, 7.0)) == []
    assert found(np.append(np.zeros(50), 1.0)) == []


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Forecasters of a plain series, of one with an outlier, and of that as it is."""
    folder = tmp_path_factory.mktemp("outliers")
    y = 11 + np.random.default_rng(3).normal(size=200)
    tables = {"plain": y, "outlier": y.copy()}
    tables["outlier"][120] = 1e6
    models = {}
    for name, values in tables.items():
        (folder / f"{name}.csv").write_text("y\n" + "".join(f"{value!r}\n" for value in values.tolist()))
        for outliers in ("replace", "keep"):
            settings = {"epochs": 1, "lookback": 20, "horizon": 3, "device": "cpu", "outliers": outliers}
            run = folder / f"{name}-{outliers}"
            told = name == "outlier" and outliers == "replace"
            with pytest.warns(ThroughtimeWarning, match="outlier") if told else nullcontext():
                data = folder / f"{name}.csv"
                models[name, outliers] = tt.train("forecast", data=data, out=run, **settings)
    return models


def test_an_outlier_changes_neither_forecasts_nor_intervals_nor_scores(runs):
    kept = runs["outlier", "keep"].forecast(level=[80])[0]
    plain, robust = (runs[name, "replace"].forecast(level=[80])[0] for name in ("plain", "outlier"))
    assert np.abs(robust.mean - plain.mean).max() < 0.3
    widths = [each.quantiles[0.9] - each.quantiles[0.1] for each in (plain, robust, kept)]
    assert np.abs(widths[1] / widths[0] - 1).max() < 0.25
    assert widths[2].min() > 50 * widths[0].max()
    scores = [
        runs[name, "replace"].backtest(n_windows=8).figures[0].total["mae"] for name in ("plain", "outlier")
    ]
    assert scores[1] < 1.2 * scores[0]


def test_an_outlier_is_told_by_series_time_and_value(runs):
    model = runs["outlier", "replace"]
    [note] = describe_outliers(model.history, model.scaling)
    assert note.startswith("outlier: the value 1e+06 at 120 is an outlier")
    assert describe_outliers(runs["outlier", "keep"].history, runs["outlier", "keep"].scaling) == []


@pytest.mark.parametrize("outliers", ["replace", "keep"])
def test_model_export_and_page_read_outliers_alike(runs, outliers, node, tmp_path):
    model = runs["plain", outliers]
    model.export(tmp_path / "exported")
    runner = tt.runtime.load(tmp_path / "exported")
    dice = np.random.default_rng(2)
    series = {"plain": 11 + dice.normal(size=80), "new": dice.lognormal(0, 1, 60)}
    series["plain"][70] = series["new"][50] = 1e6
    body = {"series": [{"unique_id": name, "y": y.tolist()} for name, y in series.items()], "level": [80]}
    [page] = ask_model(node, model, [("forecast", body)], "float32")
    answers = [each.forecast(series, level=[80]) for each in (model, runner)]
    for mine, theirs, paged in zip(*answers, page["forecasts"], strict=True):
        np.testing.assert_allclose(mine.mean, theirs.mean, rtol=1e-4)
        told = {"unique_id": mine.unique_id, "mean": mine.mean.tolist()}
        assert not differences({key: paged[key] for key in told}, told, 1e-3)
        assert (mine.mean.max() < 100) == (outliers == "replace")
        assert mine.quantiles[0.1].min() >= 0
        assert min(paged["intervals"]["80"]["lo"]) >= 0
    panel = Panel(tuple(Series.of(name, y) for name, y in series.items()), None)
    assert page["notes"] == describe_outliers(panel, model.scaling)
    assert json.loads((tmp_path / "exported" / "export.json").read_text())
