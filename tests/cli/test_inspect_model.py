"""`throughtime inspect RUN "sentence"`: the issue's own line, beside the commands of `inspect`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.refusals import lacks

from throughtime.data.datasets import open_dataset
from throughtime.search.strategies import STRATEGIES
from throughtime.tasks.language.config import LanguageConfig
from throughtime.tasks.language.model import RecurrentLanguage
from throughtime.tasks.ngram.config import NgramConfig
from throughtime.tasks.ngram.model import NgramLanguageModel
from throughtime.tasks.translate.config import TranslateConfig
from throughtime.tasks.translate.model import Translator

PLAIN = {"device": "cpu", "precision": "float32"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of an untrained translator and an untrained language model."""
    out = tmp_path_factory.mktemp("runs")
    pairs = out / "pairs.tsv"
    pairs.write_text("one two\tun deux\nthree\ttrois\n" * 10)
    pairs.with_suffix(".txt").write_text("one two\nthree\n" * 10)
    text = open_dataset(str(pairs.with_suffix(".txt")))
    sizes = {"embedding_size": 12, "hidden_size": 12}
    translator = Translator.create(
        TranslateConfig(
            data=str(pairs), tokens="space", source="en", target="fr", num_beams=2, **sizes, **PLAIN
        ),
        open_dataset(str(pairs), source="en", target="fr"),
    )
    dataset = open_dataset("embedded/english")
    config = LanguageConfig(data="embedded/english", tokens="char", num_layers=2, **sizes, **PLAIN)
    plain = config.model_copy(update={"cell": "rnn"})
    one_vector = TranslateConfig(
        **{**translator.config.model_dump(), "structure": "state-only", "tied": False}
    )
    models = {
        "en-fr": translator,
        "one-vector": Translator.create(one_vector, open_dataset(str(pairs), source="en", target="fr")),
        "english": RecurrentLanguage.create(config, dataset),
        "plain": RecurrentLanguage.create(plain, dataset),
    }
    config = NgramConfig(data=str(pairs.with_suffix(".txt")), order=2)
    NgramLanguageModel.create(config, text).count(text).save(out / "counted")
    for name, model in models.items():
        model.save(out / name)
    return out


@pytest.mark.parametrize("view", ["attention", "beam", "gates", "embedding"])
def test_each_view_is_drawn_and_told(throughtime, runs, tmp_path, view):
    picture = tmp_path / "out.png"
    ran = throughtime("inspect", runs / "en-fr", "one two", f"--{view}", "--plot", picture)
    assert ran.code == 0, ran.err
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "wrote" in ran.err
    assert ran.out.strip()


def test_what_machines_read(throughtime, runs):
    found = throughtime("inspect", runs / "en-fr", "one two", "--attention", "--json").json
    assert found["alignment"]["source"] == ["one", "two", "⟨end⟩"]
    tree = throughtime("inspect", runs / "en-fr", "one two", "--beam", "--num-beams", 3, "--json").json
    assert tree["width"] == 3
    assert {"kept", "cut"} <= {node["status"] for node in tree["nodes"]}
    layers = throughtime("inspect", runs / "english", "one", "--gates", "--json").json["layers"]
    assert [layer["name"] for layer in layers] == ["layer 1", "layer 2"]
    assert len(layers[0]["values"]["f"]) == layers[0]["all_units"] == 12
    near = throughtime("inspect", runs / "english", "one", "--embedding", "--neighbours", 2, "--json").json
    assert [len(one["nearest"]) for one in near["neighbours"]] == [2, 2, 2]


@pytest.mark.parametrize("run", ["en-fr", "english", "counted"])
def test_all_searches_side_by_side(throughtime, runs, run):  # R100, R101, R102
    words = ("inspect", runs / run, "one two", "--searches", "--max-length", 2, "--num-beams", 2)
    found = throughtime(*words, "--json").json
    assert [row["search"] for row in found["rows"]] == list(STRATEGIES)
    assert (found["max_length"], found["seed"]) == (2, 0)
    shown = throughtime(*words)
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    for row in found["rows"]:
        [line] = [line for line in lines if line.startswith(f"{row['search']} ")]
        assert f"{row['hypotheses']:,}" in line.split()
        assert row["steps"] > 0
        assert row["text"] is None or f"{row['log_prob']:.2f}".replace("-", "−") in line.split()
    long = throughtime("inspect", runs / run, "one two", "--searches").out
    [line] = [line for line in long.splitlines() if line.startswith("exhaustive ")]
    assert "cannot run" in line


def test_an_unknown_script_is_pointed_out(throughtime, runs):  # R120
    ran = throughtime("inspect", runs / "en-fr", "今天", "--searches", "--json")
    assert [one for one in ran.json["warnings"] if "Chinese" in one]
    assert ran.err.count("\n") == 1


def test_options_may_come_first_and_the_command_may_be_named(throughtime, runs):
    first = throughtime("inspect", "--gates", runs / "english", "one", "--json")
    named = throughtime("inspect", "model", runs / "english", "one", "--gates", "--json")
    assert first.code == named.code == 0
    assert first.json == named.json


def test_one_layer_with_all_its_gates(throughtime, runs, tmp_path):
    words = ["inspect", runs / "english", "one", "--gates", "--layer"]
    assert throughtime(*words, 2, "--plot", tmp_path / "g.svg").code == 0
    ran = throughtime(*words, 3)
    assert ran.code == 2
    assert not lacks(ran.err, "--layer:", "3", "2")


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["{english}", "one"], ("--searches", "--gates", "--embedding")),
        (["{english}"], ("--searches", "--gates", "--embedding")),
        (["{en-fr}"], ("--attention", "--beam", "--searches", "--gates", "--embedding")),
        (["{en-fr}", "one", "--gates", "--beam"], ("--beam", "--gates")),
        (["{english}", "one", "--beam"], ("english:", "--searches", "--gates", "--embedding")),
        (["{plain}", "one", "--gates"], ("plain:", "--searches", "--embedding")),
        (["{one-vector}", "one", "--attention"], ("one-vector:", "--beam", "--searches", "--gates")),
        (["{counted}", "one", "--gates"], ("counted:", "--searches")),
        (["{english}", "--gates"], ("english", "--gates`")),
        (["{english}", "one", "--gates", "--plot", "g.gif"], ("g.gif:",)),
        (["{en-fr}", "", "--attention"], ("sentence:",)),
        (["{en-fr}", "one", "--gates", "--num-beams", "2"], ("--num-beams:", "--beam", "--searches")),
        (["{en-fr}", "one", "--beam", "--max-length", "2"], ("--max-length:", "--searches")),
        (["{en-fr}", "one", "--searches", "--plot", "g.png"], ("--plot:", "--attention", "--beam")),
        (["{en-fr}", "", "--searches"], ("sentence:",)),
        (["nowhere", "one", "--gates"], ("nowhere:",)),
        (["gradientz"], ("'gradientz'",)),
    ],
)
def test_mistakes_get_one_sentence(throughtime, runs, words, facts):
    ran = throughtime("inspect", *(word.replace("{", f"{runs}/").replace("}", "") for word in words))
    assert ran.code == 2
    assert not lacks(ran.err, *facts)
    assert len(ran.err.strip().splitlines()) == 1


VIEWS = ("--attention", "--beam", "--searches", "--gates", "--embedding")


@pytest.mark.parametrize(
    ("run", "offered"),
    [
        ("en-fr", VIEWS),
        ("one-vector", VIEWS[1:]),
        ("english", VIEWS[2:]),
        ("plain", ("--searches", "--embedding")),
        ("counted", ("--searches",)),
    ],
)
def test_help_for_a_run_offers_the_views_of_its_model(throughtime, runs, run, offered):
    told = throughtime("inspect", runs / run, "--help").out
    assert [view for view in VIEWS if f" {view}  " in told] == list(offered)
    assert ("--num-beams" in told) == ("--searches" in offered)
    assert ("--plot" in told) == (run != "counted")
    assert ("--layer" in told) == ("--gates" in offered)
    assert ("--side" in told) == ("--embedding" in offered)
    general = throughtime("inspect", "model", "--help").out
    assert [view for view in VIEWS if f" {view}  " in general] == list(VIEWS)


def test_a_folder_with_the_name_of_a_near_command_is_a_run(throughtime, runs, monkeypatch):
    monkeypatch.chdir(runs)
    Path("graphs").symlink_to("english")
    assert throughtime("inspect", "graphs", "one", "--gates").code == 0
