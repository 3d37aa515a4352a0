"""The benchmark of all tasks: what can be checked of it without a GPU."""

from __future__ import annotations

import itertools

import pytest
import torch
from benchmarks.tasks_cases import CASES, create
from benchmarks.tasks_gpu import describe, measure
from benchmarks.tasks_plain import PlainTraining, build_plain

from throughtime.tasks import TASKS

CPU = torch.device("cpu")
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def test_every_trained_task_is_measured() -> None:
    trained = {name for name in TASKS if TASKS[name].uses_trainer}
    assert {case.task for case in CASES} == trained


@cases
def test_both_sides_train_models_of_one_size(case) -> None:
    row = measure(case, CPU, 0.0, tiny=True)
    assert row["data"] == "embedded"
    assert all(row[side]["speed"] > 0 for side in ("ours", "plain"))
    assert row["plain"]["weights"] == pytest.approx(row["ours"]["weights"], rel=0.1)
    assert case.name in describe(row)


@cases
def test_the_plain_loop_learns(case) -> None:
    torch.manual_seed(0)
    predictor, dataset, _ = create(case, CPU, tiny=True)
    hosts = list(itertools.islice(predictor.build_objective(dataset).batches(0, 1), 1))
    plain = PlainTraining(build_plain(case.task, predictor), hosts, predictor.config, CPU)
    before = float(plain.model.eval().loss(hosts[0], hosts[0]).detach())
    plain.model.train()
    for _ in range(15):
        assert plain.update() == hosts[0].count
    assert float(plain.model.eval().loss(hosts[0], hosts[0]).detach()) < before
