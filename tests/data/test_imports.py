"""What a prediction does not import."""

from __future__ import annotations

import pytest
from tests.forked import run_forked

from throughtime.tasks import TASKS


@pytest.mark.parametrize("task", ["language", "translate"])
def test_a_prediction_needs_neither_batches_nor_corpora(task: str) -> None:
    module = TASKS[task].predictor.partition(":")[0]
    code = f"import sys, {module}; print(*sys.modules)"
    modules = run_forked(code).stdout.split()
    heavy = ("batching", "catalogue", "corpora", "dataset", "idcache", "readers", "source")
    assert module in modules
    assert not {f"throughtime.data.{name}" for name in heavy} & {*modules}
