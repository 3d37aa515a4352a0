"""Weights and answers that are not finite are refused with a sentence."""

from __future__ import annotations

import io

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.adversary.test_sizes import NETWORKS

import throughtime as tt
from throughtime.errors import DamagedModelError, InputError


def spoil(folder, value):
    """Set one weight to a value; returns the name of its tensor."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    name = max(tensors, key=lambda one: tensors[one].size)
    tensors[name].flat[-1] = value
    save_file(tensors, path)
    return name


@pytest.mark.parametrize("task", NETWORKS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_weight_is_infinite_or_no_number(task, value, model_folder):
    folder = model_folder(task)
    name = spoil(folder, value)
    with pytest.raises(InputError, match=rf"model\.safetensors: .*'{name}'.*finite"):
        tt.load(folder, device="cpu", trust_changed=True)


ASK = {
    "language": [
        lambda model: model.generate("one", seed=1),
        lambda model: model.generate("one", num_beams=2),
        lambda model: model.score("one two"),
        lambda model: list(model.stream("one")),
    ],
    "translate": [lambda model: model.translate("one two"), lambda model: model.score([("one", "un")])],
    "tag": [lambda model: model.tag("one two")],
    "fill": [lambda model: model.fill("one ___ two")],
    "classify": [lambda model: model.classify("one two")],
    "compose": [lambda model: model.compose("even", seed=1)],
    "forecast": [lambda model: model.forecast(h=2), lambda model: model.forecast(h=2, level=[80])],
}


def overflow(folder):
    """Make all weights so large, with both signs, that sums of products are not numbers."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for tensor in tensors.values():
        if tensor.dtype == np.float32:
            tensor.flat = np.resize(np.array([3e38, -3e38], np.float32), tensor.size)
    save_file(tensors, path)
    return folder


@pytest.mark.parametrize("task", NETWORKS)
def test_no_answer_is_not_a_number(task, model_folder):
    model = tt.load(overflow(model_folder(task)), device="cpu", trust_changed=True)
    for ask in ASK[task]:
        with pytest.raises(DamagedModelError, match="NaN"):
            ask(model)


def test_exports_refuse_to_answer_too(model_folder, tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    for task in ("translate", "classify"):
        out = tmp_path / f"{task}-export"
        tt.load(model_folder(task), device="cpu").export(out)
        for path in out.glob("*.onnx"):
            graph = onnx.load(path)
            for weight in graph.graph.initializer:
                values = onnx.numpy_helper.to_array(weight)
                if values.dtype == np.float32 and values.size > 1:
                    spoiled = np.full_like(values, np.nan)
                    weight.CopyFrom(onnx.numpy_helper.from_array(spoiled, weight.name))
            path.write_bytes(graph.SerializeToString())
        model = tt.runtime.load(out, trust_changed=True)
        with pytest.raises(DamagedModelError, match="NaN"):
            model.translate("one two") if task == "translate" else model.classify("one two")


def test_commands_and_the_server_say_so(model_folder, throughtime):
    pytest.importorskip("fastapi")
    testclient = pytest.importorskip("fastapi.testclient")
    from throughtime.serve.app import create_app
    from throughtime.serve.models import Models
    from throughtime.serve.requests import Options

    folder = overflow(model_folder("classify"))
    ran = throughtime("classify", folder, "one two", "--trust-changed", "--json")
    assert ran.code == 1
    assert "NaN" in ran.json["error"]
    models = Models.open([folder], "cpu", trust_changed=True)
    with testclient.TestClient(create_app(models, Options(), log=io.StringIO())) as client:
        answer = client.post("/classify", json={"q": "one two"})
        assert answer.status_code == 500
        assert "NaN" in answer.json()["error"]
