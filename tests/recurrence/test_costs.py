"""`auto` on a GPU follows what was measured there, and nothing else."""

from __future__ import annotations

import json

import pytest
import torch

from throughtime.cells import GRU, LSTM, MinGRU
from throughtime.kernels.elements import ElementKind
from throughtime.recurrence import costs
from throughtime.recurrence.persistent_plan import Form, KernelTask, Plan

TASK = KernelTask(Form.LSTM, ElementKind.BF16, 256, 16, backward=True)


class OnGpu:
    """What the choice asks of a tensor."""

    device, dtype, shape = torch.device("cuda"), torch.bfloat16, (64, 16, 3)

    @staticmethod
    def get_device():
        return 0


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Write figures for the GPU of this test."""
    monkeypatch.setattr(costs, "gpu", lambda device: "Test GPU")
    monkeypatch.setenv("THROUGHTIME_CACHE", str(tmp_path))
    costs.forget()

    def write(found):
        costs.own_file().parent.mkdir(parents=True, exist_ok=True)
        costs.own_file().write_text(json.dumps({"Test GPU": found}))
        costs.forget()

    yield write
    costs.forget()


def test_where_nothing_was_measured_our_kernels_wait(measured):
    assert costs.find_break_even("persistent", LSTM(3, 4), OnGpu, trains=True) == costs.NEVER
    assert costs.find_break_even("linear", MinGRU(3, 4), OnGpu, trains=True) == costs.NEVER
    assert costs.find_break_even("native", LSTM(3, 4), OnGpu, trains=True) == 0


def test_the_nearest_shape_decides(measured):
    measured({"persistent": {"lstm bfloat16 trained": [[256, 16, 35], [1500, 16, None]]}})
    assert costs.find_break_even("persistent", LSTM(3, 200), OnGpu, trains=True) == 35
    assert costs.find_break_even("persistent", LSTM(3, 1100), OnGpu, trains=True) == costs.NEVER
    assert costs.find_break_even("persistent", LSTM(3, 200), OnGpu, trains=False) == costs.NEVER
    assert costs.find_break_even("persistent", GRU(3, 200), OnGpu, trains=True) == costs.NEVER


@pytest.mark.parametrize(("layers", "steps"), [(1, 35), (2, 128), (3, costs.NEVER), (8, costs.NEVER)])
def test_the_number_of_layers_takes_its_column(measured, layers, steps):
    measured({"persistent": {"lstm bfloat16 trained": [[256, 16, 35, 128, None]]}})
    assert costs.find_break_even("persistent", LSTM(3, 256), OnGpu, trains=True, layers=layers) == steps
    assert costs.find_break_even("native", LSTM(3, 256), OnGpu, trains=True, layers=layers) == 0


@pytest.mark.parametrize("layers", [1, 2, 3, 8])
def test_figures_from_before_layers_counted_serve_any_number(measured, layers):
    measured({"persistent": {"lstm bfloat16 trained": [[256, 16, 35], [1500, 16, None]]}})
    assert costs.find_break_even("persistent", LSTM(3, 256), OnGpu, trains=True, layers=layers) == 35
    assert (
        costs.find_break_even("persistent", LSTM(3, 1500), OnGpu, trains=True, layers=layers) == costs.NEVER
    )


def test_a_plan_that_was_measured_to_be_best_is_taken(measured):
    assert costs.plan(0, TASK) is None
    measured({"plans": {costs.plan_name(TASK): {"units": 32, "rows": 16, "pause": 200}}})
    assert costs.plan(0, TASK) == Plan(units=32, rows=16, pause=200)


def test_the_figures_that_come_along_can_be_read():
    from pathlib import Path

    table = json.loads(Path(costs.__file__).with_name("costs.json").read_text())
    for found in table.values():
        assert set(found) <= {*costs.GPU_ONLY, "plans"}
        for numbers in found.get("plans", {}).values():
            Plan(**numbers)
        for backend in costs.GPU_ONLY:
            for row in (row for rows in found[backend].values() for row in rows):
                steps = [costs.NEVER if number is None else number for number in row[2:]]
                assert len(steps) == 3
                assert steps == sorted(steps)  # what pays with three layers pays with one
