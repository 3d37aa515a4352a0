"""Data that change between two parts of a training are noticed; nothing is trained on them by accident."""

from __future__ import annotations

import json

import pytest
from tests.fit.test_resume import words

import throughtime as tt
from throughtime.errors import InputError
from throughtime.files import sha256_of, sweep_parts, whole_file, whole_folder

LINES = ["the cat sleeps", "a dog barks", "no one came"] * 40
SMALL = {"hidden_size": 8, "embedding_size": 8, "batch_size": 4, "tokens": "word", "progress": "none"}


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


def test_changed_data_are_refused_until_they_are_accepted(data, tmp_path, throughtime):
    run = tmp_path / "run"
    command = (*words(data, {}), "--out", run)
    assert throughtime(*command, "--epochs", 1).code == 0
    (last,) = sorted((run / "checkpoints").iterdir())
    state = json.loads((last / "state.json").read_text())
    assert state["values"]["data"] == [["lines.txt", sha256_of(data)]]

    data.write_text("\n".join(LINES[::-1]) + "\n")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    refused = throughtime(*command, "--epochs", 2, "--resume")
    assert refused.code == 2
    assert "--accept-changed-data" in refused.err
    assert "lines.txt" in refused.err
    assert refused.err.count("\n") == 1
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before

    assert throughtime(*command, "--epochs", 2, "--resume", "--accept-changed-data").code == 0
    assert throughtime(*command, "--epochs", 3, "--resume").code == 0  # accepted once and for all


def test_other_amounts_of_data_can_be_accepted_too(data, tmp_path):
    """Inside an epoch, whose batches are no longer the same: it begins again."""
    settings = {**SMALL, "out": tmp_path / "run", "resume": True}
    tt.train("language", data, epochs=5, minutes=1e-9, **settings)  # ends after its first update
    data.write_text("\n".join(LINES * 2) + "\n")
    with pytest.raises(InputError, match=r"accept_changed_data: .*lines\.txt"):
        tt.train("language", data, epochs=2, minutes=1, **settings)
    tt.train("language", data, epochs=2, minutes=1, accept_changed_data=True, **settings)
    found = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in found if line["kind"] == "epoch"] == [1, 2]


def test_data_that_change_before_the_first_checkpoint_are_noticed(data, tmp_path, monkeypatch):
    from throughtime.fit.trainer import Trainer

    def killed(trainer):
        trainer.metrics.write("train", 1, 1, {"loss": 1.0})
        raise KeyboardInterrupt

    settings = {**SMALL, "epochs": 1, "out": tmp_path / "run", "resume": True}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "_epoch", killed)
        tt.train("language", data, **settings)
    data.write_text("\n".join(LINES[::-1]) + "\n")
    with pytest.raises(InputError, match=r"lines\.txt"):
        tt.train("language", data, **settings)
    data.write_text("\n".join(LINES) + "\n")
    tt.train("language", data, **settings)
    found = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    places = [(line["kind"], line["step"]) for line in found]
    assert len(set(places)) == len(places)


def test_what_killed_processes_left_is_swept_and_what_is_being_written_stays(data, tmp_path):
    run = tmp_path / "run"
    settings = {**SMALL, "epochs": 1, "out": run, "resume": True}
    (tmp_path / ".run.abc.part").mkdir()
    (tmp_path / ".other.abc.part").mkdir()
    tt.train("language", data, **settings)
    assert sorted(path.name for path in tmp_path.glob(".*")) == [".other.abc.part"]
    (run / ".config.json.xyz.part").write_text("half")
    (run / "checkpoints" / ".step-00000009.xyz.part").mkdir()
    tt.train("language", data, **{**settings, "epochs": 2})
    assert not [*run.rglob("*.part")]
    with whole_folder(tmp_path / "new") as temporary, whole_file(tmp_path / "file") as file:
        file.write("whole")
        sweep_parts(tmp_path)
        assert temporary.is_dir()
    assert (tmp_path / "file").read_text() == "whole"
    assert not [*tmp_path.glob(".*.part")]
