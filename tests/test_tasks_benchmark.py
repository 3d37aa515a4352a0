"""The benchmark of all tasks: what can be checked of it without a GPU."""

from __future__ import annotations

import itertools
import json

import pytest
import torch
from benchmarks.device_time import add_intervals, read_kernel_seconds
from benchmarks.tasks_cases import CASES, create
from benchmarks.tasks_gpu import compare_sides, describe, measure
from benchmarks.tasks_plain import PlainChain, PlainTraining, build_plain
from hypothesis import given
from hypothesis import strategies as st

from throughtime.layers.crf import LinearChain
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


def test_the_plain_chain_is_a_chain() -> None:
    torch.manual_seed(0)
    ours, plain = LinearChain(4), PlainChain(4)
    for own in ours.parameters():
        torch.nn.init.normal_(own)
    plain.load_state_dict(ours.state_dict())
    scores, lengths = torch.randn(5, 3, 4), torch.tensor([5, 1, 3])
    tags = torch.randint(4, (5, 3))
    inside = torch.arange(5)[:, None] < lengths
    torch.testing.assert_close(plain(scores, tags, inside), ours.surprisals(scores, tags, lengths).sum())


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9))))
def test_union_of_intervals(starts) -> None:
    covered = {second for start, length in starts for second in range(start, start + length)}
    assert add_intervals((start, start + length) for start, length in starts) == len(covered)


def test_kernels_of_a_trace(tmp_path) -> None:
    rows = [
        ("kernel", 10.0, 5.0),
        ("gpu_memcpy", 0.0, 99.0),
        ("kernel", 12.0, 5.0),
        ("gpu_user_annotation", 0, 9),
    ]
    events = [{"cat": cat, "ts": ts, "dur": dur, "name": "any"} for cat, ts, dur in rows]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [{"name": "process_name"}, *events]}))
    assert read_kernel_seconds(path) == pytest.approx(7e-6)


def test_aims() -> None:
    plain = {"speed": 100.0, "idle": 0.9, "allocated": 100.0, "reserved": 200.0}
    ours = {"speed": 310.0, "idle": 0.16, "allocated": 120.0, "reserved": 260.0}
    found = compare_sides(ours, plain)
    assert found["met"] == {"speed": True, "idle": False, "allocated": True, "reserved": False}
    assert found["speed_ratio"] == pytest.approx(3.1)
