"""The folder of an export, and `throughtime export`: whole and checked, or a sentence and nothing."""

from __future__ import annotations

import json

import pytest
from tests.graphs import untrained
from tests.refusals import lacks, refuses

import throughtime as tt
from throughtime.api import export
from throughtime.graphs import write
from throughtime.tasks import TASKS

KINDS = {
    "translate": untrained.translator,
    "language": untrained.language,
    "fill": untrained.filler,
    "compose": untrained.composer,
    "classify": untrained.classifier,
    "tag": untrained.tagger,
    "forecast": untrained.forecaster,
}


@pytest.mark.parametrize("task", [name for name in TASKS if TASKS[name].runner])
def test_every_task_is_exported_in_both_precisions(throughtime, tmp_path, task):
    run, sizes = KINDS[task](tmp_path), {}
    for precision in ("float32", "int8"):
        out = tmp_path / precision
        done = throughtime(
            "export", run, "--out", out, "--json", *(["--int8"] if precision == "int8" else [])
        )
        assert done.code == 0, done.err
        values = json.loads((out / "export.json").read_text())
        assert values["precision"] == done.json["precision"] == precision
        assert set(values["verified"]) >= {"float32", precision}
        assert max(check["off"] for check in values["verified"]["float32"]) < 1e-4
        computed = set(values["parts"]) - {"counted"}  # tables, which are read and not computed
        assert {check["part"] for check in values["verified"][precision]} == computed
        assert all(
            (out / name).stat().st_size == values["bytes"][part] for part, name in values["parts"].items()
        )
        assert "torch is not needed" in (out / "README.md").read_text()
        tt.runtime.load(out)
        sizes[precision] = sum(values["bytes"].values())
    assert sizes["int8"] < sizes["float32"] or task == "forecast"  # a window model is all but its biases


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (
            ["RUN", "--out", "new", "--format", "onyx"],
            ("'onyx'", "'onnx'"),
        ),
        (["RUN", "--out", "here"], ("here:",)),
        (["nowhere", "--out", "new"], ("nowhere:",)),
        (["COUNTED", "--out", "new"], ("'ngram'", "'arpa'", "'html'")),
    ],
)
def test_what_cannot_be_exported_is_refused(throughtime, tmp_path, monkeypatch, words, facts):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "notes.txt").write_text("mine")
    run = untrained.language(tmp_path)
    counted = tmp_path / "counted"
    counted.mkdir()
    values = json.loads((run / "config.json").read_text())
    (counted / "config.json").write_text(json.dumps(values | {"task": "ngram"}))
    names = {"RUN": run, "COUNTED": counted}
    done = throughtime("export", *(names.get(word, word) for word in words))
    assert done.code == 2
    assert not lacks(done.err, *facts)
    assert done.err.count("\n") <= 2
    assert not (tmp_path / "new").exists()


def test_a_mismatch_leaves_nothing(tmp_path, monkeypatch, throughtime):
    monkeypatch.setitem(write.TOLERANCE, "float32", -1.0)
    run = untrained.language(tmp_path)
    before = sorted(tmp_path.iterdir())
    done = throughtime("export", run, "--out", tmp_path / "out")
    assert done.code == 1
    assert not lacks(done.err, "error:", "log_probs")
    assert sorted(tmp_path.iterdir()) == before


def test_what_the_runner_does_not_know_is_refused(tmp_path):
    data = tmp_path / "days.csv"
    days = [f"2024-{month:02}-{day:02},{day % 7 + 1}\n" for month in range(1, 5) for day in range(1, 29)]
    data.write_text("ds,y\n" + "".join(days))
    settings = {"lookback": 14, "horizon": 7, "hidden_size": 8, "device": "cpu", "calendar": True}
    run = untrained.saved(tmp_path, "forecast", data, **settings)
    with refuses("calendar", "html"):
        export(run, tmp_path / "out")
