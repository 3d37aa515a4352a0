"""Loading a model and predicting imports neither the trainer, the downloader nor the CUDA driver."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.forked import run_forked
from tests.tiny import tiny_data, training

from throughtime.cli.main import main
from throughtime.tasks import TASKS

HEAVY = ("throughtime.fit.trainer", "throughtime.data.download", "throughtime.gpu.driver")
PREDICT = {
    "ngram": 'model.generate("one two")',
    "language": 'model.generate("one two")',
    "translate": 'model.translate(["one two"])',
    "tag": 'model.tag(["one two"])',
    "fill": 'model.fill("one ___ three")',
    "classify": 'model.classify(["one two"])',
    "compose": 'model.compose(["even"])',
    "forecast": "model.forecast()",
}
SCRIPT = """
import json, sys
import throughtime as tt
model = tt.load({run!r}, device="cpu")
assert {predict}
print(json.dumps([name for name in {heavy!r} if name in sys.modules]))
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny_data(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("task", TASKS)
def test_loading_a_model_imports_nothing_of_training(task, data, tmp_path):
    run = tmp_path / "run"
    assert main(training(task, data[task], run, **({} if task == "ngram" else {"epochs": 1}))) == 0
    script = SCRIPT.format(run=str(run), predict=PREDICT[task], heavy=HEAVY)
    ran = run_forked(script)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == []


def test_settings_of_training_need_no_torch():
    script = 'import sys, throughtime.fit.config; print("torch" in sys.modules)'
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


@pytest.mark.parametrize("task", ["classify", "compose", "fill", "language", "ngram"])
def test_importing_a_model_imports_no_batches_measures_or_objectives(task):
    parts = ("data.batching", "metrics", "graphs", "fit.objective", f"tasks.{task}.training")
    script = f"""
import sys, {TASKS[task].predictor.partition(":")[0]}
print([name for name in sys.modules if name.startswith({tuple(f"throughtime.{part}" for part in parts)!r})])
"""
    ran = run_forked(script)
    assert ran.stdout.strip() == "[]"
