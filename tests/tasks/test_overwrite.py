"""`overwrite` replaces a run, and nothing else; `quiet` prints nothing but warnings."""

from __future__ import annotations

import json

import pytest
from tests.refusals import lacks, refuses
from tests.tiny import tiny_data, training

import throughtime as tt
from throughtime.errors import InterruptedRunError, ThroughtimeWarning
from throughtime.fit.trainer import Trainer
from throughtime.folder import set_aside, settle_replacement
from throughtime.tasks import TASKS


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny_data(tmp_path_factory.mktemp("data"))


def seed_of(run):
    return json.loads((run / "config.json").read_text())["config"].get("seed")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("task", TASKS)
def test_every_task_replaces_its_run_and_is_quiet(task, data, tmp_path, throughtime):
    out, settings = tmp_path / "run", {} if task == "ngram" else {"epochs": 1, "seed": 1}
    assert throughtime(*training(task, data[task], out, **settings)).code == 0
    before = (out / "model.safetensors").stat().st_ino
    again = training(task, data[task], out, **{**settings, "seed": 2} if settings else {})
    taken = throughtime(*again)
    assert taken.code == 2
    assert not lacks(taken.err, f"--out: {out}", "add --resume", "add --overwrite")
    quiet = throughtime(*again, "--overwrite", "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    assert (out / "model.safetensors").stat().st_ino != before
    assert seed_of(out) == (2 if settings else None)
    assert names(tmp_path) == ["run"]
    assert throughtime(*again, "--overwrite", "--quiet", "--json").json["run"] == str(out)


@pytest.fixture
def train(data, tmp_path):
    def run(**options):
        settings = {"epochs": 1, "batch_size": 8, "tokens": "word", "hidden_size": 8, "device": "cpu"}
        return tt.train("language", data["language"], **{**settings, "out": tmp_path / "run", **options})

    return run


def test_only_a_run_is_replaced(train, data, tmp_path, monkeypatch):
    out = tmp_path / "run"
    train(quiet=True)
    kept = (out / "model.safetensors").read_bytes()
    for name, make in {
        "photos": lambda folder: (folder / "cat.jpg").write_bytes(b"miaow"),
        "notes": lambda folder: (folder / "config.json").write_text("{}"),
        "file": lambda folder: (folder.rmdir(), folder.write_text("my thesis")),
    }.items():
        other = tmp_path / name
        other.mkdir()
        make(other)
        content = names(tmp_path), other.is_file() or names(other)
        with refuses(f"{other}{'/config.json' * (name == 'notes')}"):
            train(out=other, overwrite=True)
        assert content == (names(tmp_path), other.is_file() or names(other))
    (out / "thesis.txt").write_text("mine")
    with refuses("out", out, "thesis.txt"):
        train(overwrite=True, seed=2)
    (out / "thesis.txt").unlink()
    (tmp_path / "link").symlink_to(out)
    with refuses("out", tmp_path / "link", "link"):
        train(out=tmp_path / "link", overwrite=True)
    monkeypatch.chdir(out)
    with refuses("out", "current folder"):
        train(out=".", overwrite=True)
    with refuses("overwrite", "resume"):
        train(overwrite=True, resume=True)
    assert (out / "model.safetensors").read_bytes() == kept
    train(out=tmp_path / "new", overwrite=True, quiet=True)  # where there is nothing, nothing is replaced
    (tmp_path / "empty").mkdir()
    train(out=tmp_path / "empty", overwrite=True, quiet=True)


@pytest.mark.parametrize("task", ["language", "ngram"])
@pytest.mark.parametrize("moment", ["settings", "data", "start", "update"])
def test_a_training_that_fails_at_once_leaves_the_run(moment, task, data, tmp_path, monkeypatch):
    out = tmp_path / "run"
    small = {} if task == "ngram" else {"epochs": 1, "hidden_size": 8, "device": "cpu"}
    tt.train(task, data[task], out=out, quiet=True, **small)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    source, options = data[task], {}
    if moment == "settings":
        options = {"order": 0} if task == "ngram" else {"num_steps": 10_000}
    elif moment == "data":
        source = tmp_path / "missing.txt"

    def fail(*_, **__):
        raise MemoryError

    if moment == "start":
        monkeypatch.setattr("throughtime.fit.run.write_manifest", fail)
        monkeypatch.setattr("throughtime.folder.write_manifest", fail)
    elif moment == "update":
        monkeypatch.setattr(Trainer, "update", fail)
        monkeypatch.setattr("throughtime.tasks.ngram.training.count_in_memory", fail)
    with pytest.raises((MemoryError, tt.InputError, FileNotFoundError)):
        tt.train(task, source, out=out, overwrite=True, quiet=True, **{**small, **options})
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert names(tmp_path) == ["run"]


def test_a_run_that_another_process_trains_is_not_replaced(train, tmp_path, monkeypatch):
    fit = Trainer.fit

    def fit_and_overwrite(trainer):
        with refuses("out", tmp_path / "run"):
            train(overwrite=True, seed=2)
        return fit(trainer)

    monkeypatch.setattr(Trainer, "fit", fit_and_overwrite)
    train(quiet=True)
    assert seed_of(tmp_path / "run") == 0


def test_killed_while_it_replaces_a_run(train, tmp_path):
    """Killed before it has saved anything, the old run comes back; else the new one can be resumed."""
    out = tmp_path / "run"
    train(seed=1, quiet=True)
    set_aside(out)
    assert not out.exists()
    with refuses("out", out):  # as the run is there again
        train()
    assert seed_of(out) == 1
    set_aside(out)
    (out / "first").mkdir(parents=True)
    settle_replacement(out)
    assert (seed_of(out), names(tmp_path)) == (1, ["run"])
    set_aside(out)
    (out / "checkpoints/step-00000001").mkdir(parents=True)
    settle_replacement(out)
    assert names(tmp_path) == [".run.replaced", "run"]
    set_aside(out)  # a second overwrite keeps what has a model
    settle_replacement(out)
    assert (seed_of(out), names(tmp_path)) == (1, ["run"])
    set_aside(out)
    train(out=tmp_path / "other", seed=2, quiet=True)
    (tmp_path / "other").rename(out)
    train(seed=2, resume=True)
    settle_replacement(out)
    assert (seed_of(out), names(tmp_path)) == (2, ["run"])


def test_quiet_still_warns(train, throughtime, data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("throughtime.tasks.language.model.RecurrentLanguage.notes", ("odd texts",))
    with pytest.warns(ThroughtimeWarning, match="odd texts"):
        train(quiet=True)
    assert capsys.readouterr() == ("", "")
    words = training("language", data["language"], tmp_path / "other", epochs=1)
    quiet = throughtime(*words, "--quiet", "--json")
    assert quiet.err == "warning: odd texts\n"
    assert quiet.json["warnings"] == ["odd texts"]


def test_ctrl_c_says_how_to_continue_what_replaces_a_run(data, tmp_path, throughtime, monkeypatch):
    def interrupt(trainer):
        raise InterruptedRunError(trainer._save())

    words = training("language", data["language"], tmp_path / "run", epochs=1)
    assert throughtime(*words, "--quiet").code == 0
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "fit", interrupt)
        stopped = throughtime(*words, "--overwrite")
    assert stopped.code == 130
    assert not lacks(stopped.err.splitlines()[-1], "--resume in place of --overwrite", "step-00000000")
    assert names(tmp_path) == [".run.replaced", "run"]
    assert throughtime(*words, "--resume", "--quiet").code == 0
    assert names(tmp_path) == ["run"]
