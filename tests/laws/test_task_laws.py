"""Every list of tasks derives from the declarations: a task of another package is in all of them."""

from __future__ import annotations

import json
import typing

import pytest
from tests.extending.test_extending import PACKAGE, POINTS, install
from tests.forked import run_forked
from tests.tiny import tiny_data

import throughtime as tt
from throughtime.tasks import TASKS

LISTS = """
import json, sys
import typer
import throughtime as tt
from fastapi.testclient import TestClient
from throughtime.cli.main import app
from throughtime.cli.train import train_app
from throughtime.serve.app import create_app
from throughtime.serve.models import Models
from throughtime.tasks import TASKS, list_methods

data, run, exported = sys.argv[1:]
settings = {"hidden_size": 4, "epochs": 1, "device": "cpu", "quiet": True}
model = tt.train(TASKS["wordcount"], data, out=run, **settings)
loaded = tt.load(run, device="cpu", task=TASKS["wordcount"])
tt.export(run, exported)
texts = ["one two", "three"]
client = TestClient(create_app(Models.open([__import__("pathlib").Path(run)], device="cpu")))
commands = [typer.main.get_command(one).list_commands(None) for one in (app, train_app)]
print(json.dumps({
    "tasks": list(TASKS),
    "commands": commands[0],
    "trains": commands[1],
    "methods": list_methods()["count_words"],
    "examples": model.examples,
    "trained": loaded.count_words(texts),
    "exported": tt.runtime.load(exported).count_words(texts),
    "served": client.post("/count", json={"q": texts}).json(),
    "twice": client.post("/count", json={"q": texts, "times": 2}).json(),
    "refused": client.post("/count", json={"q": texts, "time": 2}).json(),
    "models": client.get("/models").json(),
    "docs": client.get("/docs").text,
}))
"""


@pytest.fixture(scope="module")
def lists(tmp_path_factory):
    """What each list says of the task of the outside package."""
    folder = tmp_path_factory.mktemp("lists")
    paths = [install(folder / "site", "outside", POINTS), PACKAGE]
    data = tiny_data(folder)["ngram"]
    ran = run_forked(LISTS, data, folder / "run", folder / "exported", path=tuple(paths))
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_commands_train_it_and_use_it(lists):
    assert "wordcount" in lists["tasks"]
    assert "wordcount" in lists["trains"]
    assert "count" in lists["commands"]


def test_models_know_its_method(lists):
    assert lists["methods"] == ["wordcount"]


def test_its_models_have_examples_to_try(lists):
    assert lists["examples"]


def test_its_export_answers_like_the_trained_model(lists):
    assert lists["exported"] == pytest.approx(lists["trained"], abs=1e-4)


def test_a_server_answers_with_its_options_and_refuses_others(lists):
    assert lists["served"]["results"] == pytest.approx(lists["trained"], abs=1e-4)
    assert lists["twice"]["results"] == pytest.approx([2 * one for one in lists["trained"]], abs=1e-4)
    assert "times" in lists["refused"]["error"]


def test_clients_and_the_page_learn_what_it_can_do(lists):
    [described] = lists["models"]
    assert (described["task"], described["abilities"][0]) == ("wordcount", "count")
    assert described["method"] == "count_words"
    assert described["examples"] == lists["examples"]


def test_the_docs_of_a_server_show_how_to_call_it(lists):
    assert "POST /count" in lists["docs"]
    assert "how many words?" in lists["docs"]


@pytest.mark.parametrize("function", [tt.load, tt.train])
def test_type_checkers_know_the_models_of_all_own_tasks_and_of_declared_ones(function):
    kinds = [one.__annotations__["task"] for one in typing.get_overloads(function)]
    named = [kind[len('Literal["') : -2] for kind in kinds if kind.startswith("Literal")]
    assert sorted(named) == sorted(TASKS.own)
    assert "type[Task[Trained]]" in kinds
