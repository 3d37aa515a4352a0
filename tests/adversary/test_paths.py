"""No folder opens files outside itself: a forecaster carries its history, and an export its parts."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext

import numpy as np
import pytest
from tests.adversary.conftest import change_config
from tests.refusals import refuses

import throughtime as tt
from throughtime.data.panel import Frequency, Panel, Series
from throughtime.errors import ThroughtimeError
from throughtime.folder import ModelFolder
from throughtime.series.panels import load_history, save_history


def test_a_history_is_saved_as_it_was(tmp_path):
    """Gaps, dates, several series of different lengths, and further columns."""
    frequency = Frequency(1, "month", month_end=True)
    times = frequency.grid(np.datetime64("2020-01-31"), 5)
    long = Series(
        "a", times, np.array([1.5, np.nan, 3, 4, 5]), np.arange(10.0).reshape(5, 2), np.ones((5, 1))
    )
    panel = Panel((long, long.rows(slice(2))), frequency, ("heat", "day"), ("load",), target_names=("y",))
    save_history(ModelFolder(tmp_path), panel)
    again = load_history(ModelFolder(tmp_path))
    assert (again.frequency, again.known_names, again.past_names) == (frequency, ("heat", "day"), ("load",))
    assert again.target_names == ("y",)
    for one, other in zip(again.series, panel.series, strict=True):
        assert one.unique_id == other.unique_id
        for name in ("ds", "y", "known", "past"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
            assert getattr(one, name).dtype == getattr(other, name).dtype


def test_a_damaged_history_is_named(model_folder):
    folder = model_folder("forecast")
    path = folder / "history.safetensors"
    whole = path.read_bytes()
    for changed in (whole[:-9], whole.replace(b'\\"frequency\\"', b'\\"frequencx\\"')):
        assert changed != whole
        path.write_bytes(changed)
        with refuses("history.safetensors"):
            tt.load(folder, device="cpu", trust_changed=True).forecast()
    path.unlink()
    with refuses("data"):
        tt.load(folder, device="cpu", trust_changed=True).forecast()
    assert json.loads((folder / "config.json").read_text())["config"]["data"].endswith("wave.csv")


@pytest.fixture
def export(model_folder, tmp_path):
    """Export a model, and return a function that changes values of its export.json."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")

    def write(task):
        out = tmp_path / f"{task}-export"
        tt.load(model_folder(task), device="cpu").export(out)
        whole = json.loads((out / "export.json").read_text())

        def change(**values):
            (out / "export.json").write_text(json.dumps(whole | values))
            return out

        return whole, change

    return write


def test_the_parts_of_an_export_stay_inside(export, tmp_path):
    _, change = export("classify")
    out = change()
    (tmp_path / "outside.onnx").write_bytes((out / "model.onnx").read_bytes())
    for name in ("../outside.onnx", str(tmp_path / "outside.onnx"), "./model.onnx", "..", "vocabulary.txt"):
        with refuses("export.json", repr(name)):
            tt.runtime.load(change(parts={"model": name}), trust_changed=True)
    (out / "model.onnx").unlink()
    (out / "model.onnx").symlink_to(tmp_path / "outside.onnx")
    with refuses("model.onnx"):
        tt.runtime.load(change(), trust_changed=True)


OPTIONAL = ("counted", "indicators")
"""Settings of models that are mixed in, which may be left out of a training."""


@pytest.mark.parametrize("task", ["classify", "fill", "language", "tag", "translate", "forecast"])
def test_the_settings_of_an_export_are_checked(task, export):
    whole, change = export(task)
    settings = whole["settings"]
    assert tt.runtime.load(change(), trust_changed=True)
    for key in settings:
        for value in ("hot", -1.5, [["x"]], float("nan")):
            with refuses("export.json, settings", key):
                tt.runtime.load(change(settings={**settings, key: value}), trust_changed=True)
        rest = {name: value for name, value in settings.items() if name != key}
        with nullcontext() if key in OPTIONAL else refuses("export.json, settings", key):
            tt.runtime.load(change(settings=rest), trust_changed=True)
    with refuses("export.json, settings", "module"):
        tt.runtime.load(change(settings={**settings, "module": "os:system"}), trust_changed=True)


def test_a_graph_reads_no_data_outside_its_folder(export, tmp_path):
    """The check is onnxruntime's own: this holds for the oldest version that is allowed."""
    _, change = export("classify")
    out = change()
    onnx = pytest.importorskip("onnx")
    graph = onnx.load(out / "model.onnx")
    large = max(graph.graph.initializer, key=lambda one: len(one.raw_data))
    (tmp_path / "secret.bin").write_bytes(large.raw_data)
    large.ClearField("raw_data")
    large.data_location = onnx.TensorProto.EXTERNAL
    large.external_data.add(key="location", value="../secret.bin")
    (out / "model.onnx").write_bytes(graph.SerializeToString())
    with pytest.raises(ThroughtimeError, match=r"model\.onnx.*secret\.bin"):
        tt.runtime.load(out, trust_changed=True)


@pytest.mark.parametrize("name", ["evil", "evil:run", "evil.run"])
def test_nothing_that_a_folder_names_is_imported(name, model_folder, tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("run = print\n")
    monkeypatch.syspath_prepend(tmp_path)
    folder = model_folder("language")
    config, tokenizer = (folder / file for file in ("config.json", "tokenizer_config.json"))
    whole, spelled = config.read_text(), tokenizer.read_text()
    for setting in ("cell", "network"):
        change_config(folder, **{setting: name})
        with refuses(repr(name), error=ThroughtimeError):
            tt.load(folder, device="cpu", trust_changed=True)
        config.write_text(whole)
    config.write_text(json.dumps({**json.loads(whole), "task": name}))
    with refuses(repr(name), error=ThroughtimeError):
        tt.load(folder, device="cpu", trust_changed=True)
    config.write_text(whole)
    tokenizer.write_text(json.dumps({**json.loads(spelled), "tokenizer": name}))
    with refuses(repr(name), error=ThroughtimeError):
        tt.load(folder, device="cpu", trust_changed=True)
    tokenizer.write_text(spelled)
    assert tt.load(folder, device="cpu", trust_changed=True).task == "language"
    assert "evil" not in sys.modules
