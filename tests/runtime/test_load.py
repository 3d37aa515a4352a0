"""The runner needs no torch, and says in a sentence what is wrong with a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial

import pytest
from tests.graphs import untrained
from tests.refusals import refuses

import throughtime as tt
from throughtime.api import export
from throughtime.errors import ThroughtimeError
from throughtime.tasks import TASKS

PROGRAM = """
import sys
import throughtime as tt
for task, folder in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
    model = tt.runtime.load(folder, threads=1)
    answers = {
        "translate": lambda: model.translate(["the cat"], num_beams=2, max_length=5)[0].text,
        "language": lambda: model.generate("the", max_new_tokens=4, greedy=True)[0].text,
        "tag": lambda: " ".join(model.tag(["the cat"])[0].tags),
        "classify": lambda: model.classify(["the cat"])[0].label,
        "fill": lambda: model.fill("the ___")[0].text,
        "compose": lambda: model.compose("sea", seed=1, max_new_tokens=4)[0].text.replace("\\n", " "),
        "forecast": lambda: str(len(model.forecast({"new": [n % 7 for n in range(30)]})[0].mean)),
    }
    print(answers[task]())
heavy = {"torch", "pydantic", "onnx", "rich", "typer", "sacrebleu", "safetensors", "ruamel", "matplotlib"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
MAKERS = {
    "translate": partial(untrained.translator, tokens="bpe", max_size=300),
    "language": untrained.language,
    "tag": untrained.tagger,
    "classify": untrained.classifier,
    "fill": untrained.filler,
    "compose": untrained.composer,
    "forecast": untrained.forecaster,
}


@pytest.fixture
def exported(tmp_path):
    export(untrained.language(tmp_path), tmp_path / "exported")
    return tmp_path / "exported"


def test_no_task_needs_torch_to_run(tmp_path):
    assert set(MAKERS) == {name for name in TASKS if TASKS[name].runner}
    runs = {task: make(tmp_path) for task, make in MAKERS.items()}
    words = []
    for task, run in runs.items():
        export(run, tmp_path / f"exported-{task}")
        words += [task, str(tmp_path / f"exported-{task}")]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers = dict(zip(runs, done.stdout.splitlines(), strict=True))
    model = tt.load(runs["translate"], device="cpu")
    assert answers["translate"] == model.translate(["the cat"], num_beams=2, max_length=5)[0].text
    assert answers["language"].startswith("the")
    assert answers["classify"] == tt.load(runs["classify"], device="cpu").classify(["the cat"])[0].label
    assert answers["forecast"] == "6"


def test_nobody_is_told_of_what_runs(tmp_path):
    """onnxruntime would keep what it tells its makers in the user's cache until it is sent."""
    silent = {"CI", "GITHUB_ACTIONS", "TF_BUILD", "ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS"}
    own = {name: value for name, value in os.environ.items() if name not in silent}
    own |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    program = "from throughtime.runtime.session import import_onnxruntime; import_onnxruntime()"
    subprocess.run([sys.executable, "-c", program], env=own, check=True)
    assert not [path for path in tmp_path.rglob("*") if "onnxruntime" in path.name]


def test_a_folder_that_is_no_export_is_refused(tmp_path):
    with refuses("none"):
        tt.runtime.load(tmp_path / "none")
    with refuses(tmp_path, "export.json"):
        tt.runtime.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"format": "another"}, ("export.json", "throughtime export")),
        ({"version": 99}, ("export.json", "99", "1")),
        ({"task": "dance"}, ("task", "'dance'")),
        ({"parts": {"model": "gone.onnx"}}, ("gone.onnx",)),
    ],
)
def test_a_foreign_or_torn_folder_is_refused(exported, change, facts):
    values = json.loads((exported / "export.json").read_text())
    (exported / "export.json").write_text(json.dumps(values | change))
    with refuses(*facts):
        tt.runtime.load(exported, trust_changed=True)


def test_a_torn_graph_is_refused(exported):
    (exported / "model.onnx").write_bytes(b"half a gra")
    with refuses("model.onnx", error=ThroughtimeError):
        tt.runtime.load(exported, trust_changed=True)


def test_threads_are_counted_from_one(exported):
    with refuses("threads", "0", "1"):
        tt.runtime.load(exported, threads=0)


def test_an_exported_model_tells_where_it_is_from_and_what_it_can_do(exported):
    model = tt.runtime.load(exported)
    assert repr(model).startswith(f"<LanguageModelRunner from {exported}: float32, ")
    with refuses("'language'", "'tag'", "generate", "score", error=AttributeError):
        model.tag("a")
