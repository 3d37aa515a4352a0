"""Runs: begun, gone on with, finished; nothing is left behind by one that was refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
import torch
from tests.plain import PLAIN
from tests.refusals import lacks, refuses

from throughtime.data.datasets import open_dataset
from throughtime.files import has_content
from throughtime.fit.progress import Reporter
from throughtime.fit.run import finish_reason
from throughtime.fit.trainer import Trainer
from throughtime.folder import ModelFolder
from throughtime.run import MAY_CHANGE, continue_config
from throughtime.tasks.language.config import LanguageConfig
from throughtime.tasks.language.model import RecurrentLanguage

SMALL = {
    "embedding_size": 6,
    "hidden_size": 6,
    "batch_size": 3,
    "num_steps": 8,
    "tokens": "word",
    **PLAIN,
}


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat sees the dog .\nthe dog hears a man .\na man sees the moon .\n" * 20)
    return path


@pytest.fixture
def run(text):
    """Train into a folder, or go on there."""

    def train(out, config=None, *, resume=False, reporter=None, **settings):
        dataset = open_dataset(str(text))
        if config is None:
            config = LanguageConfig(**{"data": str(text), "device": "cpu", **SMALL, **settings})
            language = RecurrentLanguage.create(config, dataset)
        else:
            language = RecurrentLanguage.resume(out, config)
        return language.fit(dataset, out, resume=resume, reporter=reporter)

    return train


def test_a_finished_run_holds_what_reproduces_it(run, tmp_path, pictures):
    out = tmp_path / "run"
    values = run(out, epochs=2)
    names = {path.name for path in out.iterdir()}
    assert names >= {
        "config.json",
        "model.safetensors",
        "generation_config.json",
        "README.md",
        "metrics.jsonl",
        "training.json",
        "learning-curve.png",
        "checkpoints",
    }
    assert not [name for name in names if name.startswith(".")]
    done = json.loads((out / "training.json").read_text())
    assert done["why"] == "all epochs done"
    assert done["best"] == values["best"]
    task, config = ModelFolder.at(out).read_config()
    assert task == "language"
    assert {key: config[key] for key in SMALL} == SMALL
    again = tmp_path / "again"
    run(again, **config)
    assert (again / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()


def test_a_refused_run_leaves_nothing_behind(run, tmp_path):
    with refuses("text.txt, split train", "batch_size"):
        run(tmp_path / "run", num_steps=10_000)
    assert not (tmp_path / "run").exists()


def test_an_empty_folder_is_as_good_as_none(run, tmp_path):
    out = tmp_path / "run"
    assert not has_content(out)
    out.mkdir()
    assert not has_content(out)
    run(out, epochs=1, resume=True)
    assert has_content(out)


@pytest.mark.parametrize("settings", [{"output_bias": "frequencies"}, {"average": "ema"}])
def test_one_killed_before_its_first_checkpoint_begins_with_the_same_weights(
    text, tmp_path, monkeypatch, settings
):
    """Which may be another run's (--init-from), so that no seed gives them again."""
    config = LanguageConfig(**{"data": str(text), "device": "cpu", **SMALL, "epochs": 1, **settings})
    dataset = open_dataset(str(text))

    def language(out=None):
        if out is not None:
            return RecurrentLanguage.resume(out, continue_config(LanguageConfig, out, "language", {}))
        new = RecurrentLanguage.create(config, dataset)
        with torch.no_grad():
            new.model.embedding.weight.add_(0.5)
        return new

    def train(one, out, **options):
        return one.fit(dataset, out, **options)

    train(language(), tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "fit", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        train(language(), tmp_path / "killed")
    train(language(tmp_path / "killed"), tmp_path / "killed", resume=True)
    whole, killed = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "killed"))
    assert whole == killed
    assert not (tmp_path / "killed/first").exists()


def test_a_run_that_stopped_early_goes_on_when_told(run, tmp_path):
    out = tmp_path / "run"
    values = run(out, epochs=4, minutes=1e-6)
    assert values["epochs"] < 4
    assert values["why"] == "1e-06 minutes are over"
    assert finish_reason(out, continue_config(LanguageConfig, out, "language", {}))
    longer = continue_config(LanguageConfig, out, "language", {"minutes": None})
    assert not finish_reason(out, longer)
    assert run(out, longer, resume=True)["epochs"] == 4


def test_what_a_run_is_may_not_change(run, tmp_path):
    out = tmp_path / "run"
    run(out, epochs=1)
    told = {"lr": 0.5, "clip": None, "keep": 5, "hidden_size": 6, "normaliser": None, "layout": None}
    settled = continue_config(LanguageConfig, out, "language", told)
    assert (settled.lr, settled.clip, settled.keep) == (0.5, None, 5)
    assert settled.layout == "lines"  # null leaves the choice to the data, which made it
    with refuses("hidden_size", "7", "6"):
        continue_config(LanguageConfig, out, "language", {"hidden_size": 7})
    with refuses("resume", "'language'", "'tag'"):
        continue_config(LanguageConfig, out, "tag", {})
    assert set(LanguageConfig.model_fields) > MAY_CHANGE - {"minutes", "memory"}  # one of them is there


def test_of_two_that_begin_at_once_one_is_refused(run, tmp_path, monkeypatch):
    """Both have asked whether the folder is there, as the command does, before either made it."""
    from throughtime.fit.trainer import Trainer

    out = tmp_path / "run"
    fit_one = Trainer.fit

    def meanwhile(trainer):
        with refuses("out", "run"):
            run(out, epochs=1)
        with refuses("out", "run"):
            run(out, epochs=1, resume=True)
        return fit_one(trainer)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "fit", meanwhile)
        run(out, epochs=1)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert json.loads((out / "training.json").read_text())["why"] == "all epochs done"
    run(out, continue_config(LanguageConfig, out, "language", {"epochs": 2}), resume=True)  # free again


HOLDER = """
import sys, time, torch
from pathlib import Path
from throughtime.fit.run import RunLock
from throughtime.fit.processes import Processes
with RunLock(Path(sys.argv[1]), Processes(), torch.device("cpu"), False) as lock:
    lock.resume()
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")
def test_a_run_that_another_process_trains_is_left_to_it(run, text, tmp_path, throughtime):
    """And only as long as that lives; a killed one leaves nothing in the way."""
    out = tmp_path / "run"
    run(out, epochs=1)
    before = sorted(path.name for path in out.rglob("*"))
    command = ["train", "language", "--data", text, "--out", out, "--set", "epochs=2", "--resume"]
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(out)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        refused = throughtime(*command)
        assert refused.code == 2
        assert not lacks(refused.err, "error:", "--out:", out)
        assert sorted(path.name for path in out.rglob("*")) == before
        os.kill(holder.pid, signal.SIGKILL)
    assert throughtime(*command).code == 0


def test_a_file_system_without_locks_is_trained_on(run, tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def unsupported(handle, operation):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    assert run(tmp_path / "run", epochs=1)["epochs"] == 1
    monkeypatch.setattr("throughtime.fit.run.fcntl", None)
    assert run(tmp_path / "other", epochs=1)["epochs"] == 1


def test_no_picture_fails_a_training(run, tmp_path, monkeypatch, pictures):
    said = []

    class Listening(Reporter):
        def say(self, message):
            said.append(message)

    def broken(*_arguments, **_options):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("throughtime.plots.learning.learning_curve", broken)
    run(tmp_path / "run", epochs=1, reporter=Listening())
    assert {"README.md", "training.json"} <= {path.name for path in (tmp_path / "run").iterdir()}
    assert [lacks(message, "division by zero") for message in said].count([]) == 1


@pytest.mark.parametrize("content", ["{", "{}", "null", "[]", '{"epochs": "1", "why": "all epochs done"}'])
def test_a_damaged_end_is_named(run, text, tmp_path, throughtime, content):
    out = tmp_path / "run"
    run(out, epochs=1)
    (out / "training.json").write_text(content)
    command = ["train", "language", "--data", text, "--out", out, "--resume"]
    refused = throughtime(*command)
    assert refused.code == 2
    assert refused.err.startswith(f"error: {out / 'training.json'}: ")
    assert refused.err.count("\n") == 1
    (out / "training.json").unlink()
    (out / "metrics.jsonl").write_text("{}\n")
    assert throughtime(*command).code == 0
