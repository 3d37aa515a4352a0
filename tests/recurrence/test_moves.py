"""Several copies in one launch, on the emulated GPU."""

from __future__ import annotations

import pytest
import torch
from tests.emulated import machine
from torch.nn.functional import pad

from throughtime.kernels import driver
from throughtime.recurrence import batched_copies as moves
from throughtime.recurrence.batched_copies import Moves

pytestmark = pytest.mark.skipif(machine.COMPILER is None, reason="no g++ on this machine")


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    monkeypatch.setattr(driver, "build", machine.build)
    monkeypatch.setattr(moves, "WARPS", 2)
    monkeypatch.setattr(moves, "FILLED", 1 << 10)
    moves._prepare_kernel.cache_clear()
    yield
    moves._prepare_kernel.cache_clear()


def numbers(dtype, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("size", "width"), [(5, 8), (64, 72), (65, 72), (130, 136)])
def test_what_is_made_wide_is_padded_with_zeros_and_comes_back(size, width, dtype):
    todo = Moves(dtype.itemsize, -1)
    rows, bias = numbers(dtype, 3, 23, size), numbers(dtype, 4 * size)
    weight = numbers(dtype, 3 * size, 67)
    wide_rows, wide_bias = todo.widen(rows, size, width), todo.widen(bias, size, width)
    wide_weight = todo.widen_gates(weight, size, width, 72)
    todo.launch()
    missing = width - size
    assert torch.equal(wide_rows, pad(rows, (0, missing)))
    assert torch.equal(wide_bias, pad(bias.view(4, size), (0, missing)).flatten())
    assert torch.equal(wide_weight, pad(weight.view(3, size, 67), (0, 5, 0, missing)).flatten(0, 1))
    back = todo.tighten(wide_rows, size, width), todo.tighten(wide_bias, size, width)
    gates = todo.tighten_gates(wide_weight, size, width, 67)
    turned = todo.tighten_gates(wide_weight, size, width, 67, first=1)
    todo.launch()
    assert torch.equal(back[0], rows)
    assert torch.equal(back[1], bias)
    assert torch.equal(gates, weight)
    assert torch.equal(turned, weight.roll(-size, 0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_become_columns_beside_others(dtype):
    weight, todo = numbers(dtype, 150, 72), Moves(dtype.itemsize, -1)
    into = torch.full((72, 150), 7.0, dtype=dtype)
    todo.transpose(into.data_ptr(), weight, 100, 150, 150)
    todo.transpose(into.data_ptr() + 50 * dtype.itemsize, weight, 0, 70, 150)
    todo.launch()
    assert torch.equal(into, torch.cat([weight[100:], weight[:70], torch.full((30, 72), 7.0)]).to(dtype).t())


def test_void_is_as_long_as_asked_for():
    memory, todo = torch.zeros(1000, dtype=torch.int32), Moves(2, -1)
    begin = memory.data_ptr() + 16
    todo.mark_unwritten(begin, 3 * 1024 + 16)
    todo.launch()
    assert memory[4:776].eq(-1).all()
    assert memory[:4].eq(0).all()
    assert memory[776:].eq(0).all()


def test_what_lacks_nothing_is_copied_only_from_where_no_line_of_16_bytes_begins():
    whole = torch.arange(65.0)
    todo = Moves(4, -1)
    assert todo.widen(whole[4:60].view(7, 8), 8, 8).data_ptr() == whole.data_ptr() + 16
    moved = todo.widen(whole[1:57].view(7, 8), 8, 8)
    columns = todo.widen(whole[:64].view(8, 8).t(), 8, 8)
    todo.launch()
    assert moved.data_ptr() % 16 == 0
    assert torch.equal(moved.flatten(), whole[1:57])
    assert torch.equal(columns, whole[:64].view(8, 8).t())


def test_a_launch_of_nothing_builds_nothing(monkeypatch):
    monkeypatch.setattr(driver, "build", None)
    Moves(4, -1).launch()
