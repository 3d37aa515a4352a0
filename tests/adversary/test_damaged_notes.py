"""Odd values in the JSON of a folder are refused where they are read, not where they are written again."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save
from tests.refusals import refuses

import throughtime as tt
from throughtime.folder import ModelFolder
from throughtime.series.conformal import FILE, load_intervals

HALF = "\ud800"
TEXTS = {
    "classify": ("labels.json", lambda values: values["labels"].update({HALF: values["labels"].pop("even")})),
    "tag": ("examples.json", lambda values: values.update(examples=[f"one {HALF}"])),
    "translate": ("config.json", lambda values: values["config"].update(source=HALF)),
    "forecast": ("series.json", lambda values: values["series"].update({HALF: [0.0, 1.0]})),
}


@pytest.mark.parametrize("task", TEXTS)
def test_half_a_surrogate_pair_is_refused(task, model_folder):
    """JSON can hold it, but nothing can be written with it: one such folder would end /models for all."""
    folder = model_folder(task)
    name, change = TEXTS[task]
    values = json.loads((folder / name).read_text())
    change(values)
    (folder / name).write_text(json.dumps(values))
    with refuses(name, "surrogate"):
        tt.load(folder, device="cpu", trust_changed=True)


def test_half_a_surrogate_pair_in_a_history_is_refused(model_folder):
    folder = model_folder("forecast")
    path = folder / "history.safetensors"
    with safe_open(path, "numpy") as file:
        about = json.loads(file.metadata()["history"])
    path.write_bytes(save(load_file(path), {"history": json.dumps(about | {"series": [HALF]})}))
    with refuses("history.safetensors", "surrogate"):
        tt.load(folder, device="cpu", trust_changed=True).forecast()


@pytest.mark.parametrize("values", [{"epochs": "x"}, {"epochs": 1}, {"best": []}, {"parameters": None}])
def test_notes_about_a_training_may_be_damaged(values, model_folder, tmp_path):
    """The manifest leaves them out, and they are only needed for the card of a copy."""
    folder = model_folder("classify")
    (folder / "training.json").write_text(json.dumps(values))
    model = tt.load(folder, device="cpu")
    with refuses("training.json"):
        model.save(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("line", ["[1]", "1", "{}x", '{"a": 1}', '{"perplexity": "x"}', "[" * 100_000, "é"])
def test_measurements_of_counts_may_be_damaged(line, model_folder, tmp_path):
    folder = model_folder("ngram")
    (folder / "metrics.jsonl").write_text(line, "latin-1")
    with refuses("metrics.jsonl"):
        tt.load(folder).save(tmp_path / "copy")
    (folder / "metrics.jsonl").write_text('{"perplexity": 3}\n')
    tt.load(folder).save(tmp_path / "copy")


def test_scales_of_other_columns_are_refused(model_folder):
    folder = model_folder("forecast")
    values = json.loads((folder / "series.json").read_text())
    (folder / "series.json").write_text(json.dumps(values | {"past": [[0.0, 1.0]]}))
    with refuses("series.json", "past"):
        tt.load(folder, device="cpu", trust_changed=True)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("y", lambda values: values > 0),
        ("ds", lambda values: np.stack([values, values], 1)),
        ("past", lambda values: values[..., None]),
        ("known", lambda values: values[:, 0:0, None]),
    ],
)
def test_other_arrays_than_columns_are_refused(name, change, model_folder):
    folder = model_folder("forecast")
    path = folder / "history.safetensors"
    with safe_open(path, "numpy") as file:
        about = file.metadata()
    arrays = load_file(path)
    path.write_bytes(save({**arrays, name: change(arrays[name])}, about))
    with refuses("history.safetensors"):
        tt.load(folder, device="cpu", trust_changed=True).forecast()


@pytest.mark.parametrize("season", [None, 0, -1, "x", 1.5, []])
def test_intervals_with_an_odd_season_are_refused(season, tmp_path):
    folder = ModelFolder(tmp_path)
    about = {"kind": "scaled", "series": ["a"], "season": season}
    folder.write_arrays(FILE, {"scores": np.ones((3, 2))}, about)
    with refuses(FILE, "season"):
        load_intervals(folder)
    folder.write_arrays(FILE, {"scores": np.ones((3, 2))}, about | {"season": 7})
    assert load_intervals(folder).season == 7
