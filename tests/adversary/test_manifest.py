"""A file that changed after a model was saved is noticed: in Python, by the commands and by the runtime."""

from __future__ import annotations

import json
import os
import shutil

import pytest

import throughtime as tt
from throughtime.errors import InputError, ThroughtimeWarning
from throughtime.folder import ModelFolder
from throughtime.manifest import FREE, MANIFEST, write_manifest


def covered(folder):
    return json.loads((folder / MANIFEST).read_text())["sha256"]


@pytest.mark.parametrize("task", ["ngram", "language", "translate", "tag", "classify", "forecast"])
def test_every_file_that_a_model_is_loaded_from_is_covered(task, model_folder):
    folder = model_folder(task)
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert covered(folder).keys() == {name for name in names if name.rpartition("/")[2] not in FREE}
    assert {"config.json", "model.safetensors"} < covered(folder).keys()
    for name in covered(folder):
        path = folder / name
        before = path.read_bytes()
        path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        with pytest.raises(InputError, match=f"{name}: .*{MANIFEST}.*trust_changed"):
            tt.load(folder)
        path.write_bytes(before)
    assert tt.load(folder, device="cpu").task == task


def test_a_reordered_vocabulary_is_refused_unless_it_is_trusted(model_folder, throughtime):
    folder = model_folder("language")
    words = folder / "vocabulary.txt"
    first, *others = words.read_text().splitlines(keepends=True)
    words.write_text("".join([first, *reversed(others)]))
    ran = throughtime("generate", folder, "--seed", 1)
    assert (ran.code, ran.out) == (2, "")
    assert "vocabulary.txt" in ran.err
    assert "--trust-changed" in ran.err
    assert throughtime("generate", folder, "--seed", 1, "--trust-changed").code == 0
    assert tt.load(folder, device="cpu", trust_changed=True).task == "language"


def test_a_missing_file_and_a_damaged_manifest_are_refused(model_folder):
    folder = model_folder("translate")
    (folder / "source" / "vocabulary.txt").rename(folder / "elsewhere")
    with pytest.raises(InputError, match=r"source/vocabulary\.txt: is missing"):
        tt.load(folder)
    (folder / "elsewhere").rename(folder / "source" / "vocabulary.txt")
    listed = {f"{number}.txt": ["0"] for number in range(400_000)}
    bad = ({"../outside.txt": ["0"]}, {"./config.json": ["0"]}, {"source//a.txt": ["0"]}, listed)
    bad += ({".hidden/link.txt": ["0"]}, {"checkpoints/link.txt": ["0"]})  # whose links are not checked
    for text in ("{}", "[", *(json.dumps({"format": "throughtime manifest", "sha256": one}) for one in bad)):
        (folder / MANIFEST).write_text(text)
        with pytest.raises(InputError, match=r"manifest\.json"):
            tt.load(folder)


def test_notes_and_defaults_may_change(model_folder):
    folder = model_folder("language")
    (folder / "README.md").write_text("mine")
    (folder / "generation_config.json").write_text('{"max_new_tokens": 3}')
    assert tt.load(folder, device="cpu").generation == {"max_new_tokens": 3}


def test_a_folder_without_a_manifest_loads_with_a_warning(model_folder):
    folder = model_folder("ngram")
    (folder / MANIFEST).unlink()
    with pytest.warns(ThroughtimeWarning, match=MANIFEST) as caught:
        tt.load(folder)
    assert len(caught) == 1


def test_the_manifest_is_right_at_every_moment_of_a_replacement(model_folder, monkeypatch):
    """A power cut may come between any two steps: the folder then loads as before or as after."""
    folder = ModelFolder(model_folder("ngram"))
    names, before = ("config.json", "vocabulary.txt"), (folder.path / "config.json").read_text()
    moments = []

    def check_then(act):
        def step(*given):
            moments.append(tt.load(folder.path).config.order)
            act(*given)

        return step

    for name in ("replace", "rename"):
        monkeypatch.setattr(f"pathlib.Path.{name}", check_then(getattr(os, name)))
    with folder.replace() as new:
        for name in names:
            (new.path / name).write_text((folder.path / name).read_text())
        (new.path / "config.json").write_text(before.replace('"keep"', '"kept"') + "\n")
    assert len(moments) == 4  # the manifest, two files, the manifest
    assert covered(folder.path)["config.json"] != covered(folder.path)["vocabulary.txt"]
    assert all(len(sums) == 1 for sums in covered(folder.path).values())
    assert tt.load(folder.path).config.order == 3


def test_an_export_is_covered_too(model_folder, tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    out = tmp_path / "exported"
    tt.load(model_folder("classify"), device="cpu").export(out)
    assert {"export.json", "model.onnx", "vocabulary.txt", "tokenizer_config.json"} <= covered(out).keys()
    values = (out / "export.json").read_text()
    (out / "export.json").write_text(values.replace("{", "{ ", 1))
    with pytest.raises(InputError, match=r"export\.json"):
        tt.runtime.load(out)
    assert tt.runtime.load(out, trust_changed=True).classify("one two")


def test_a_run_that_changed_is_not_resumed_or_built_upon(tmp_path, throughtime):
    (tmp_path / "text.txt").write_text("the cat sees the dog\nthe dog sees a cat\n" * 30)
    settings = ("embedding_size=8", "hidden_size=8", "batch_size=4", "num_steps=10")
    train = ("train", "language", "--data", tmp_path / "text.txt", *(f"--set={one}" for one in settings))
    run = tmp_path / "run"
    assert throughtime(*train, "--epochs", 1, "--out", run).code == 0
    write_manifest(shutil.copytree(run, tmp_path / "fine"))
    assert covered(tmp_path / "fine") == covered(run)  # at the end of a training, too
    (run / "vocabulary.txt").write_text((run / "vocabulary.txt").read_text() + "zebra\n")
    for words in (("--out", run, "--resume"), ("--out", tmp_path / "new", "--init-from", run)):
        refused = throughtime(*train, "--epochs", 2, *words)
        assert refused.code == 2
        assert "vocabulary.txt" in refused.err
    start = ("--out", tmp_path / "new", "--init-from", tmp_path / "fine")
    assert throughtime(*train, "--epochs", 1, *start).code == 0
