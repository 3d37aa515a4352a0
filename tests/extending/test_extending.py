"""An outside package adds one of each kind with one file and one line, used from the command line."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from tests.forked import run_forked
from tests.refusals import lacks
from tests.tiny import tiny_data, training

PACKAGE = Path(__file__).parent / "package"
PROJECT = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
POINTS = PROJECT["entry-points"]
KINDS = "cells strategies attentions tokenizers readers smoothings measures networks tasks".split()


def install(place, name, points):
    """Write what an installer writes beside a package, so that its entry points are found."""
    folder = place / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
        for group, entries in points.items()
    ]
    (folder / "entry_points.txt").write_text("\n".join(groups))
    return place


class Outcome:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out)


def run(paths, *words, code=None):
    """The command (or a program) in a process of its own that has these packages installed."""
    return Outcome(
        run_forked(code or "from throughtime.cli.main import run; run()", *words, path=tuple(paths))
    )


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """Run the command with the outside package installed; a failure is shown."""
    paths = [install(tmp_path_factory.mktemp("site"), "outside", POINTS), PACKAGE]

    def call(*words, code=None):
        ran = run(paths, *words, code=code)
        assert ran.code == 0, ran.err
        return ran

    return call


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def translator(outside, data, tmp_path_factory):
    """A translator of data that the new reader reads, with the new attention and the new tokenizer."""
    folder = tmp_path_factory.mktemp("translator")
    pairs = folder / "pairs.arrows"
    pairs.write_text(data["translate"].read_text().replace("\t", " -> "))
    options = {"attention": "cosine", "tokens": "shout", "epochs": 1}
    outside(*training("translate", pairs, folder / "run", **options))
    return folder / "run"


def test_each_kind_takes_one_file_and_one_line():
    assert sorted(POINTS) == sorted(f"throughtime.{kind}" for kind in KINDS)
    modules = []
    for group, entries in POINTS.items():
        [place] = entries.values()
        module = PACKAGE / place.partition(":")[0].replace(".", "/")
        assert module.is_dir() if group == "throughtime.tasks" else module.with_suffix(".py").is_file()
        modules.append(module)
    files = {file for file in (PACKAGE / "outside").rglob("*.py") if file.parent not in modules}
    assert files == {
        PACKAGE / "outside/__init__.py",
        *(m.with_suffix(".py") for m in modules if not m.is_dir()),
    }


def test_a_cell_is_trained_inspected_and_exported(outside, data, tmp_path):
    outside(*training("language", data["language"], tmp_path / "run", epochs=1), "--cell", "leaky")
    outside("generate", tmp_path / "run", "--max-new-tokens", "3", "--seed", "1")
    outside("export", tmp_path / "run", "--out", tmp_path / "onnx", "--json")
    code = f"""
import sys, throughtime as tt
runner = tt.runtime.load({str(tmp_path / "onnx")!r})
assert not [name for name in sys.modules if name.startswith("throughtime.fit")]
text = ["one two three"]
trained = tt.load({str(tmp_path / "run")!r}).score(text)[0]
assert abs(runner.score(text)[0].log_probs[0] - trained.log_probs[0]) < 1e-4
"""
    outside(code=code)


def test_an_attention_a_tokenizer_and_a_reader_train_a_translator(outside, translator):
    saved = json.loads((translator / "config.json").read_text())["config"]
    assert (saved["attention"], saved["tokens"]) == ("cosine", "shout")
    assert "TWO" in (translator / "source" / "vocabulary.txt").read_text().split() or any(
        "TWO" in file.read_text() for file in translator.rglob("vocabulary.txt")
    )
    words = outside("translate", translator, "two three").out.split()
    assert words == [word.upper() for word in words]


def test_a_reader_gets_source_and_target_and_declares_its_suffixes(outside, tmp_path):
    (tmp_path / "a.arw").write_text("Go. -> Va !\n")
    code = f"""
import os
import throughtime as tt
os.chdir({str(tmp_path)!r})
"""
    code += """
for sides in ({}, {"source": "fr", "target": "en"}):
    data = tt.open_dataset("a.arw", **sides)
    print(data.reader.name, next(data.records())[0])
try:
    tt.open_dataset("a.arw", text="fr")
except tt.InputError as error:
    print(error)
"""
    lines = outside(code=code).out.splitlines()
    assert lines[:2] == ["arrows Go.", "arrows Va !"]
    assert lines[2].startswith("text: ")


def test_a_search_strategy_translates(outside, translator):
    (found,) = outside("translate", translator, "two three", "--search", "stubborn", "--json").json[
        "translations"
    ]
    assert len(found["text"].split()) >= 7, found
    words = ("two three", "--search", "stubborn", "--search-option", "min_tokens=9", "--max-length", "12")
    (longer,) = outside("translate", translator, *words, "--json").json["translations"]
    assert len(longer["text"].split()) >= 9, longer
    assert "stubborn" in outside("translate", "--help").out
    rows = outside("inspect", translator, "two three", "--searches", "--json").json["rows"]
    [stubborn] = [row for row in rows if row["search"] == "stubborn"]
    assert stubborn["text"] == found["text"]


def test_a_measure_evaluates(outside, translator):
    found = outside("evaluate", translator, "--split", "test", "--measure", "first-word", "--json").json
    assert 0 <= found["first_word"] <= 1


def test_a_smoothing_counts(outside, data, tmp_path):
    words = (
        "train",
        "ngram",
        "--data",
        data["ngram"],
        "--smoothing",
        "witten-bell",
        "--out",
        tmp_path / "run",
    )
    outside(*words)
    assert outside("evaluate", tmp_path / "run", "--split", "test", "--json").json["perplexity"] > 1


def test_a_network_is_stored_by_its_registered_name(outside, data, tmp_path):
    outside(*training("translate", data["translate"], tmp_path / "run", epochs=1, network="plain-seq2seq"))
    assert json.loads((tmp_path / "run/config.json").read_text())["config"]["network"] == "plain-seq2seq"
    assert "PlainSeq2Seq" in (tmp_path / "run/README.md").read_text()
    outside("evaluate", tmp_path / "run", "--split", "test", "--num-beams", "1", "--json")
    ran = run([], "evaluate", tmp_path / "run", "--split", "test")
    assert (ran.code, ran.err.splitlines()[0].startswith("error: unknown network 'plain-seq2seq'")) == (
        2,
        True,
    )


def test_a_task_has_a_command_like_our_own(outside, data, tmp_path):
    assert "wordcount" in outside("train", "--help").out
    assert "hidden_size" in outside("train", "wordcount", "--show-config").out
    words = ("--data", data["ngram"], "--hidden-size", "4", "--epochs", "1", "--set", "device=cpu")
    outside("train", "wordcount", *words, "--out", tmp_path / "run")
    assert outside("evaluate", tmp_path / "run", "--split", "test", "--json").json["mse"] >= 0
    assert " count " in outside("--help").out
    assert "--times" in outside("count", "--help").out
    (once, twice) = outside("count", tmp_path / "run", "one two", "three", "--json").json["texts"]
    assert once["text"] == "one two"
    lines = outside("count", tmp_path / "run", "one two", "three", "--times", "2").out.splitlines()
    assert [float(line) for line in lines] == [2 * once["answer"], 2 * twice["answer"]]
    code = f"""
import throughtime as tt
model = tt.load({str(tmp_path / "run")!r}, task="wordcount")
assert len(model.count_words(["one two", "three"])) == 2
again = tt.train("wordcount", {str(data["ngram"])!r}, hidden_size=4, epochs=1, device="cpu", progress="none")
assert again.count_words("one two") == model.count_words("one two")
"""
    outside(code=code)


BROKEN = {
    "throughtime.tasks": {"broken": "broken_package.nothing:Task"},
    "throughtime.cells": {"cracked": "broken_package.nothing:Cell"},
}


def test_a_package_that_does_not_import_breaks_only_what_needs_it(data, tmp_path):
    paths = [install(tmp_path / "site", "broken-package", BROKEN)]
    ran = run(paths, "train", "ngram", "--data", data["ngram"], "--out", tmp_path / "run")
    assert (ran.code, "broken" in ran.err) == (0, False), ran.err
    listed = run(paths, "train", "--help")
    assert (listed.code, "ngram" in listed.out, listed.err.count("broken-package")) == (0, True, 1)
    for words in (("train", "broken"), ("train", "language", "--data", data["ngram"], "--cell", "cracked")):
        ran = run(paths, *words, "--out", tmp_path / "other")
        assert ran.code == 1, ran.err
        assert ran.err.splitlines()[-1].startswith("error: ")
        assert not lacks(ran.err, "broken-package", "ModuleNotFoundError")
        assert len(ran.err.splitlines()) <= 2
