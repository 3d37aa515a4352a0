"""Laws of forecasters: trained model, export, server and page draw the same paths from a seed."""

from __future__ import annotations

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.browser.blocks import ask_model
from tests.browser.conftest import node as node
from tests.graphs import untrained

import throughtime as tt
from throughtime.api import export
from throughtime.serve.app import create_app
from throughtime.serve.models import Models
from throughtime.serve.requests import Options

MODELS = {
    "state, gaussian": {"model": "recurrent", "strategy": "recursive", "head": "gaussian", "cell": "lstm"},
    "state, student": {
        "model": "recurrent",
        "strategy": "recursive",
        "head": "student",
        "normalise": "standard",
    },
    "window, quantiles": {"model": "mlp", "strategy": "recursive", "normalise": "last"},
    "direct, quantiles": {"model": "segment", "segment": 5, "transform": "log"},
    "direct, gaussian": {"model": "mlp", "head": "gaussian", "normalise": "mean"},
    "direct, student": {"model": "linear", "head": "student"},
}
SERIES = {
    name: np.exp(np.sin(np.arange(50) / size) + size / 3)
    for name, size in (("north", 2.0), ("new", 3.0), ("south", 4.0))
}


def both(folder, paths=5, **settings):
    """A forecaster with its first weights, and its export."""
    run = untrained.forecaster(folder, lift=9.0, seed=2**53 + 11, paths=paths, **settings)
    export(run, folder / "exported")
    return run, tt.load(run, device="cpu"), tt.runtime.load(folder / "exported", threads=1)


def agree(first, second):
    return np.allclose(first, second, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_and_its_export_draw_the_same_paths(name, tmp_path):
    _, *models = both(tmp_path, **MODELS[name])
    found = {seed: [one.forecast(SERIES, paths=5, seed=seed) for one in models] for seed in (None, 3, -1)}
    for told, ours in found.values():
        for mine, theirs in zip(ours, told, strict=True):
            assert mine.samples.shape == theirs.samples.shape == (5, len(theirs.mean))
            assert agree(mine.samples, theirs.samples)
            assert mine.ds.tolist() == theirs.ds.tolist()
    seeds = [told[0].samples for told, _ in found.values()]
    assert not any(agree(seeds[first], seeds[second]) for first, second in ((0, 1), (0, 2), (1, 2)))


@pytest.mark.parametrize("name", MODELS)
def test_a_path_is_the_same_whatever_else_is_drawn(name, tmp_path, monkeypatch):
    for model in both(tmp_path, **MODELS[name])[1:]:
        many = model.forecast(SERIES, paths=6, seed=3)
        few = model.forecast(dict(list(SERIES.items())[:2]), paths=2, seed=3)
        for mine, theirs in zip(few, many, strict=False):
            assert agree(mine.samples, theirs.samples[:2])
        with monkeypatch.context() as patch:
            patch.setattr("throughtime.tasks.forecast.pipeline.ROWS_AT_ONCE", 6)  # one series after another
            for mine, theirs in zip(model.forecast(SERIES, paths=6, seed=3), many, strict=True):
                assert agree(mine.samples, theirs.samples)
        assert not agree(many[0].samples[0], many[0].samples[1])


@pytest.mark.parametrize("paths", [1, 7])
@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("direct")])
def test_the_server_and_a_page_draw_the_paths_of_the_model(name, paths, node, tmp_path):
    """The intervals of a recursive model are the quantiles of its paths: with one path, that path itself."""
    run, model, runner = both(tmp_path, paths=paths, **MODELS[name])
    body = {
        "series": [{"unique_id": name, "y": y.tolist()} for name, y in SERIES.items()],
        "h": 8,
        "level": [80],
    }
    with TestClient(create_app(Models.open([run], "cpu"), Options())) as client:
        server = client.post("/forecast", json=body).json()["forecasts"]
    [page] = ask_model(node, model, [("forecast", body)])
    answers = [one.forecast(SERIES, h=8, level=[80], paths=paths) for one in (model, runner)]
    for number, told in enumerate(zip(*answers, strict=True)):
        expected = {"lo": 0.1, "hi": 0.9}
        for end, probability in expected.items():
            drawn = np.quantile(told[0].samples, probability, axis=0)
            found = [one.quantiles[probability] for one in told]
            found += [answer[number]["intervals"]["80"][end] for answer in (server, page["forecasts"])]
            assert all(agree(each, drawn) for each in found)
