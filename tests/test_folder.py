"""Model folders: what is torn, foreign or too new is refused with a sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.refusals import refuses

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
    mapped = folder.map_tensors()["count.1"]
    assert isinstance(mapped, np.memmap)
    assert mapped.tolist() == [0, 1, 2, 3, 4]
    head = json.loads((folder.path / "config.json").read_text())
    assert (head["format"], head["task"], head["version"]) == ("throughtime", "ngram", 1)


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"format": "other"}, ("config.json", "'other'")),
        ({"version": 99}, ("config.json", "99", "1")),
        ({"version": "1"}, ("config.json", "'1'")),
        ({"task": None}, ("config.json", "'task'")),
    ],
)
def test_foreign_configs_are_refused(folder, change, facts):
    path = folder.path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with refuses(*facts):
        folder.read_config()


def test_torn_files_are_refused(folder):
    tensors = folder.path / "model.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-7])
    with refuses("model.safetensors"):
        folder.read_tensors()
    tensors.unlink()
    with refuses("model.safetensors"):
        folder.read_tensors()
    (folder.path / "config.json").write_text('{"format": "throu')
    with refuses("config.json", "JSON"):
        folder.read_config()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"version": ' + "9" * 5_000 + "}"], ids=["deep", "long"])
def test_json_past_all_bounds_is_refused(folder, text):
    (folder.path / "config.json").write_text(text)
    with refuses("config.json"):
        folder.read_config()


def test_places_without_a_model_are_refused(tmp_path):
    with refuses("nowhere"):
        ModelFolder.at(tmp_path / "nowhere")
    with refuses(tmp_path, "config.json"):
        ModelFolder.at(tmp_path)
    (tmp_path / "file").touch()
    with refuses("file"):
        ModelFolder.at(tmp_path / "file")


def test_arrays_on_the_file_equal_those_in_memory(tmp_path):  # R115
    folder = ModelFolder(tmp_path)
    arrays = {
        "a": np.arange(7),
        "b": np.linspace(0, 1, 3),
        "c": np.array([[1, 2], [3, 4]], np.float32),
        "empty": np.empty(0),
        "empty table": np.empty((0, 3), np.float32),
        "number": np.array(3),
    }
    folder.write_tensors(arrays)
    found = folder.map_tensors()
    assert len({id(mapped._mmap) for mapped in found.values() if mapped.size}) == 1
    for name, mapped in found.items():
        np.testing.assert_array_equal(mapped, arrays[name])
        assert mapped.dtype == arrays[name].dtype
    path = tmp_path / "model.safetensors"
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:20], b"", whole.replace(b"F32", b"F99")):
        path.write_bytes(damaged)
        with refuses("model.safetensors"):
            folder.map_tensors()
    folder.write_tensors({"a": np.arange(7, dtype=np.uint8)})
    with refuses("model.safetensors", "U8"):
        folder.map_tensors()
    path.unlink()
    with refuses("model.safetensors"):
        folder.map_tensors()
