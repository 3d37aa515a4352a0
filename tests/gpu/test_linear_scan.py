"""minGRU and minLSTM in one pass over memory, on the emulated GPU."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from tests.emulated import machine
from tests.refusals import refuses

from throughtime.cells import GRU, MinGRU, MinLSTM
from throughtime.gpu import driver, linear_scan
from throughtime.gpu.elements import KINDS
from throughtime.gpu.linear_scan import LinearScan
from throughtime.recurrence import scan
from throughtime.recurrence.backend import Reference
from throughtime.recurrence.backpropagation import scan_in_chunks

emulated = pytest.mark.skipif(machine.COMPILER is None, reason="no g++ on this machine")


@pytest.fixture(autouse=True)
def _emulated(monkeypatch):
    monkeypatch.setattr(driver, "build", machine.build)
    monkeypatch.setattr(driver, "limits", lambda device: (machine.MULTIPROCESSORS, machine.SHARED))
    linear_scan._prepare_kernel.cache_clear()
    small = partial(linear_scan.ScanSettings, warps=(2, 2), steps=(3, 3))  # tiles of 6 steps
    monkeypatch.setattr(linear_scan, "ScanSettings", small)


def everything(backend, cell, x, h, lengths, carry):
    outputs, (last,) = backend.run(cell, x, (h,), lengths, carry)
    source = torch.Generator().manual_seed(3)
    loss = sum((part * torch.randn(part.shape, generator=source)).sum() for part in (outputs, last))
    weights = cell.weights()
    return [outputs, last, *torch.autograd.grad(loss, [x, h, *weights.values()])]


@emulated
@pytest.mark.parametrize(
    ("steps", "batch", "hidden"),
    [
        (1, 1, 2),
        (12, 2, 70),  # two whole tiles, two strips of channels
        (23, 3, 6),  # whole tiles, then a part of one
        (36, 2, 64),  # more tiles than are on their way at once
    ],
)
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
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("make", [MinGRU, MinLSTM])
def test_chunks_of_ragged_rows_with_factors_equal_the_reference(make, reverse, monkeypatch):  # law 1
    monkeypatch.setattr(LinearScan, "refuses", lambda *given: None)
    torch.manual_seed(1)
    cell, x = make(3, 6), torch.randn(17, 4, 3, requires_grad=True)
    h, carry = torch.randn(4, 6, requires_grad=True), 2 * torch.rand(17, 4)
    lengths = torch.tensor([17, 0, 7, 8])
    found = []
    for backend in ("linear", "reference"):
        outputs, last = scan_in_chunks(
            cell, x, (h,), lengths, chunk=7, reverse=reverse, carry=carry, backend=backend
        )
        loss = outputs.square().sum() + last[0].sin().sum()
        found.append([outputs, *last, *torch.autograd.grad(loss, [x, h, *cell.parameters()])])
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)


def truth(cell, projected, h):
    outputs = []
    for a, u in zip(*cell.coefficients(projected), strict=True):
        h = a * h + u
        outputs.append(h)
    return torch.stack(outputs), h


@emulated
def test_bfloat16_runs_its_state_in_float32():
    torch.manual_seed(0)
    cell = MinGRU(4, 8).to(torch.bfloat16)
    x, h = torch.randn(200, 2, 4, dtype=torch.bfloat16), torch.zeros(2, 8, dtype=torch.bfloat16)
    ours = LinearScan().run(cell, x, (h,), None, None).outputs
    theirs, _ = truth(cell, cell.project(x).float(), h.float())
    torch.testing.assert_close(ours, theirs.to(torch.bfloat16))


def direct(cell, projected, h, **chosen):
    kind = KINDS[projected.dtype]
    return linear_scan.Scan.apply(
        projected,
        h,
        None,
        None,
        linear_scan.ScanSettings(linear_scan.CELLS[cell.equations], kind, 0, **chosen),
    )


@emulated
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("make", [MinGRU, MinLSTM])
def test_half_types_through_whole_tiles_and_a_part_of_one(make, dtype):
    torch.manual_seed(1)
    cell = make(3, 10)
    projected = (
        torch.randn(44, 2, linear_scan.PARTS[linear_scan.CELLS[make.equations]] * 10)
        .to(dtype)
        .requires_grad_()
    )
    h = torch.randn(2, 10, requires_grad=True)
    weight, last_weight = torch.randn(44, 2, 10).to(dtype), torch.randn(2, 10)

    def with_gradients(outputs, last):
        loss = (outputs.float() * weight.float()).sum() + (last * last_weight).sum()
        return [outputs.float(), last, *(g.float() for g in torch.autograd.grad(loss, [projected, h]))]

    ours = with_gradients(*direct(cell, projected, h))
    for mine, theirs in zip(ours, with_gradients(*truth(cell, projected.float(), h)), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2e-2, atol=2e-2)


@emulated
@pytest.mark.parametrize("make", [MinGRU, MinLSTM])
def test_gates_far_out_neither_overflow_nor_hide_nan(make):
    cell, far = make(1, 2), torch.tensor([-1000.0, -90.0, -20.0, 0.0, 20.0, 90.0, 1000.0])
    gates = torch.cartesian_prod(*[far] * (linear_scan.PARTS[linear_scan.CELLS[make.equations]] - 1))
    gates = gates.reshape(len(gates), 1, -1).repeat_interleave(2, dim=-1)
    projected = torch.cat([gates, torch.linspace(-2, 2, len(gates))[:, None, None].expand(-1, 1, 2)], -1)
    projected, h = projected.contiguous().requires_grad_(), torch.ones(1, 2)
    ours, theirs = (run(cell, projected, h)[0] for run in (direct, truth))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)
    ours, theirs = (torch.autograd.grad(outputs.sum(), projected)[0] for outputs in (ours, theirs))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)
    spoilt = projected.detach().clone()
    spoilt[3, 0, 0] = torch.nan
    outputs, _ = direct(cell, spoilt, h)
    assert outputs[3:, 0, 0].isnan().all()
    assert outputs[:3].isfinite().all()
    assert outputs[:, 0, 1].isfinite().all()


@emulated
def test_steps_and_stages_shrink_with_the_shared_memory(monkeypatch):
    built = []

    def build(name, files, constants, device):
        built.append(constants)
        return machine.build(name, files, constants, device)

    monkeypatch.setattr(driver, "build", build)
    cell, h = MinGRU(1, 4), torch.ones(1, 4)
    projected = torch.randn(20, 1, 8)
    for room, steps, stages in ((machine.SHARED, 4, 3), (21_500, 4, 2), (13_000, 2, 2), (6_700, 1, 1)):
        linear_scan._prepare_kernel.cache_clear()
        monkeypatch.setattr(driver, "limits", lambda device, room=room: (1, room))
        outputs, _ = direct(cell, projected, h, warps=(4, 4), steps=(4, 4))
        torch.testing.assert_close(outputs, truth(cell, projected, h)[0])
        assert (built[-1]["STEPS"], built[-1]["STAGES"]) == (steps, stages)
        assert built[-1]["SHARED_BYTES"] <= room


@emulated
def test_a_kernel_is_prepared_once(monkeypatch):
    asked = []
    monkeypatch.setattr(driver, "build", lambda *given: asked.append(given) or machine.build(*given))
    for _ in range(3):
        direct(MinGRU(1, 2), torch.zeros(2, 1, 4), torch.ones(1, 2))
    assert len(asked) == 1


def test_it_says_what_it_cannot_do():
    with refuses("backend 'linear'"):
        scan(MinGRU(3, 4), torch.zeros(2, 1, 3), backend="linear")
    elsewhere = torch.zeros(2, 1, 3, device="meta")
    assert "NVIDIA" in LinearScan().refuses(GRU(3, 4), elsewhere, None, None)
    wide = SimpleNamespace(device=torch.device("cuda"), dtype=torch.float32, shape=(1, 2**20, 3))
    assert "2 GB" in LinearScan().refuses(MinGRU(3, 256), wide, None, None)
