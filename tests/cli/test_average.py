"""average: one model from a run's last checkpoints."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tests.refusals import refuses

from throughtime.cli.average import average
from throughtime.fit.checkpoint import Checkpoints
from throughtime.folder import ModelFolder
from throughtime.manifest import write_manifest


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "run"
    checkpoints = Checkpoints(path / "checkpoints", keep=4)
    for step in (10, 20, 30, 40):
        tensors = {
            "model.weight": torch.full((2, 3), 0.1) * step,
            "model.same": torch.full((5,), 0.1),
            "model.seen": torch.tensor([step]),
            "optimizer.0.exp_avg": torch.zeros(2, 3),
        }
        checkpoints.save(step, tensors, {})
    folder = ModelFolder(path)
    folder.write_config("language", {"data": "timemachine"})
    folder.write_tensors({"weight": np.zeros((2, 3), dtype=np.float32)})
    folder.write_json("generation_config.json", {"max_new_tokens": 7})
    folder.write_json("tokenizer_config.json", {"tokenizer": "char"})
    (path / "vocabulary.txt").write_text("a\nb\n")
    folder.write_card("perplexity 3.2")
    folder.write_metrics([{"perplexity": 3.2}])
    write_manifest(path)
    return path


def test_the_mean_of_the_last_checkpoints(run, tmp_path, capsys):
    out = tmp_path / "averaged"
    average(run=run, out=out, last=3, json=True)
    values = json.loads(capsys.readouterr().out)
    assert values["steps"] == [20, 30, 40]
    tensors = ModelFolder.at(out).read_tensors()
    assert tensors.keys() == {"weight", "same", "seen"}
    np.testing.assert_allclose(tensors["weight"], np.full((2, 3), 3.0), rtol=1e-6)
    assert tensors["weight"].dtype == np.float32
    assert (tensors["same"] == np.float32(0.1)).all()
    assert tensors["seen"].tolist() == [40]


def test_the_new_folder_is_a_model_whose_card_says_what_it_is(run, tmp_path, capsys):
    out = tmp_path / "averaged"
    average(run=run, out=out, last=2)
    assert "Averaged 2 checkpoints" in capsys.readouterr().out
    assert {entry.name for entry in out.iterdir()} == {
        "config.json",
        "model.safetensors",
        "generation_config.json",
        "tokenizer_config.json",
        "vocabulary.txt",
        "README.md",
        "manifest.json",
    }
    assert ModelFolder.at(out).read_config() == ("language", {"data": "timemachine"})
    card = (out / "README.md").read_text()
    assert "30, 40 updates" in card
    assert "3.2" not in card  # the run's score is not this model's


def test_what_cannot_be_done_is_refused_and_leaves_nothing(run, tmp_path):
    out = tmp_path / "averaged"
    with refuses("--last", "5", "4", "--last 4", "--set", "keep=5"):
        average(run=run, out=out, last=5)
    with refuses("run"):
        average(run=run, out=run, last=2)
    with refuses("nowhere"):
        average(run=tmp_path / "nowhere", out=out, last=2)
    torn = run / "checkpoints" / "step-00000030" / "tensors.safetensors"
    torn.write_bytes(torn.read_bytes()[:-1])
    with refuses("step-00000030/tensors.safetensors"):
        average(run=run, out=out, last=2)
    assert not out.exists()


def test_checkpoints_of_other_things_are_refused(run, tmp_path):
    checkpoints = Checkpoints(run / "checkpoints", keep=9)
    checkpoints.save(50, {"model.weight": torch.zeros(9)}, {})
    with refuses("step-00000050"):
        average(run=run, out=tmp_path / "averaged", last=2)
    checkpoints.save(60, {"optimizer.0.step": torch.zeros(())}, {})
    with refuses("step-00000060"):
        average(run=run, out=tmp_path / "averaged", last=1)


@pytest.mark.parametrize("hidden", [".hidden", "checkpoints"])
def test_no_link_of_a_hidden_folder_is_followed(hidden, run, tmp_path):
    """Links in it are not checked; a copy of what they lead to could be published with the model."""
    (tmp_path / "secret.txt").write_text("hunter2")
    (run / "source" / hidden).mkdir(parents=True)
    (run / "source" / hidden / "words.txt").symlink_to(tmp_path / "secret.txt")
    (run / "source" / hidden / "again").symlink_to(run / "source")
    average(run=run, out=tmp_path / "averaged", last=2)
    assert not any((tmp_path / "averaged" / "source").iterdir())
