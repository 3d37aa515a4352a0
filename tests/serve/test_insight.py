"""What the page asks to see, over the routes it uses."""

from __future__ import annotations

import io
import json
import shutil
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.refusals import lacks

from throughtime.folder import ModelFolder
from throughtime.series.panels import load_history
from throughtime.serve.app import create_app
from throughtime.serve.models import Models
from throughtime.serve.requests import Options


@pytest.fixture(scope="module")
def client(models):
    with TestClient(create_app(models, Options(), log=io.StringIO())) as found:
        yield found


def told(client: TestClient, path: str, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_attention_is_shown_from_scores_to_weights(client):
    found = told(client, "/inspect/attention", q="the cat sleeps")
    (part,) = found["parts"]
    assert (part["source"], part["translations"]) == ("the cat sleeps", found["translations"])
    (one,) = found["translations"]
    steps, end = one["steps"], ["⟨end⟩"] if one["ended"] else []
    assert steps["source"][-1] == "⟨end⟩"
    assert "".join(steps["target"]) == "".join([one["text"], *end])
    assert len(steps["weights"]) == len(steps["target"])
    for scores, weights in zip(steps["scores"], steps["weights"], strict=True):
        powers = np.exp(np.array(scores))
        assert weights == pytest.approx(powers / powers.sum(), abs=1e-4)
    assert np.ptp(steps["scores"]) > 0


def test_every_part_of_a_long_text_has_its_own_attention(client):
    text = "the cat sleeps . " * 12
    found = told(client, "/inspect/attention", q=text, alternatives=1)
    assert len(found["parts"]) > 1
    assert " ".join(part["source"] for part in found["parts"]) == text.strip()
    best = [part["translations"][0] for part in found["parts"]]
    assert " ".join(one["text"] for one in best) == found["translations"][0]["text"]
    assert all(len(one["steps"]["source"]) < 60 for one in best)
    assert found["translations"][0]["steps"] is None
    assert found["translations"][0]["alignment"] is None
    assert all(one["alignment"]["source"][-1] == "⟨end⟩" for one in best)


def test_a_search_is_forced_and_forbidden(client):
    usual = told(client, "/inspect/beam", q="the cat sleeps")
    first = next(node for node in usual["nodes"] if node["best"])["piece"]
    other = next(node for node in usual["nodes"] if node["step"] == 1 and node["status"] == "cut")["piece"]
    for path in ("/inspect/beam", "/inspect/attention"):
        forced = told(client, path, q="the cat sleeps", prefix=other)
        assert forced.get("results", forced.get("translations"))[0]["text"].startswith(other)
        without = told(client, path, q="the cat sleeps", forbid=[first])
        assert first not in without.get("results", without.get("translations"))[0]["text"]
    assert {node["piece"] for node in told(client, "/inspect/beam", q="a", prefix=other)["nodes"][:1]} == {
        other
    }


def test_the_tree_of_a_search(client):
    found = told(client, "/inspect/beam", q="a bird", num_beams=3)
    assert found["width"] == 3
    assert {node["status"] for node in found["nodes"]} >= {"kept", "cut"}
    assert all(node["reason"] for node in found["nodes"])
    for node in found["nodes"]:
        assert node["parent"] is None or found["nodes"][node["parent"]]["step"] == node["step"] - 1


@pytest.mark.parametrize("model", ["letters", "en-fr", "blanks", "tags", "topics"])
def test_gates_of_every_model_that_reads_text(client, model):
    found = told(client, "/inspect/gates", q="the cat", model=model, units=4)
    assert len(found["units"]) == 4 <= found["all_units"]
    lives = found["half_lives"]
    assert lives == sorted(lives, reverse=True)
    for values in found["values"].values():
        assert (len(values), len(values[0])) == (4, len(found["tokens"]))
    last = len(found["layers"]) - 1
    assert (
        told(client, "/inspect/gates", q="the cat", model=model, layer=last)["name"]
        == found["layers"][-1]["name"]
    )


@pytest.mark.parametrize("model", ["letters", "counted"])
def test_the_next_token(client, model):
    found = told(client, "/inspect/next", q="the cat", model=model, k=3)
    assert len(found["expected"]) == 3
    assert "".join(one["piece"] for one in found["read"]).strip() == "the cat"
    assert all(one["bits"] >= 0 for one in found["read"])
    assert told(client, "/inspect/next")["read"] == []


def test_a_forecaster_tells_its_own_history(client):
    found = told(client, "/inspect/history", rows=20)
    assert len(found["y"]) == len(found["ds"]) == 20
    again = {"unique_id": found["unique_id"], "ds": found["ds"], "y": found["y"]}
    assert told(client, "/forecast", series=[again], h=2)["forecasts"][0]["mean"]


def test_examples_are_texts_of_the_data_for_servers_without_keys(client, runs):
    listed = {one["name"]: one for one in client.get("/models").json()}
    assert {*listed["en-fr"]["examples"]} - {"the cat sleeps", "the dog sees", "a bird"} == set()
    assert {one.count("___") for one in listed["blanks"]["examples"]} == {1}
    assert "examples" not in listed["waves"]
    models = Models.open([runs["en-fr"]], "cpu")
    with TestClient(create_app(models, Options(api_key="secret"), log=io.StringIO())) as locked:
        assert "examples" not in locked.get("/models").json()[0]


def test_a_history_is_that_of_the_folder(runs, tmp_path):
    run, data = tmp_path / "run", tmp_path / "series.csv"
    shutil.copytree(runs["waves"], run)
    data.write_text("y\n1\n2\nmuch\n3\n")
    config = json.loads((run / "config.json").read_text())
    config["config"]["data"] = str(data)
    (run / "config.json").write_text(json.dumps(config))
    expected = load_history(ModelFolder(run)).series[0].y[-3:].tolist()
    with TestClient(
        create_app(Models.open([run], trust_changed=True), Options(), log=io.StringIO())
    ) as client:
        assert told(client, "/inspect/history", rows=3)["y"] == expected


@pytest.mark.parametrize(
    ("path", "body", "status", "facts"),
    [
        ("attention", {"q": "a bird", "model": "nobody"}, 404, ("'nobody'",)),
        (
            "attention",
            {"q": "a bird", "model": "letters"},
            400,
            ("letters",),
        ),
        ("beam", {"q": " "}, 400, ("sentence",)),
        ("beam", {"q": "a bird", "num_beams": 0}, 400, ("num_beams",)),
        ("beam", {"q": "a bird", "prefix": " "}, 400, ("prefix",)),
        ("beam", {"q": "a bird", "forbid": ["x"] * 21}, 400, ("forbid", "20")),
        ("attention", {"q": "a bird", "forbid": [""]}, 400, ("forbid",)),
        ("attention", {"q": "a bird", "prefix": "x" * 201}, 400, ("prefix", "200")),
        ("attention", {"q": "a cat . " * 99, "prefix": "le"}, 400, ("prefix", "parts")),
        (
            "gates",
            {"q": "the", "model": "waves"},
            400,
            ("waves",),
        ),
        ("gates", {"q": "the", "model": "letters", "layer": 9}, 400, ("layer", "9", "1")),
        ("gates", {"q": "x" * 3000}, 400, ("2000",)),
        ("next", {"q": "the", "model": "en-fr"}, 400, ("en-fr",)),
        ("history", {"model": "en-fr"}, 400, ("en-fr",)),
    ],
)
def test_refusals_are_one_sentence(client, path, body, status, facts):
    answer = client.post(f"/inspect/{path}", json=body)
    assert answer.status_code == status
    assert not lacks(answer.json()["error"], *facts)
