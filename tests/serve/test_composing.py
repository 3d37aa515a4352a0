"""/compose, and servers that cannot open all that they are given."""

from __future__ import annotations

import io
import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from starlette.testclient import TestClient
from tests.refusals import lacks, refuses
from tests.serve.conftest import SMALL, serving

from throughtime.data.datasets import open_dataset
from throughtime.serve.app import create_app
from throughtime.serve.cost import MAX_CHOICES
from throughtime.serve.models import Models, Served
from throughtime.serve.requests import Options
from throughtime.tasks.compose.config import ComposeConfig
from throughtime.tasks.compose.model import Composer
from throughtime.tasks.saved import SavedRun


def asked(client, **body):
    answer = client.post("/compose", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def refused(client, **body):
    answer = client.post("/compose", json=body)
    return answer.status_code, answer.json()["error"]


def test_a_seed_gives_the_same_texts_beside_other_requests(models, client):
    bodies = [
        {"label": label, "num_return_sequences": 2, "seed": 3, "max_new_tokens": 6}
        for label in ("animal", "music")
    ]
    alone = [asked(client, **body) for body in bodies]
    with (
        serving(models, Options(batch_wait=0.3)) as (_, address),
        httpx2.Client(base_url=address, timeout=20) as together,
        ThreadPoolExecutor() as threads,
    ):
        assert list(threads.map(lambda body: asked(together, **body), bodies)) == alone


def test_what_cannot_be_composed_is_one_sentence(client):
    code, told = refused(client)
    assert (code, lacks(told, "label", "vector")) == (400, [])
    assert refused(client, label="a", vector=[1])[0] == 400
    code, told = refused(client, label="musik")
    assert (code, lacks(told, "'musik'", "'music'")) == (400, [])
    assert not lacks(refused(client, vector=[1.0])[1], "vector:", "composer")
    _, told = refused(client, label="music", num_return_sequences=3, temperature=0)
    assert not lacks(told, "num_return_sequences:", "3", "greedy")
    code, told = refused(client, label="music", max_new_tokens=5_000)
    assert (code, lacks(told, "max_new_tokens", "5,000", "2,000")) == (400, [])
    assert refused(client, label=["music"] * 100, num_return_sequences=MAX_CHOICES)[0] == 413
    code, told = refused(client, label="music", model="letters")
    assert (code, lacks(told, "letters")) == (400, [])


@pytest.fixture
def vector_models(tmp_path):
    rows = ({"text": "the cat", "vector": [0, 1]}, {"text": "the dog", "vector": [1, 0]})
    (tmp_path / "described.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in rows * 10))
    config = ComposeConfig(data=str(tmp_path / "described.jsonl"), condition_size=4, **SMALL)
    return Models([Served("reports", "compose", Composer.create(config, open_dataset(config.data)))])


def test_vectors_have_the_size_of_the_model(vector_models):
    with TestClient(create_app(vector_models, Options(), log=io.StringIO())) as client:
        expected = {"name": "reports", "task": "compose", "abilities": ["compose"], "vector_size": 2}
        assert client.get("/models").json() == [expected]
        (one,) = asked(client, vector=[0.5, 1], max_new_tokens=2)
        assert isinstance(one["text"], str)
        assert len(asked(client, vector=[[0, 1], [1, 0]], num_return_sequences=2, max_new_tokens=2)) == 2
        code, told = refused(client, vector=[1])
        assert (code, lacks(told, "vector:", "1", "reports", "2")) == (400, [])
        assert not lacks(refused(client, label="x")[1], "label:", "reports", "2")


def damaged(run, folder):
    """A copy whose weights are torn."""
    shutil.copytree(run, folder)
    (folder / "model.safetensors").write_bytes(b"torn")
    return folder


def test_what_cannot_be_served_is_left_out(runs, tmp_path):
    strange = tmp_path / "strange"
    shutil.copytree(runs["composer"], strange)
    config = strange / "config.json"
    config.write_text(config.read_text().replace('"compose"', '"juggle"', 1))
    given = [damaged(runs["topics"], tmp_path / "torn"), runs["counted"], strange, tmp_path / "nowhere"]
    models = Models.open(given, "cpu", trust_changed=True)
    assert [one.name for one in models] == ["counted"]
    assert [one.name for one in models.left_out] == ["torn", "strange", "nowhere"]
    assert not lacks(models.left_out[0].reason, "model.safetensors:")
    assert not lacks(models.left_out[1].reason, "'juggle'")
    with TestClient(create_app(models, Options(), log=io.StringIO())) as client:
        assert client.get("/health").json() == {"status": "ok", "left_out": ["torn", "strange", "nowhere"]}
        assert [one["name"] for one in client.get("/models").json()] == ["counted"]


def test_a_failure_nobody_thought_of_leaves_one_model_out(runs, monkeypatch):
    load = SavedRun.load

    def broken(saved, device, **options):
        if saved.folder.path == runs["topics"]:
            raise RuntimeError("size mismatch\nfor weight")
        return load(saved, device, **options)

    monkeypatch.setattr(SavedRun, "load", broken)
    models = Models.open([runs["topics"], runs["counted"]], "cpu")
    [left_out] = models.left_out
    assert not lacks(left_out.reason, "RuntimeError", "size mismatch")
    assert "\n" not in left_out.reason


def test_where_nothing_is_left_all_reasons_are_told(runs, tmp_path):
    torn = damaged(runs["topics"], tmp_path / "torn")
    with refuses("torn", "model.safetensors"):
        Models.open([torn], "cpu")
    with refuses("2", "torn:", "nowhere:"):
        Models.open([torn, tmp_path / "nowhere"], "cpu")
