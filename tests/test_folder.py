"""Model folders: what is torn, foreign or too new is refused with a sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest

from throughtime.errors import InputError
from throughtime.folder import ModelFolder


@pytest.fixture
def folder(tmp_path):
    folder = ModelFolder(tmp_path)
    folder.write_config("ngram", {"order": 3})
    folder.write_tensors({"count.1": np.arange(5)})
    return folder


def test_what_is_written_is_read(folder):
    assert folder.read_config() == ("ngram", {"order": 3})
    assert folder.read_tensors()["count.1"].tolist() == [0, 1, 2, 3, 4]
    head = json.loads((folder.path / "config.json").read_text())
    assert (head["format"], head["task"], head["version"]) == ("throughtime", "ngram", 1)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": "other"}, "was not written by throughtime"),
        ({"version": 99}, "use a newer release"),
        ({"version": "1"}, "has version '1'"),
        ({"task": None}, "lacks its 'task'"),
    ],
)
def test_foreign_configs_are_refused(folder, change, sentence):
    path = folder.path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=sentence):
        folder.read_config()


def test_torn_files_are_refused(folder):
    tensors = folder.path / "model.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-7])
    with pytest.raises(InputError, match="cannot be read"):
        folder.read_tensors()
    tensors.unlink()
    with pytest.raises(InputError, match="is missing"):
        folder.read_tensors()
    (folder.path / "config.json").write_text('{"format": "throu')
    with pytest.raises(InputError, match="not valid JSON"):
        folder.read_config()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"version": ' + "9" * 5_000 + "}"], ids=["deep", "long"])
def test_json_past_all_bounds_is_refused(folder, text):
    (folder.path / "config.json").write_text(text)
    with pytest.raises(InputError, match=r"config\.json: .*too deeply"):
        folder.read_config()


def test_places_without_a_model_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such model folder"):
        ModelFolder.at(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"holds no config\.json"):
        ModelFolder.at(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        ModelFolder.at(tmp_path / "file")
