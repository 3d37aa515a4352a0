"""What a prediction does not import."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("task", ["language", "translate"])
def test_a_prediction_needs_neither_batches_nor_corpora(task: str) -> None:
    code = f"import sys, throughtime.tasks.{task}.predictor; print(*sys.modules)"
    modules = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    heavy = ("batching", "catalogue", "corpora", "dataset", "idcache", "readers", "source")
    assert not {f"throughtime.data.{name}" for name in heavy} & {*modules}
