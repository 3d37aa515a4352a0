"""minGRU and minLSTM in one pass over memory, on the emulated GPU."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from tests.recurrence.emulated import machine

from throughtime.cells import GRU, MinGRU, MinLSTM
from throughtime.errors import InputError
from throughtime.recurrence import linear_scan, scan
from throughtime.recurrence.kernels import driver
from throughtime.recurrence.linear_scan import LinearScan
from throughtime.recurrence.reference import Reference

emulated = pytest.mark.skipif(machine.COMPILER is None, reason="no g++ on this machine")


@pytest.fixture(autouse=True)
def _emulated(monkeypatch):
    monkeypatch.setattr(driver, "build", machine.build)
    small = partial(linear_scan.Settings, warps=(2, 2), steps=(3, 3))  # tiles of 6 steps
    monkeypatch.setattr(linear_scan, "Settings", small)


def everything(backend, cell, x, h, lengths, carry):
    outputs, (last,) = backend.run(cell, x, (h,), lengths, carry)
    source = torch.Generator().manual_seed(3)
    loss = sum((part * torch.randn(part.shape, generator=source)).sum() for part in (outputs, last))
    weights = cell.weights()
    return [outputs, last, *torch.autograd.grad(loss, [x, h, *weights.values()])]


@emulated
@pytest.mark.parametrize(("steps", "batch", "hidden"), [(1, 1, 2), (23, 3, 6), (12, 2, 70)])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("make", [MinGRU, MinLSTM])
def test_it_equals_the_reference(make, ragged, steps, batch, hidden):  # laws 1 and 4, R105
    torch.manual_seed(steps)
    cell = make(3, hidden)
    x = torch.randn(steps, batch, 3, requires_grad=True)
    h = torch.randn(batch, hidden, requires_grad=True)
    lengths = torch.randint(0, steps + 1, (batch,)) if ragged else None
    carry = torch.rand(steps, batch) * 2 if ragged else None
    ours = everything(LinearScan(), cell, x, h, lengths, carry)
    for mine, truth in zip(ours, everything(Reference(), cell, x, h, lengths, carry), strict=True):
        torch.testing.assert_close(mine, truth, rtol=1e-5, atol=1e-5)


@emulated
def test_bfloat16_runs_its_state_in_float32():
    torch.manual_seed(0)
    cell = MinGRU(4, 8).to(torch.bfloat16)
    x, h = torch.randn(200, 2, 4, dtype=torch.bfloat16), torch.zeros(2, 8, dtype=torch.bfloat16)
    ours = LinearScan().run(cell, x, (h,), None, None).outputs
    decay, drive = cell.coefficients(cell.project(x).float())
    state, truth = h.float(), []
    for a, u in zip(decay, drive, strict=True):
        state = a * state + u
        truth.append(state)
    torch.testing.assert_close(ours, torch.stack(truth).to(torch.bfloat16))


def test_it_says_what_it_cannot_do():
    with pytest.raises(InputError, match="NVIDIA GPUs only"):
        scan(MinGRU(3, 4), torch.zeros(2, 1, 3), backend="linear")
    elsewhere = torch.zeros(2, 1, 3, device="meta")
    assert "NVIDIA" in LinearScan().refuses(GRU(3, 4), elsewhere, None, None)
