"""What `auto` takes."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from throughtime.cells import CELLS, GRU, LSTM, RNN, CoupledLSTM, MinGRU
from throughtime.recurrence import BACKENDS, scan
from throughtime.recurrence.choice import SPEED, choose_backend, rank_backends

LENGTHS = torch.tensor([3, 2])


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize(
    ("cell", "backend"),
    [
        (LSTM(3, 4), "native"),
        (GRU(3, 4), "fused"),
        (GRU(3, 4, reset="before"), "fused"),
        (RNN(3, 4), "fused"),
        (RNN(3, 4, torch.sin), "reference"),
        (MinGRU(3, 4), "associative"),
        (CoupledLSTM(3, 4), "reference"),
    ],
)
def test_training_runs_on_the_measured_best(cell, lengths, backend):
    assert choose_backend(cell, torch.zeros(64, 2, 3), lengths, None).name == backend


@pytest.mark.parametrize("cell", [GRU(3, 4), RNN(3, 4)])
@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("ragged", [True, False])
def test_the_table_decides(cell, trains, batch, ragged, monkeypatch):
    column = 4 * (not trains) + 2 * (batch == 1) + ragged
    x, lengths = torch.zeros(3, batch, 3), LENGTHS[:batch] if ragged else None
    for best, other in (("native", "fused"), ("fused", "native")):
        speeds = {best: [1.0] * 8, other: [2.0] * 8}
        speeds[best][column], speeds[other][column] = 2.0, 1.0
        monkeypatch.setitem(SPEED, cell.equations, {name: tuple(row) for name, row in speeds.items()})
        with torch.set_grad_enabled(trains):
            assert rank_backends(cell, x, lengths)[0] == best


def test_what_cannot_get_a_gradient_is_not_training(monkeypatch):
    cell, x = GRU(3, 4), torch.zeros(64, 2, 3)
    monkeypatch.setitem(SPEED, "gru", {"fused": (2.0,) * 4 + (0.5,) * 4, "native": (1.0,) * 8})
    assert choose_backend(cell, x, None, None).name == "fused"
    assert choose_backend(cell.requires_grad_(False), x, None, None).name == "native"
    assert choose_backend(cell, x.requires_grad_(), None, None).name == "fused"


def test_a_measured_backend_that_refuses_is_passed_over():
    x, carry = torch.zeros(64, 2, 3), torch.ones(64, 2)
    assert choose_backend(LSTM(3, 4), x, None, carry).name == "reference"
    assert choose_backend(GRU(3, 4), x, None, carry).name == "fused"


@pytest.mark.parametrize(
    ("cell", "few"),
    [(LSTM(3, 4), "reference"), (GRU(3, 4), "native"), (RNN(3, 4), "native"), (MinGRU(3, 4), "reference")],
)
def test_few_steps_do_not_pay_for_what_many_do(cell, few):
    assert choose_backend(cell, torch.zeros(1, 2, 3), None, None).name == few
    assert choose_backend(cell, torch.zeros(64, 2, 3), None, None).name != few


def test_elsewhere_than_on_a_cpu_the_order_is_that_of_the_table_of_backends():
    x = torch.zeros(3, 2, 3, device="meta")
    assert list(rank_backends(GRU(3, 4), x, None)) == list(BACKENDS)


@pytest.mark.parametrize("name", CELLS)
def test_the_reference_serves_all(name):
    cell = CELLS[name](3, 4)
    assert scan(cell, torch.zeros(3, 2, 3), backend="reference").outputs.shape[:2] == (3, 2)
    assert list(BACKENDS)[-1] == "reference"


def test_on_a_cpu_no_code_for_gpus_is_imported():
    code = """
import sys, torch
from throughtime.cells import GRU, LSTM, MinGRU
from throughtime.layers.stack import Stack
from throughtime.fit import learner, trainer
for cell in (GRU(3, 4), LSTM(3, 4), MinGRU(3, 4)):
    cell(torch.zeros(20, 2, 3, requires_grad=True))
Stack("lstm", 3, 4, 2)(torch.zeros(20, 2, 3))
print(*(name for name in sys.modules if name.startswith("throughtime.")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = ("persistent", "linear_scan", "choice", "timing", "trials", "batched_copies")
    gpu = ("gpu.driver", "gpu.cuda_graphs", *(f"gpu.{name}" for name in modules))
    assert [name for name in done.stdout.split() if name.removeprefix("throughtime.").startswith(gpu)] == []
